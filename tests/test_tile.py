"""`Tile`: every constraint with its numbers, and what is derived from the sizes."""

import numpy as np
import pytest
from support.cases import SEED_TILES, large_tiles, staged

from numba_gemm import VERSIONS, Tile
from numba_gemm.kernels.interface import Variant
from numba_gemm.problem import Problem
from numba_gemm.tile import OPT_IN_SHARED_BYTES, LaunchConfig, opt_in_shared_bytes


def refuses(check, *fragments):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 the fragments are the match
        check()
    missing = [str(fragment) for fragment in fragments if str(fragment) not in str(caught.value)]
    assert not missing, f"{missing} not in: {caught.value}"


# Sizes -----------------------------------------------------------------------------------------------------

SIZES = ["bm", "bn", "bk", "tm", "tn", "stages"]


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("value", [8.0, "8", None, True, np.int32(8), np.uint32(8)])
def test_sizes_are_ints(name, value):
    sizes = {"bm": 8, "bn": 8, "bk": 8, name: value}
    with pytest.raises(TypeError) as caught:
        Tile(**sizes)
    for fragment in (f"Tile.{name} is {value!r}", type(value).__name__, "must be an int"):
        assert fragment in str(caught.value)


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("value", [0, -1, -128])
def test_sizes_are_positive(name, value):
    refuses(lambda: Tile(**{"bm": 8, "bn": 8, "bk": 8, name: value}), f"Tile.{name} is {value}", "at least 1")


@pytest.mark.parametrize(("size", "unit"), [("bm", "tm"), ("bn", "tn")])
def test_a_block_is_whole_thread_tiles(size, unit):
    sizes = {"bm": 12, "bn": 12, "bk": 4, unit: 8}
    refuses(lambda: Tile(**sizes), f"Tile.{size} = 12", "multiple", f"Tile.{unit} = 8")


def test_threads_in_a_block():
    assert Tile(128, 128, 8, 4, 4).threads == 1024
    refuses(lambda: Tile(132, 128, 8, 4, 4), "33·32 = 1056 threads", "at most 1024")
    refuses(lambda: Tile(64, 64, 8), "64·64 = 4096 threads")


def test_tiles_are_values():
    tile = Tile(16, 16, 4, 4, 4)
    assert tile == Tile(16, 16, 4, 4, 4, 1)
    assert hash(tile) == hash(Tile(16, 16, 4, 4, 4))
    assert tile != staged(tile, 2)
    with pytest.raises(AttributeError):
        tile.bm = 32


def test_text():
    assert str(Tile(128, 64, 8, 8, 4)) == "128×64×8, 8×4 a thread"
    assert str(Tile(128, 64, 8, 8, 4, 3)) == "128×64×8, 8×4 a thread, 3 stages"


# Derived ---------------------------------------------------------------------------------------------------

#: Columns of the seeds' table: KB a stage, KB of three stages, accumulators a thread.
SEED_TABLE = [(4, 12, 16), (6, 18, 32), (8, 24, 64), (16, 48, 64), (12, 36, 128), (12, 36, 128)]


@pytest.mark.parametrize(("tile", "row"), list(zip(SEED_TILES, SEED_TABLE, strict=True)), ids=map(str, SEED_TILES))
def test_the_seeds_tiles(tile, row):
    stage_kb, ring_kb, accumulators = row
    assert tile.threads == 256
    assert tile.shared_bytes == stage_kb * 1024
    assert staged(tile, 3).shared_bytes == ring_kb * 1024
    # 65536 registers for 256 threads: two blocks leave 128 each, too few for 128 accumulators.
    assert tile.tm * tile.tn == accumulators
    assert tile.resident_blocks == (2 if accumulators <= 64 else 1)


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_versions_take_their_tiles(version):
    for tile in (version.default_tile, version.small_tile, *large_tiles(version)):
        version.check(tile)
        # The counts differ, and M is ragged: a grid that is swapped or rounded down shows.
        m, n, k = 3 * tile.bm + 1, 5 * tile.bn, 7 * tile.bk
        batch = 3 if version.traits.takes_variants else None
        config = version.launches(tile, Variant(), Problem.contiguous(m, n, k, batch), 1).main.config
        if version.traits.takes_variants:
            if not version.has_workspace or version.traits.few_rows:  # others share K, and tests of their own say how
                assert config.grid == (5 * 4, 1, 3)
            if not version.traits.few_rows:  # of which only the rows are in shared memory
                # A transposed on the way in has longer rows in shared memory.
                assert tile.shared_bytes < config.shared_bytes <= 1.25 * tile.shared_bytes
        else:
            assert config.grid == (5, 4)
            assert config.shared_bytes == (tile.shared_bytes if version.traits.dynamic_shared else 0)
        assert config.block[0] * config.block[1] == tile.threads
        assert isinstance(config, LaunchConfig)
    assert version.small_tile.threads <= 64


