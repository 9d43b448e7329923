"""Stream-K's arithmetic: which segments of which tiles a block does. The same functions run on the host.

A segment is a step of BK of one tile. Tiles 0 … whole − 1 are not split: block b does b, b + blocks, b + 2 · blocks, …
The segments of all others stand in one line, tile by tile, and each block does a run of it; runs differ by
one segment at most, the longer ones first. `numba_gemm.analysis.models.segments.stream_k` is the same line as a table.
"""

from __future__ import annotations

from numba import uint32, uint64

#: Segments that it has to save to split tiles: partial sums are written, waited for, read and added. Inferred from
#: the bytes that are moved, not timed.
EXCHANGE = 2


def whole_tiles(tiles: int, blocks: int, segments: int) -> int:
    """How many of the tiles are not split: all, if that is no loss, else those of the full waves but one.

    The tiles of the last, partial wave are split together with those of a full one, so that a block does between one
    and two tiles' worth of segments, and a tile has two parts. With less than one full wave, all are split.
    """
    waves = tiles // blocks
    rest = tiles - waves * blocks
    # Split, a block does rest / blocks of a tile's segments instead of all of them.
    if rest == 0 or uint64(blocks - rest) * segments < uint64(EXCHANGE) * blocks:
        return uint32(tiles)
    return uint32((waves - 1) * blocks) if waves > 1 else uint32(0)


def part_of_block(part: int, block: int, blocks: int, tiles: int, whole: int, segments: int) -> tuple[int, int, int]:
    """(tile, first segment, end of its segments) of a block's part 0, 1, 2, …; an end of 0 means that there is none.

    First come the block's whole tiles, then the tiles of its run, the last one first.
    """
    tile = uint32(block + part * blocks)
    if tile < whole:
        return tile, uint32(0), uint32(segments)
    if whole == tiles:
        return tile, uint32(0), uint32(0)
    line = uint64(tiles - whole) * segments
    each = line // blocks
    longer = line - each * blocks  # so many runs have one segment more
    start = block * each + min(uint64(block), longer)
    last = start + each - (uint64(0) if block < longer else uint64(1))
    first_tile, last_tile = uint32(start // segments), uint32(last // segments)
    back = uint32(part - whole // blocks)
    if back > last_tile - first_tile:
        return tile, uint32(0), uint32(0)
    tile = uint32(last_tile - back)
    first = uint32(start - uint64(tile) * segments) if tile == first_tile else uint32(0)
    end = uint32(last - uint64(tile) * segments + uint64(1)) if tile == last_tile else uint32(segments)
    return uint32(whole + tile), first, end
