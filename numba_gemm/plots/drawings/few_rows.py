"""Few rows of C: a block per tile leaves most of the device idle; split-K and stream-K deal out K."""

from __future__ import annotations

from collections import defaultdict

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from numba_gemm.analysis.models.segments import Share, segments_by_block, segments_of, split_k, stream_k
from numba_gemm.plots import style
from numba_gemm.plots.subjects import DEVICE, FEW_ROWS, SPLITS, TILE


def draw() -> Figure:
    """Three schedules of the same tiles, a line per multiprocessor."""
    m, n, k = FEW_ROWS
    grid_n, grid_m = TILE.grid(m, n)
    tiles, segments = grid_m * grid_n, segments_of(k, TILE.bk)
    plans = {
        "a block a tile": split_k(tiles, segments, 1),
        f"split-K, {SPLITS} parts": split_k(tiles, segments, SPLITS),
        "stream-K": stream_k(tiles, segments, DEVICE.multiprocessors),
    }
    made = style.figure(
        5.2,
        f"{tiles} tiles for {DEVICE.multiprocessors} multiprocessors: cut K, and all have work",
        f"From analysis.segments: {m}×{n}×{k} in tiles of {TILE.bm}×{TILE.bn}, {segments} segments of K each, on "
        f"{DEVICE.name}. A line is a multiprocessor, its length the segments it does; shades change from tile to tile. "
        "Time to add partial sums is not drawn.",
    )
    panels = made.subplots(1, len(plans), sharex=True, sharey=True)
    for axes, (name, shares) in zip(panels, plans.items(), strict=True):
        _schedule(axes, shares)
        longest = max(segments_by_block(shares).values())
        axes.set_title(f"{name}: {longest} segments")
        axes.set_xlabel("segments of K", fontsize=style.SMALL)
    panels[0].set_ylabel("multiprocessor", fontsize=style.SMALL)
    panels[0].set_ylim(DEVICE.multiprocessors, 0)
    panels[0].set_xlim(0, segments)
    return made


def _schedule(axes: Axes, shares: tuple[Share, ...]) -> None:
    busy: defaultdict[int, int] = defaultdict(int)
    for share in shares:
        line = share.block % DEVICE.multiprocessors
        colour = style.CYCLE[share.tile % 2]
        style.cell(axes, busy[line], line, share.count, 1, colour, linewidth=0)
        busy[line] += share.count
    idle = DEVICE.multiprocessors - len(busy)
    if idle:
        axes.text(0.5, 1 - (len(busy) + idle / 2) / DEVICE.multiprocessors, f"{idle} idle", transform=axes.transAxes,
                  ha="center", va="center", fontsize=style.SMALL)  # fmt: skip
