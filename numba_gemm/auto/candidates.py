"""Which versions and tiles are worth timing for a product, and which a stored entry may name.

The database does not know what a call will ask for besides the shape, so only versions with every capability count. And
only those named here: results must not change from run to run, which a version that adds with atomics cannot promise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from numba_gemm.auto.entry import Choice
from numba_gemm.kernels.interface import Variant
from numba_gemm.kernels.skinny import GEMV_TILE
from numba_gemm.ladder import VERSIONS, Version
from numba_gemm.problem import Problem
from numba_gemm.tile import Tile, opt_in_shared_bytes

#: Tiles of the warp-tiled rungs, from large to small: (BM, BN, BK, TM, TN, WM, WN). A small tile has few FFMA a step of
#: K to hide its barrier behind, hence more steps between two barriers.
_WARP_SHAPES = (
    (256, 128, 16, 16, 8, 64, 64),
    (128, 256, 16, 16, 8, 64, 64),
    (128, 128, 16, 16, 8, 64, 64),  # 128 threads with 200 registers each
    (128, 128, 16, 8, 8, 32, 64),  # 256 threads, two blocks an SM
    (64, 128, 16, 8, 8, 32, 64),
    (128, 64, 16, 8, 8, 64, 32),
    (64, 64, 16, 8, 8, 32, 64),
    (64, 64, 32, 8, 4, 32, 32),
    (32, 64, 32, 4, 4, 16, 32),
    (32, 32, 32, 4, 4, 16, 32),
)
_WARP_TILES = tuple(Tile(bm, bn, bk, tm, tn, stages=2, wm=wm, wn=wn) for bm, bn, bk, tm, tn, wm, wn in _WARP_SHAPES)

#: The versions that may be chosen, and the tiles to try besides their default.
TILES: dict[str, tuple[Tile, ...]] = {
    "boundary": (),
    "warp_tiled": _WARP_TILES,
    "stream_k": _WARP_TILES,
    "split_k": tuple(tile for tile in _WARP_TILES if tile.bm * tile.bn <= 128 * 128),
    "skinny": (GEMV_TILE, Tile(8, 128, 32, tm=8, tn=4, stages=3, tk=4)),
}

#: The shortest side of the tiles above.
_SHORTEST = 32
#: How often a version for few rows may have to read the large operand to be worth a try.
_MOST_PASSES = 2


def candidates(
    key: Problem, compute_capability: tuple[int, int], versions: Iterable[Version] = VERSIONS
) -> list[Choice]:
    """What to time: first the default tile of each version, so that the fastest is no slower than any of them."""
    return list(_candidates(key, compute_capability, list(versions)))


def _candidates(key: Problem, compute_capability: tuple[int, int], versions: list[Version]) -> Iterator[Choice]:
    defaults = [Choice(version, version.default_tile) for version in versions if not _overtaxed(version, key)]
    others = [Choice(version, tile) for version in versions for tile in TILES.get(version.name, ())]
    for choice in dict.fromkeys(defaults + [other for other in others if _suits(other, key)]):
        if why_not(choice, key, compute_capability) is None:
            yield choice


def _suits(choice: Choice, key: Problem) -> bool:
    """Not if at least half of every tile would lie outside C, and a shorter one is at hand; nor for too few rows."""
    tile = choice.tile
    if choice.version.traits.few_rows:
        return min(key.m, key.n) <= tile.bm
    return tile.bm < 2 * max(key.m, _SHORTEST) and tile.bn < 2 * max(key.n, _SHORTEST)


def _overtaxed(version: Version, key: Problem) -> bool:
    """Whether a version for few rows would read all of an operand again and again, for which it is no match."""
    return version.traits.few_rows and min(key.m, key.n) > _MOST_PASSES * version.default_tile.bm


def variant_of(key: Problem) -> Variant:
    """What kernels for a product are compiled for, apart from whole tiles and the epilogue."""
    return Variant(a_along_k=key.a_along_k, b_along_k=key.b_along_k, vector=key.vector)


def why_not(choice: Choice, key: Problem, compute_capability: tuple[int, int]) -> str | None:
    """Why a choice cannot be used for a product on a device; None if it can."""
    version, tile = choice.version, choice.tile
    if version.name not in TILES:
        return f"version {version} is not one that is tuned"
    if not version.takes_everything:
        return f"version {version} cannot do all that a call may ask for"
    if compute_capability < version.min_cc:
        return f"version {version} needs compute capability {'.'.join(map(str, version.min_cc))}"
    try:
        version.check(tile)
    except ValueError as error:
        return str(error)
    needed, limit = version.shared_bytes(tile, variant_of(key)), opt_in_shared_bytes(compute_capability)
    if needed > limit:
        return f"version {version} with {tile} needs {needed} bytes of shared memory; a block can have {limit}"
    return None
