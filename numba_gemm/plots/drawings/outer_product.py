"""The outer product: the larger a thread's tile, the fewer floats for each multiply-add."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from numba_gemm import ladder
from numba_gemm.analysis.models.traffic import reuse
from numba_gemm.plots import style
from numba_gemm.plots.subjects import REUSE


def draw() -> Figure:
    """For some rungs, one step of k of one thread: a column of A times a row of B."""
    made = style.figure(
        3.9,
        "One step of k in one thread: a column of A times a row of B",
        "From the rungs' tiles. Each float that a thread reads from shared memory serves a whole row or column of its "
        "outputs, which stay in registers.",
    )
    tiles = [(ladder.find(name), ladder.find(name).default_tile) for name in REUSE]
    widest, highest = max(tile.tn for _, tile in tiles), max(tile.tm for _, tile in tiles)
    for axes, (version, tile) in zip(made.subplots(1, len(tiles)), tiles, strict=True):
        _product(style.blank(axes), tile.tm, tile.tn)
        axes.set_xlim(-2.5, widest + 0.5)
        axes.set_ylim(highest + 0.5, -2.5)
        axes.set_title(
            f"{version}\n{tile.tm} + {tile.tn} floats for {tile.tm * tile.tn} FFMA\n"
            f"{reuse(tile.tm, tile.tn):.3g} FFMA a float"
        )
    return made


def _product(axes: Axes, tm: int, tn: int) -> None:
    for i in range(tm):
        style.cell(axes, -1.6, i, 1, 1, style.BLUE, "a", size=style.TINY)
        for j in range(tn):
            style.cell(axes, j, i, 1, 1, style.GREEN, "+", size=style.TINY)
    for j in range(tn):
        style.cell(axes, j, -1.6, 1, 1, style.ORANGE, "b", size=style.TINY)
