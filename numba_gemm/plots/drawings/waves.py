"""Waves: how the blocks of a grid fill the device, round after round, and what the last round leaves idle."""

from __future__ import annotations

from math import ceil

from matplotlib.figure import Figure

from numba_gemm import ladder
from numba_gemm.analysis.models.explain import explain
from numba_gemm.plots import style
from numba_gemm.plots.subjects import DEVICE, WAVE_SIZES, WAVE_VERSION


def draw() -> Figure:
    """For each cube, one box per wave, filled as far as the device is."""
    version = ladder.find(WAVE_VERSION)
    grids = {size: explain(version.name, size, size, size, DEVICE).waves for size in WAVE_SIZES}
    slots = max(found.slots for found in grids.values())
    made = style.figure(
        3.4,
        "The last wave of blocks takes as long as a full one, however few there are",
        f"Model: rung {version}, tiles of {version.default_tile.bm}×{version.default_tile.bn}, on {DEVICE.name}. A box "
        f"is a round of {slots} blocks, as many as the device holds at a time, filled as far as there are blocks; "
        "hatched: places without one. Efficiency is the filled part of all boxes, if all rounds last equally long.",
    )
    axes = style.blank(made.subplots(), equal=False)
    longest = max(ceil(found.waves) for found in grids.values())
    for line, (size, found) in enumerate(grids.items()):
        axes.text(-0.05, line + 0.5, f"{size}³", ha="right", va="center")
        for wave in range(ceil(found.waves)):
            blocks = min(found.slots, found.blocks - wave * found.slots)
            style.cell(axes, wave, line + 0.12, 1, 0.76, style.FAINT, hatch=style.HATCH)
            full = blocks == found.slots
            style.cell(axes, wave, line + 0.12, blocks / found.slots, 0.76, style.BLUE if full else style.ORANGE,
                       str(blocks), size=style.SMALL)  # fmt: skip
        axes.text(longest + 0.05, line + 0.5,
                  f"{found.blocks} blocks, {found.waves:.2f} waves: {found.wave_efficiency:.0%}", va="center",
                  fontsize=style.SMALL)  # fmt: skip
    axes.set_xlim(-longest / 8, longest * 1.42)
    axes.set_ylim(len(grids), 0)
    return made
