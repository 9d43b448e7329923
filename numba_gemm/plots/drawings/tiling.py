"""The tiling: which part of A and of B a block needs for its tile of C, and in which steps."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from numba_gemm.plots import style
from numba_gemm.plots.subjects import TILE, TILING


def draw() -> Figure:
    """A on the left, B above, C where their strips cross; the tiles that one step copies are filled."""
    tile = TILE
    down, across, steps = TILING
    m, n, k = down * tile.bm, across * tile.bn, steps * tile.bk
    made = style.figure(
        5.6,
        f"A block computes {tile.bm}×{tile.bn} outputs, and walks K in steps of {tile.bk}",
        f"Drawn from Tile: {tile}. {m}×{n}×{k}; K is drawn wider than it is. The strip of A serves all columns of the "
        f"tile, that of B all its rows: {tile.bm}·{tile.bn}·{tile.bk} multiply-adds for "
        f"({tile.bm} + {tile.bn})·{tile.bk} floats a step.",
    )
    axes = style.blank(made.subplots())
    block_m, block_n = down // 2, across // 2
    step = steps // 2
    deep, gap = tile.bm / 2.5, tile.bm / 3
    left, top = steps * deep + gap, steps * deep + gap
    _matrix(axes, left, top, down, across, tile.bm, tile.bn)
    _matrix(axes, 0, top, down, steps, tile.bm, deep)
    _matrix(axes, left, 0, steps, across, deep, tile.bn)
    row, column = top + block_m * tile.bm, left + block_n * tile.bn
    for s in range(steps):
        chosen = s == step
        style.cell(axes, s * deep, row, deep, tile.bm, style.BLUE if chosen else style.FAINT, "As" if chosen else "",
                   size=style.NORMAL)  # fmt: skip
        style.cell(axes, column, s * deep, tile.bn, deep, style.ORANGE if chosen else style.FAINT,
                   "Bs" if chosen else "", size=style.NORMAL)  # fmt: skip
    style.cell(axes, column, row, tile.bn, tile.bm, style.GREEN, f"one\nblock:\n{tile.threads}\nthreads",
               size=style.SMALL)  # fmt: skip

    def name(text: str, x: float, y: float, **options: Any) -> None:
        axes.text(x, y, text, fontsize=style.NORMAL, **({"ha": "center", "va": "center"} | options))

    edge = gap / 4
    name(f"A   {m}×{k}", left / 2 - gap / 2, top + down * tile.bm + edge, va="top")
    name(f"C   {m}×{n}", left + across * tile.bn / 2, top + down * tile.bm + edge, va="top")
    name(f"B   {k}×{n}", left + across * tile.bn + edge, steps * deep / 2, ha="left")
    name(f"BM = {tile.bm}", left + across * tile.bn + edge, row + tile.bm / 2, ha="left")
    name(f"BN = {tile.bn}", column + tile.bn / 2, -edge, va="bottom")
    name(f"BK = {tile.bk}", step * deep + deep / 2, top - edge, va="bottom")
    axes.set_xlim(-gap / 2, left + across * tile.bn + 2 * gap)
    axes.set_ylim(top + down * tile.bm + gap, -gap)
    return made


def _matrix(axes: Axes, x: float, y: float, down: int, across: int, height: float, width: float) -> None:
    for i in range(down):
        for j in range(across):
            style.cell(axes, x + j * width, y + i * height, width, height)
