"""Split-K and stream-K as tables: which block does which steps of which output tile.

A segment is one step of BK of one output tile; a product of T tiles has T · ⌈K/BK⌉ of them. Split-K cuts the K of
every tile into the same number of parts, one block each. Stream-K (Osama et al., "Stream-K: Work-centric parallel
decomposition for dense matrix-matrix multiplication on the GPU", 2023) lines up the segments of all tiles and gives
each block an equal run of them, across tile borders; no block has more than one segment more than another.

Every segment is in exactly one share. A tile with more than one share needs their partial sums added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from numba_gemm.hardware.quantity import Result, ceil_div, require


@dataclass(frozen=True)
class Share(Result):
    """The segments `first` … `stop` − 1 of one tile, done by one block."""

    block: int
    tile: int
    first: int
    stop: int

    @property
    def count(self) -> int:
        return self.stop - self.first

    def whole(self, segments: int) -> bool:
        """Whether it is all of a tile's segments, so that no partial sum is left."""
        return self.first == 0 and self.stop == segments


def segments_of(k: int, bk: int) -> int:
    """Segments per tile, ⌈K/BK⌉."""
    require(0, k=k)
    require(1, bk=bk)
    return ceil_div(k, bk)


def cut(count: int, parts: int) -> list[tuple[int, int]]:
    """`count` things in `parts` runs (first, stop) that differ by one at most, the longer ones first."""
    require(0, count=count)
    require(1, parts=parts)
    each, more = divmod(count, parts)
    starts = [part * each + min(part, more) for part in range(parts + 1)]
    return list(pairwise(starts))


def split_k(tiles: int, segments: int, splits: int) -> tuple[Share, ...]:
    """Every tile in `splits` parts, one block each; block = tile · splits + part. One split is the plain kernel.

    A part without a segment (more splits than segments) is no share, though its block is launched.
    """
    require(0, tiles=tiles, segments=segments)
    require(1, splits=splits)
    parts = cut(segments, splits)
    return tuple(
        Share(tile * splits + part, tile, first, stop)
        for tile in range(tiles)
        for part, (first, stop) in enumerate(parts)
        if first < stop
    )


def stream_k(tiles: int, segments: int, blocks: int) -> tuple[Share, ...]:
    """The segments of all tiles in one line, cut into `blocks` equal runs, and those at the borders of tiles."""
    require(0, tiles=tiles, segments=segments)
    require(1, blocks=blocks)
    return tuple(
        share
        for block, (first, stop) in enumerate(cut(tiles * segments, blocks))
        for share in _by_tile(block, first, stop, segments)
    )


def _by_tile(block: int, first: int, stop: int, segments: int) -> Iterable[Share]:
    while first < stop:
        tile = first // segments
        end = min(stop, (tile + 1) * segments)
        yield Share(block, tile, first - tile * segments, end - tile * segments)
        first = end


def segments_by_block(shares: Iterable[Share]) -> dict[int, int]:
    """Segments that each block does; a block without any is not in it."""
    counts: Counter[int] = Counter()
    for share in shares:
        counts[share.block] += share.count
    return dict(counts)


def partial_tiles(shares: Iterable[Share]) -> int:
    """Tiles that more than one block adds to: the ones that need a workspace or atomics."""
    return sum(1 for blocks in Counter(share.tile for share in shares).values() if blocks > 1)
