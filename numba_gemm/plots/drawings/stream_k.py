"""Stream-K: the tiles of the last waves are cut into equal runs of K, so that no multiprocessor waits for a wave."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from numba_gemm.analysis.models.segments import Share, partial_tiles, segments_by_block, stream_k
from numba_gemm.device.work import whole_tiles
from numba_gemm.plots import style
from numba_gemm.plots.subjects import STREAM_BLOCKS, STREAM_SEGMENTS, STREAM_TILES


def draw() -> Figure:
    """The same tiles twice: a block per tile, and as rung 8 deals them out."""
    plans = {"a block a tile, in waves": in_waves(), "stream-K": streamed()}
    longest = max(max(segments_by_block(shares).values()) for shares in plans.values())
    made = style.figure(
        3.9,
        "Stream-K gives each multiprocessor as much to do, and leaves no wave half empty",
        f"{STREAM_TILES} tiles of {STREAM_SEGMENTS} segments on {STREAM_BLOCKS} multiprocessors, by the arithmetic of "
        f"the kernel (device.work) and analysis.segments. Numbers are tiles; hatched parts are partial sums, which "
        f"{partial_tiles(plans['stream-K'])} tiles have. Each block does the last tile of its run first.",
    )
    for axes, (name, shares) in zip(made.subplots(2, 1, sharex=True), plans.items(), strict=True):
        _schedule(axes, shares)
        axes.set_title(f"{name}: done after {max(segments_by_block(shares).values())} segments")
        axes.set_xlim(0, longest)
    axes.set_xlabel("segments of K", fontsize=style.SMALL)
    return made


def in_waves() -> list[Share]:
    """Block b does the tiles b, b + blocks, …, whole."""
    return [Share(tile % STREAM_BLOCKS, tile, 0, STREAM_SEGMENTS) for tile in range(STREAM_TILES)]


def streamed() -> list[Share]:
    """Whole tiles as in waves; then the segments of all others in one line, cut into equal runs."""
    whole = int(whole_tiles(STREAM_TILES, STREAM_BLOCKS, STREAM_SEGMENTS))
    runs = stream_k(STREAM_TILES - whole, STREAM_SEGMENTS, STREAM_BLOCKS)
    split = [Share(share.block, whole + share.tile, share.first, share.stop) for share in reversed(runs)]
    return in_waves()[:whole] + split


def _schedule(axes: Axes, shares: list[Share]) -> None:
    busy = dict.fromkeys(range(STREAM_BLOCKS), 0)
    for share in shares:
        partial = not share.whole(STREAM_SEGMENTS)
        style.cell(
            axes,
            busy[share.block],
            share.block + 0.1,
            share.count,
            0.8,
            style.SKY if partial else style.BLUE,
            str(share.tile),
            hatch=style.HATCH if partial else None,
            size=style.NORMAL,
        )
        busy[share.block] += share.count
    axes.set_yticks([block + 0.5 for block in busy], [f"multiprocessor {block}" for block in busy])
    axes.set_ylim(STREAM_BLOCKS, 0)
    axes.grid(axis="x")
    axes.set_axisbelow(True)
