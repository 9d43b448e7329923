"""What the tests run on: tiles, and shapes around a tile, each with the reason why it is there."""

from dataclasses import dataclass, replace

import pytest

from numba_gemm import VERSIONS, Tile, Version
from numba_gemm.compiler.target import SIMULATOR

#: All six tiles of the seeds' table: (BM, BN, BK, TM, TN), 256 threads each.
SEED_TILES = (
    Tile(64, 64, 8, 4, 4),
    Tile(128, 64, 8, 8, 4),
    Tile(128, 128, 8, 8, 8),
    Tile(128, 128, 16, 8, 8),
    Tile(128, 256, 8, 8, 16),
    Tile(256, 128, 8, 16, 8),
)

#: From small to large, with each way to cut a warp tile.
WARP_TILES = (
    Tile(64, 64, 16, 8, 8, 2, 32, 64),
    Tile(128, 128, 8, 8, 8, 2, 64, 32),
    Tile(128, 128, 32, 8, 8, 2, 32, 64),
    Tile(256, 128, 16, 16, 8, 2, 64, 64),
    Tile(128, 256, 16, 8, 16, 2, 64, 64),
)

_BASE = Tile(16, 16, 4, 4, 4)
_TALL = Tile(32, 16, 8, 8, 4)  # bm > bn, tm > tn, bk > 4
_WIDE = Tile(16, 32, 8, 4, 8)  # the mirror image: a swap of m and n cannot hide in both
_IDLE = Tile(16, 32, 4, 2, 4)  # more threads than copies: some have nothing to copy


def staged(tile: Tile, stages: int) -> Tile:
    return replace(tile, stages=stages)


#: At most 64 threads, which is what the simulator runs in reasonable time. The first one gets all shapes.
SMALL_TILES: dict[str, tuple[Tile, ...]] = {
    "naive": (Tile(2, 8, 1), Tile(4, 2, 1)),
    "shared": (Tile(4, 4, 4), Tile(8, 8, 8)),
    "register": (_BASE, _TALL, Tile(8, 16, 8, 2, 4), Tile(8, 8, 2, 2, 4)),
    "vectorized": (_BASE, _TALL, _WIDE, _IDLE),
    "cp_async": (
        staged(_BASE, 3),
        staged(_BASE, 2),  # classical double buffering
        staged(_BASE, 4),
        staged(_TALL, 3),
        staged(_WIDE, 2),
        staged(_IDLE, 4),
        staged(Tile(8, 8, 4, 4, 4), 6),  # the deepest ring that ptx/ has waits for
    ),
    "boundary": (
        staged(_BASE, 3),
        Tile(16, 8, 8, 2, 4, 2),  # bm > bn
        Tile(8, 16, 8, 2, 4, 4),  # its mirror image
        Tile(8, 8, 4, 1, 4, 5),  # more threads than 16-byte copies
    ),
    "skinny": (
        Tile(8, 16, 8, 8, 4, 2, tk=4),
        Tile(2, 8, 16, 2, 4, 3, tk=8),  # two squares of weights a thread
        Tile(4, 8, 16, 4, 4, 4, tk=4),  # a longer ring, four threads for each column
    ),
    "cp_async_ptx": (staged(_BASE, 3), staged(_WIDE, 2)),
    "cp_async_intrinsic": (staged(_BASE, 3), staged(_TALL, 4)),
    "register_prefetch": (staged(Tile(8, 8, 4, 4, 4), 2), staged(Tile(8, 16, 4, 2, 4), 2)),
    "cp_async_b": (staged(Tile(8, 8, 4, 4, 4), 3), staged(Tile(8, 16, 4, 2, 4), 2)),
    "cp_async_k_major": (staged(Tile(8, 8, 4, 4, 4), 3), staged(Tile(16, 8, 4, 2, 4), 2)),
}


def tiles(version: Version) -> tuple[Tile, ...]:
    """The tiles to test a version with, here. A version that the table does not know brings its own small one."""
    small = SMALL_TILES.get(version.name, (version.small_tile,))
    return small if SIMULATOR else tuple(dict.fromkeys((*small, version.default_tile, *large_tiles(version))))


#: For few rows: one and sixteen at a time, narrow and wide blocks, one square of weights a thread and two.
FEW_ROWS_TILES = (
    Tile(1, 32, 512, 1, 4, stages=2, tk=8),
    Tile(8, 128, 32, 8, 4, stages=3, tk=4),
    Tile(16, 64, 64, 16, 4, stages=4, tk=4),
)


def large_tiles(version: Version) -> tuple[Tile, ...]:
    """The seeds' tiles, for the rungs that are written for them: with a register tile a thread."""
    if version.traits.few_rows:
        return FEW_ROWS_TILES
    if version.default_tile.tm == 1 or not _has_its_own_kernel(version):
        return ()
    if version.default_tile.wm and version.traits.takes_variants:
        return WARP_TILES
    stages = version.default_tile.stages
    tiles = WARP_TILES if version.default_tile.wm else SEED_TILES
    return tuple(tile for tile in (staged(tile, stages) for tile in tiles) if _takes(version, tile))


def _has_its_own_kernel(version: Version) -> bool:
    """Of names for one kernel, only the first; two buffers make another kernel than one."""

    def kernel(one: Version) -> tuple[str, int]:
        return one.module.__name__, one.default_tile.stages

    return version is next(first for first in VERSIONS if kernel(first) == kernel(version))


