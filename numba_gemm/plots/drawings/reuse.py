"""The pyramid of reuse: how many multiply-adds each float serves that a block, a warp or a thread fetches."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from numba_gemm import ladder
from numba_gemm.analysis.models.traffic import reuse
from numba_gemm.plots import style
from numba_gemm.plots.outputs import Outputs, outputs
from numba_gemm.plots.subjects import REUSE

#: Level of the pyramid, whose outputs, and from where its floats come.
LEVELS = (
    ("thread", "from shared memory to its registers"),
    ("warp", "from shared memory to all its lanes"),
    ("block", "from global to shared memory"),
)
COLOURS = (style.GREEN, style.ORANGE, style.BLUE)


def draw() -> Figure:
    """Three levels per version; widths are in proportion to the multiply-adds per float."""
    made = style.figure(
        3.6,
        "Reuse grows from the thread to the block, and with each rung",
        "Multiply-adds for each different float that the level fetches, rows·columns / (rows + columns) of its "
        "outputs; these from the addresses that threads store to when the kernel is traced. "
        + " ".join(f"{level.capitalize()}: {way}." for level, way in LEVELS),
    )
    levels = {name: _levels(outputs(name)) for name in REUSE}
    widest = max(reuse(rows, columns) for found in levels.values() for rows, columns in found)
    for axes, (name, found) in zip(made.subplots(1, len(REUSE)), levels.items(), strict=True):
        _pyramid(style.blank(axes, equal=False), found, widest)
        axes.set_title(str(ladder.find(name)))
    return made


def _levels(found: Outputs) -> list[tuple[int, int]]:
    """Rows and columns of the outputs of a thread, a warp, and the block."""
    everything = np.ones_like(found.thread, bool)
    return [found.rows_and_columns(mine) for mine in (found.thread == 0, found.warp == 0, everything)]


def _pyramid(axes: Axes, levels: list[tuple[int, int]], widest: float) -> None:
    for place, ((rows, columns), (name, _), colour) in enumerate(zip(levels, LEVELS, COLOURS, strict=True)):
        each = reuse(rows, columns)
        style.cell(axes, -each / 2, place + 0.36, each, 0.6, colour)
        axes.text(0, place + 0.18, f"{name} {rows}×{columns}: {each:.3g} a float", ha="center", va="center",
                  fontsize=style.SMALL)  # fmt: skip
    axes.set_xlim(-widest * 0.55, widest * 0.55)
    axes.set_ylim(len(levels), -0.1)