@pytest.mark.parametrize(
    ("m", "n", "k", "padded", "grid"),
    [
        (300, 200, 20, (384, 256, 24), (2, 3)),  # the seeds' example
        (1, 1, 1, (128, 128, 8), (1, 1)),
        (128, 128, 8, (128, 128, 8), (1, 1)),
        (129, 127, 9, (256, 128, 16), (1, 2)),
        (0, 5, 0, (0, 128, 0), (1, 0)),
        (4096, 2048, 1024, (4096, 2048, 1024), (16, 32)),
    ],
)
def test_padding_and_grid(m, n, k, padded, grid):
    tile = Tile(128, 128, 8, 8, 8)
    assert tile.padded(m, n, k) == padded
    assert tile.grid(m, n) == grid


def test_padding_of_unequal_sizes():
    assert Tile(32, 16, 4, 4, 4).padded(33, 17, 5) == (64, 32, 8)
    assert Tile(32, 16, 4, 4, 4).grid(33, 17) == (2, 2)
    assert Tile(32, 16, 4, 4, 4).grid(64, 64) == (4, 2)


# Shared memory ---------------------------------------------------------------------------------------------


def test_static_shared_memory():
    Tile(128, 128, 48, 8, 8).require_static_shared()  # 48 KB, to the byte
    tile = Tile(128, 128, 49, 8, 8)
    refuses(tile.require_static_shared, tile, "50176 bytes of static shared memory", "at most 49152")
    refuses(Tile(128, 128, 16, 8, 8, 4).require_static_shared, "65536", "4 stages")


@pytest.mark.parametrize(
    ("capability", "kilobytes"),
    [
        ((7, 0), 96),
        ((7, 5), 64),
        ((8, 0), 163),
        ((8, 6), 99),
        ((8, 7), 163),
        ((8, 9), 99),
        ((9, 0), 227),
        ((10, 0), 227),
        ((10, 3), 227),
        ((11, 0), 227),
        ((12, 0), 99),
        ((12, 1), 99),
    ],
)
def test_opt_in_shared_memory(capability, kilobytes):
    assert opt_in_shared_bytes(capability) == kilobytes * 1024
    largest = Tile(1, 1, kilobytes * 128)  # (1 + 1) · 4 bytes a step of K
    largest.require_dynamic_shared(capability)
    tile = Tile(1, 1, kilobytes * 128 + 1)
    cc = f"compute capability {capability[0]}.{capability[1]}"
    refuses(lambda: tile.require_dynamic_shared(capability), tile, tile.shared_bytes, cc, kilobytes * 1024)


def test_opt_in_of_unknown_devices():
    assert opt_in_shared_bytes((6, 1)) == 48 * 1024  # older than all that can opt in
    assert opt_in_shared_bytes((8, 8)) == opt_in_shared_bytes((8, 7))
    assert opt_in_shared_bytes((13, 0)) == opt_in_shared_bytes(max(OPT_IN_SHARED_BYTES))


# Copies, stages, squares -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tile", "fragments"),
    [
        (Tile(12, 8, 5, 4, 4), ["6 threads do not copy whole rows of bk = 5 floats", "5 accesses"]),
        (Tile(16, 32, 8, 4, 8), ["16 threads do not copy whole rows of bn = 32 floats", "32 accesses"]),
        (Tile(4, 8, 2, 1, 2), ["16 threads copy 8 rows of A at once", "does not divide its 4 rows"]),
        (Tile(32, 8, 2, 4, 2), ["32 threads copy 4 rows of B at once", "does not divide its 2 rows"]),
    ],
    ids=["bk", "bn", "rows of A", "rows of B"],
)
def test_scalar_copies(tile, fragments):
    refuses(tile.require_scalar_copies, tile, *fragments)


@pytest.mark.parametrize(
    ("tile", "fragments"),
    [
        (Tile(16, 16, 6, 4, 4), ["bk = 6 is not a multiple of 4"]),
        (Tile(16, 18, 4, 4, 2), ["bn = 18 is not a multiple of 4"]),
        (Tile(16, 16, 4, 4, 2), ["tn = 2 is not a multiple of 4"]),
        (Tile(16, 16, 12, 4, 4), ["16 threads do not copy whole rows of bk = 12 floats", "3 accesses"]),
        (Tile(8, 24, 4, 8, 12), ["2 threads do not copy whole rows of bn = 24 floats", "6 accesses"]),
    ],
    ids=["bk", "bn", "tn", "rows of bk", "rows of bn"],
)
def test_vector_copies(tile, fragments):
    refuses(tile.require_vector_copies, tile, *fragments)


def test_vector_copies_may_leave_threads_idle():
    Tile(16, 32, 4, 2, 4).require_vector_copies()  # 64 threads, 16 copies of A


@pytest.mark.parametrize("stages", [1, 7])
def test_stages(stages):
    tile = Tile(16, 16, 4, 4, 4, stages)
    refuses(lambda: tile.require_stages(2, 6), tile, f"stages = {stages}", "takes 2 … 6")
    tile.require_stages(stages, stages)


@pytest.mark.parametrize("sizes", [(8, 4, 4), (4, 8, 4), (4, 4, 8), (4, 4, 4, 2, 1), (4, 4, 4, 1, 2)])
def test_squares(sizes):
    tile = Tile(*sizes)
    refuses(tile.require_square, tile, "bm = bn = bk", "tm = tn = 1")
    Tile(4, 4, 4).require_square()