def _takes(version: Version, tile: Tile) -> bool:
    try:
        version.check(tile)
    except ValueError:
        return version.number is not None  # a rung takes them all; a detour may be for fewer tiles
    return True


@dataclass(frozen=True)
class Shape:
    m: int
    n: int
    k: int
    reason: str

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"


def whole_shape(tile: Tile) -> Shape:
    """What every version takes without padding, in few blocks."""
    return Shape(tile.bm, 2 * tile.bn, 3 * tile.bk, "whole tiles, three of them along K: odd")


def ragged_shape(tile: Tile) -> Shape:
    return Shape(tile.bm + 1, tile.bn - 1, 2 * tile.bk + 1, "no dimension is whole tiles")


def shapes(tile: Tile) -> tuple[Shape, ...]:
    """Everything about a shape that may matter to a kernel with this tile."""
    bm, bn, bk, stages = tile.bm, tile.bn, tile.bk, tile.stages
    fewer = max(1, stages - 2)
    return (
        Shape(bm, bn, bk, "exactly one tile, one turn of the K loop"),
        Shape(bm - 1, bn - 1, 2 * bk - 1 if bk > 1 else 1, "one less than a tile: one block, its last row padded"),
        Shape(bm + 1, bn + 1, bk + 1, "one more than a tile: a second block for one row and column"),
        Shape(bm + 1, bn, bk, "only M is ragged"),
        Shape(bm, bn + 1, bk, "only N is ragged"),
        Shape(bm, bn, bk + 1, "only K is ragged"),
        Shape(bm, bn, max(1, bk // 2), "K below BK"),
        Shape(bm, bn, fewer * bk, "fewer tiles along K than the pipeline has stages to fill"),
        Shape(bm, bn, (stages - 1 or 1) * bk, "the prologue starts every tile; the loop only drains"),
        Shape(bm, bn, (stages + 4 | 1) * bk, "an odd number of K tiles, more than one turn of the ring"),
        Shape(bm, bn, (stages + 5 & ~1) * bk, "an even number of K tiles, more than one turn of the ring"),
        Shape(2 * bm, 3 * bn, 5 * bk, "M, N, K differ, several blocks each way: a swap cannot hide"),
        Shape(1, 1, 1, "the smallest product"),
        Shape(1, bn, 2 * bk, "a single row: its stride means nothing"),
        Shape(bm, 1, 2 * bk, "a single column"),
        Shape(7, 19, 11, "primes: nothing divides anything"),
    )


#: K ≥ 0 and no blocks to launch are part of the contract.
EMPTY_SHAPES = (
    Shape(0, 5, 3, "no rows"),
    Shape(5, 0, 3, "no columns"),
    Shape(5, 3, 0, "empty sums: zeros"),
    Shape(0, 0, 0, "nothing at all"),
)


def _param(version: Version, tile: Tile, *rest, **options):
    label = f"{version.name}-{tile.bm}x{tile.bn}x{tile.bk}-{tile.tm}x{tile.tn}-{tile.stages}"
    return pytest.param(version, tile, *rest, id="-".join((label, *map(str, rest))), **options)


def own_layout(version: Version, operand: str) -> str:
    """How an operand has to lie, of the layouts of `guarded`, for a version to take it without a copy."""
    return "column-major" if version.traits.a_k_major and operand == "a" else "contiguous"


#: Detours that differ from a rung in more than the kernel.
_OTHER_AROUND = ("cp_async_ptx", "cp_async_intrinsic", "cp_async_k_major", "thread_tile")


def _runs_around(version: Version) -> bool:
    if version.name in _OTHER_AROUND or not SIMULATOR:
        return True
    return _has_its_own_kernel(version) and ".detours." not in version.module.__name__


def _runs_itself(version: Version) -> bool:
    return not SIMULATOR or _has_its_own_kernel(version)


#: Each version with its first small tile, for tests about what is around the kernel: in the simulator not the detours
#: that differ from a rung in nothing but the kernel.
FIRST_TILES = [_param(version, tiles(version)[0]) for version in VERSIONS if _runs_around(version)]
#: Each version that takes everything in the contract with its first small tile; on a GPU with its default one, too.
GENERAL_TILES = [
    _param(version, tile)
    for version in VERSIONS
    if version.takes_everything
    for tile in ((tiles(version)[0],) if SIMULATOR else (tiles(version)[0], version.default_tile))
]
#: Each version with each of its tiles, for tests about the kernel.
ALL_TILES = [_param(version, tile) for version in VERSIONS if _runs_itself(version) for tile in tiles(version)]


def _shapes_to_run(version: Version, tile: Tile) -> tuple[Shape, ...]:
    # In the simulator the detours go the way of the rungs, and a second tile needs no second look at edges.
    thorough = not SIMULATOR or (tile == tiles(version)[0] and version.number is not None)
    return tuple(dict.fromkeys(shapes(tile))) if thorough else (whole_shape(tile), ragged_shape(tile))


#: Each version with its tiles and the shapes around each tile.
ALL_SHAPES = [
    _param(version, tile, shape)
    for version in VERSIONS
    if _runs_itself(version)
    for tile in tiles(version)
    for shape in {str(shape): shape for shape in _shapes_to_run(version, tile)}.values()
]
