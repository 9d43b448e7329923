"""Warps in a block and lanes in a warp, as the kernels' own stores to C place them."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from numba_gemm import ladder
from numba_gemm.plots import style
from numba_gemm.plots.outputs import Outputs, outputs
from numba_gemm.plots.rectangles import rectangles
from numba_gemm.plots.subjects import LANES


def draw() -> Figure:
    """A row for each version: the block by warps, the first warp by lanes, and the first lane's outputs."""
    made = style.figure(
        6.6,
        "A squarer warp needs fewer floats for as many multiply-adds",
        "From the addresses that each thread stores to when the kernel is traced. Left: numbers are warps. Right: the "
        "outputs of the first warp; numbers are lanes, and orange with a hatch is all that the first lane computes. "
        "Where a lane has several groups, only the first of each is numbered.",
    )
    for axes, name in zip(made.subplots(len(LANES), 2), LANES, strict=True):
        version, found = ladder.find(name), outputs(name)
        _warps(axes[0], found)
        axes[0].set_title(f"{version}: block {found.tile.bm}×{found.tile.bn}")
        mine = found.warp == 0
        rows, columns = found.rows_and_columns(mine)
        _lanes(axes[1], found)
        axes[1].set_title(f"warp: {rows} + {columns} floats for {mine.sum()} multiply-adds a k")
    return made


def _warps(axes: Axes, found: Outputs) -> None:
    style.blank(axes)
    for warp in range(int(found.warp.max()) + 1):
        for x, y, width, height in rectangles(found.warp == warp):
            style.cell(
                axes, x, y, width, height, style.BLUE if warp == 0 else style.FAINT, str(warp), size=style.NORMAL
            )
    style.limits(axes, found.tile.bn, found.tile.bm, 1)


def _lanes(axes: Axes, found: Outputs) -> None:
    style.blank(axes)
    mine = found.warp == 0
    rows, columns = np.flatnonzero(mine.any(axis=1)), np.flatnonzero(mine.any(axis=0))
    lane = found.lane[np.ix_(rows, columns)]
    for number in np.unique(lane):
        for place, (x, y, width, height) in enumerate(rectangles(lane == number)):
            first = number == 0
            style.cell(axes, x, y, width, height, style.ORANGE if first else style.FAINT,
                       str(number) if place == 0 else "", size=style.TINY, hatch=style.HATCH if first else None,
                       linewidth=0.3)  # fmt: skip
    style.limits(axes, len(columns), len(rows), 1)
