"""Padding: whole tiles over a ragged shape, and the work that is for nothing."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from numba_gemm.analysis.models.padding import padding
from numba_gemm.plots import style
from numba_gemm.plots.subjects import RAGGED, TILE

#: How many times K is drawn as long as it is.
DEEP = 4


def draw() -> Figure:
    """A, B and C with what is padded hatched."""
    m, n, k = RAGGED
    found = padding(m, n, k, TILE)
    made = style.figure(
        4.4,
        f"{m}×{n}×{k} in whole tiles of {TILE.bm}×{TILE.bn}×{TILE.bk}: {found.work:.2f} times the multiply-adds",
        f"From analysis.padding: {found.m}×{found.n}×{found.k}, {found.grid_m}×{found.grid_n} blocks of "
        f"{found.segments} steps. Hatched: zeros that are copied and multiplied, and outputs that are dropped. "
        f"Of the rows of the tiles, {found.useful_rows:.0%} are C's. K is drawn {DEEP} times as long as it is.",
    )
    axes = style.blank(made.subplots())
    gap = TILE.bm / 3
    left, top = found.k * DEEP + gap, found.k * DEEP + gap
    _matrix(axes, left, top, (n, m), (found.n, found.m), (TILE.bn, TILE.bm), style.GREEN, f"C {m}×{n}")
    _matrix(axes, 0, top, (k * DEEP, m), (found.k * DEEP, found.m), (TILE.bk * DEEP, TILE.bm), style.BLUE, f"A {m}×{k}")
    _matrix(axes, left, 0, (n, k * DEEP), (found.n, found.k * DEEP), (TILE.bn, TILE.bk * DEEP), style.ORANGE,
            f"B {k}×{n}")  # fmt: skip
    axes.set_xlim(-gap, left + found.n + gap)
    axes.set_ylim(top + found.m + gap, -gap / 4)
    return made


def _matrix(
    axes: Axes,
    x: float,
    y: float,
    size: tuple[int, int],
    padded: tuple[int, int],
    tile: tuple[int, int],
    colour: str,
    text: str,
) -> None:
    """The true part filled, the padded one hatched, and the borders of tiles."""
    style.cell(axes, x, y, *padded, style.FAINT, hatch=style.HATCH)
    style.cell(axes, x, y, *size, colour)
    for line in range(0, padded[0] + 1, tile[0]):
        axes.plot([x + line] * 2, [y, y + padded[1]], color=style.GREY, linewidth=1.2)
    for line in range(0, padded[1] + 1, tile[1]):
        axes.plot([x, x + padded[0]], [y + line] * 2, color=style.GREY, linewidth=1.2)
    axes.text(x + padded[0] / 2, y + padded[1] + TILE.bm / 12, text, ha="center", va="top")
