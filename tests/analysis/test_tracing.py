"""The tracer runs the kernels' own source: its products are exact, and what it records is what was counted by hand."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from numba import cuda, float32, uint32
from support.checks import small_integers

from numba_gemm import Tile
from numba_gemm.analysis.code import accesses, sass
from numba_gemm.analysis.code.accesses import Merging, Site, one_block, version_accesses
from numba_gemm.analysis.code.tracing import NOT_ACCESSED, trace
from numba_gemm.device.async_copy import cp_async4_or_zero, cp_async16
from numba_gemm.device.shared_memory import shared_view
from numba_gemm.device.vector import load4, store4
from numba_gemm.kernels.interface import Traits, Variant
from numba_gemm.ladder import VERSIONS, find

TRACEABLE = [version for version in VERSIONS if not version.has_workspace and not version.traits.few_rows]

# Products --------------------------------------------------------------------------------------------


def traced_product(version, tile, rng, variant=None, turns=3):
    """C of one block, its exact value, and the trace."""
    variant = variant or Variant()
    launch = one_block(version, tile, variant, turns)
    a, b = small_integers(rng, tile.bm, turns * tile.bk), small_integers(rng, turns * tile.bk, tile.bn)
    if "At" in launch.arguments:
        launch.arguments["At"][:] = a.T
    else:
        _fill(launch.arguments["A"], a if variant.a_along_k else a.T)
    _fill(launch.arguments["B"], b.T if variant.b_along_k else b)
    launch.arguments["C"][:] = np.nan
    done = launch.trace()
    return launch.arguments["C"][: tile.bm, : tile.bn], a @ b, done


def _fill(matrix, values):
    matrix[: values.shape[0], : values.shape[1]] = values


@pytest.mark.parametrize("version", TRACEABLE, ids=lambda version: version.name)
def test_products_with_the_default_tile_are_exact(version, rng):
    c, expected, done = traced_product(version, version.default_tile, rng)
    assert done.threads == version.default_tile.threads
    assert not done.diverged
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("a_along_k", [True, False])
@pytest.mark.parametrize("b_along_k", [True, False])
@pytest.mark.parametrize("number", [6, 7])
def test_products_of_all_layouts_are_exact(number, a_along_k, b_along_k, rng):
    version = find(number)
    variant = Variant(a_along_k=a_along_k, b_along_k=b_along_k)
    c, expected, done = traced_product(version, version.small_tile, rng, variant)
    assert not done.diverged
    np.testing.assert_array_equal(c, expected)


def test_outputs_through_shared_memory_are_exact(rng):
    version = find("through_shared")
    tile = version.default_tile
    c, expected, done = traced_product(version, tile, rng)
    assert not done.diverged
    np.testing.assert_array_equal(c, expected)
    assert done.barriers == 3 + 2 * tile.tm


def test_threads_without_a_copy_take_another_branch(rng):
    """Half of the block has nothing to copy for A here; all of it copies B, and reads."""
    tile = Tile(64, 64, 8, 4, 4)
    _, _, done = traced_product(find("vectorized"), tile, rng, turns=1)
    assert done.diverged
    (a_copy,) = (access for access in done.accesses if access.array == "A")
    assert [(start != NOT_ACCESSED) for start in a_copy.starts] == [True] * 128 + [False] * 128
    b_copies = [access for access in done.accesses if access.array == "B"]
    assert sum((access.starts != NOT_ACCESSED).sum() for access in b_copies) == 8 * 64 // 4
    fragments = [access for access in done.accesses if access.array == "As" and access.kind == "read"]
    assert len(fragments) == 8 * 4
    assert all((access.starts != NOT_ACCESSED).all() for access in fragments)


def test_a_kernel_that_takes_more_than_matrices_is_refused():
    @cuda.jit
    def exchanging(A, B, C, partial_sums, flags):
        pass

    version = SimpleNamespace(traits=Traits(), make_kernel=lambda *_: exchanging)
    with pytest.raises(ValueError, match="cannot be traced: there is nothing to pass as partial_sums, flags"):
        one_block(version, Tile(8, 8, 8), Variant(), 1)


# Small kernels ---------------------------------------------------------------------------------------


def run(kernel, *arguments, threads=32, **launch):
    return trace(kernel, arguments, block=(threads,), **launch)


def starts(access):
    return access.starts.tolist()


@cuda.jit
def double_rows(source, target):
    row = uint32(cuda.threadIdx.y) + uint32(cuda.blockIdx.x) * uint32(cuda.blockDim.y)
    col = uint32(cuda.threadIdx.x)
    if row < uint32(source.shape[0]):
        target[row, col] = source[row, col] * float32(2)


def test_a_block_of_a_grid_and_the_strides_of_its_arrays():
    source = np.arange(24, dtype=np.float32).reshape(3, 8)[:, :4]
    target = np.zeros((3, 4), np.float32)
    done = trace(double_rows, [source, target], block=(4, 2), grid=(2,), block_index=(0,))
    read, write = done.accesses
    assert (read.array, read.space, read.kind, read.floats) == ("source", "global", "read", 1)
    assert starts(read) == [0, 1, 2, 3, 8, 9, 10, 11]
    assert starts(write) == list(range(8))
    assert read.site.startswith("test_tracing.py:")
    np.testing.assert_array_equal(target, [*(2 * source[:2]), [0] * 4])


def test_a_branch_that_half_of_the_threads_take():
    source, target = np.ones((3, 4), np.float32), np.zeros((3, 4), np.float32)
    done = trace(double_rows, [source, target], block=(4, 2), grid=(2,), block_index=(1,))
    assert done.diverged
    read, write = done.accesses
    assert starts(read) == starts(write) == [8, 9, 10, 11] + [NOT_ACCESSED] * 4


@cuda.jit
def both_sides(source, target):
    lane = uint32(cuda.threadIdx.x)
    shared = cuda.shared.array(64, float32, 16)
    shared[lane] = source[lane]
    cuda.syncthreads()
    offset = uint32(0) if lane % uint32(2) == uint32(0) else uint32(1)
    for k in range(lane % uint32(2), 2):
        target[k, lane] = shared[lane + offset + uint32(k)]


def test_what_both_sides_do_is_one_access_again():
    source, target = np.ones(32, np.float32), np.zeros((2, 32), np.float32)
    done = run(both_sides, source, target)
    assert [(access.array, access.kind, access.epoch) for access in done.accesses[:2]] == [
        ("source", "read", 0),
        ("shared", "write", 0),
    ]
    assert starts(done.accesses[1]) == list(range(32))
    # Even lanes go through the loop twice, odd ones once: the first time is one access of all.
    reads = [starts(access) for access in done.accesses if access.array == "shared" and access.kind == "read"]
    assert reads == [
        [lane if lane % 2 == 0 else lane + 2 for lane in range(32)],
        [lane + 1 if lane % 2 == 0 else NOT_ACCESSED for lane in range(32)],
    ]
    assert done.barriers == 1


@cuda.jit
def every_eighth(source, target):
    lane = uint32(cuda.threadIdx.x)
    for i in range(lane, uint32(source.shape[0]), uint32(8)):
        target[i] = source[i]


def test_loops_from_the_number_of_the_thread():
    """With as many turns for each thread they are loops of all; else of those that have as many."""
    source, target = np.arange(24, dtype=np.float32), np.zeros(24, np.float32)
    done = run(every_eighth, source, target, threads=8)
    assert not done.diverged
    assert [starts(access) for access in done.accesses if access.kind == "read"] == [
        [turn * 8 + lane for lane in range(8)] for turn in range(3)
    ]
    np.testing.assert_array_equal(target, source)
    done = run(every_eighth, source[:19], target, threads=8)
    last = [starts(access) for access in done.accesses if access.kind == "read"][-1]
    assert last == [16, 17, 18] + [NOT_ACCESSED] * 5


@cuda.jit
def wide(source, target):
    lane = uint32(cuda.threadIdx.x)
    place = min(lane * uint32(4), uint32(64))
    x, y, z, w = load4(source, (place,))
    store4(target, (place,), w, z, y, x)


def test_sixteen_bytes_are_one_access():
    source, target = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    done = run(wide, source, target)
    assert [(access.array, access.floats) for access in done.accesses] == [("source", 4), ("target", 4)]
    assert starts(done.accesses[0]) == [min(4 * lane, 64) for lane in range(32)]
    assert target[:8].tolist() == [3, 2, 1, 0, 7, 6, 5, 4]


@cuda.jit
def misplaced(source, target):
    target[uint32(cuda.threadIdx.x)] = load4(source, (uint32(cuda.threadIdx.x),))[0]


def test_accesses_that_fault_on_a_gpu():
    source = np.zeros(64, np.float32)
    with pytest.raises(ValueError, match="read of 4 elements of source at a place that is no multiple"):
        run(misplaced, source, source)
    with pytest.raises(IndexError, match="read of elements 0 … 67 of source, which has 60"):
        run(wide, source[:60], np.zeros(128, np.float32))


COPIED = 4 * 32 + 32


@cuda.jit
def copies(source, target):
    memory = cuda.shared.array(0, float32, 16)
    fours = shared_view(memory, (32, 4), 0)
    ones = shared_view(memory, (32,), 128)
    lane = uint32(cuda.threadIdx.x)
    cp_async16(fours, (lane, uint32(0)), source, (lane, uint32(0)))
    cp_async4_or_zero(ones, (lane,), source, (lane, uint32(1)), uint32(1) if lane < uint32(8) else uint32(0))
    target[lane] = fours[lane, uint32(3)] + ones[lane]


def test_copies_are_recorded_on_both_sides():
    source, target = np.arange(128, dtype=np.float32).reshape(32, 4), np.zeros(32, np.float32)
    done = run(copies, source, target, shared_bytes=4 * COPIED)
    wide_read, wide_write, read, write = done.accesses[:4]
    assert [access.kind for access in done.accesses[:4]] == ["copy"] * 4
    assert (wide_read.array, wide_read.floats, starts(wide_read)) == ("source", 4, list(range(0, 128, 4)))
    assert (wide_write.array, wide_write.space, starts(wide_write)) == ("fours", "shared", list(range(0, 128, 4)))
    # Nothing is read where the count is 0, but zeros are written.
    assert starts(read) == [4 * lane + 1 if lane < 8 else NOT_ACCESSED for lane in range(32)]
    assert (write.array, starts(write)) == ("ones", list(range(128, 160)))


# Widths ----------------------------------------------------------------------------------------------


@cuda.jit
def neighbours(target):
    shared = cuda.shared.array(256, float32, 16)
    lane = uint32(cuda.threadIdx.x)
    for q in range(8):
        shared[lane * uint32(8) + uint32(q)] = float32(q)
    cuda.syncthreads()
    total = float32(0)
    for q in range(1, 8):
        total += shared[lane * uint32(8) + uint32(q)]
    target[lane] = total


@pytest.mark.parametrize(
    ("merging", "written", "read"),
    [
        (Merging(1), {1: 8}, {1: 7}),
        (Merging(2), {2: 4}, {2: 3, 1: 1}),
        (Merging(4), {4: 2}, {4: 1, 2: 1, 1: 1}),
        (Merging(4, gaps=True), {4: 2}, {4: 2}),
    ],
    ids=str,
)
def test_merging(merging, written, read):
    """Eight floats are written, and the last seven of them read."""
    done = run(neighbours, np.zeros(32, np.float32))
    mergings = {("shared", kind): merging for kind in ("read", "write")}
    merged = accesses._merged(done.accesses, mergings)
    for kind, expected in (("write", written), ("read", read)):
        own = [access for access in merged if (access.array, access.kind) == ("shared", kind)]
        assert Counter(access.floats for access in own) == expected
        for access in own:
            assert (access.starts % access.floats == 0).all()


def test_accesses_are_not_merged_over_a_barrier_or_where_threads_are_not_alike():
    def place(lane, q):
        return 8 * lane + q if lane else 8 * lane + 3 - q  # thread 0 goes the other way

    @cuda.jit
    def turned(target):
        shared = cuda.shared.array(256, float32, 16)
        lane = uint32(cuda.threadIdx.x)
        for q in range(4):
            shared[places[lane, q]] = float32(q)
        for q in range(4):
            shared[lane * uint32(4) + uint32(q)] = float32(q)
            cuda.syncthreads()
        target[lane] = float32(0)

    class Places:
        def __getitem__(self, index):
            lanes, q = index
            return np.array([place(int(lane), q) for lane in lanes])

    places = Places()
    done = run(turned, np.zeros(32, np.float32))
    merged = accesses._merged(done.accesses, {("shared", "write"): Merging(4)})
    assert [access.floats for access in merged] == [1] * 9


@pytest.mark.machine_code
@pytest.mark.parametrize("name", ["naive", "shared", "register", "vectorized", "cp_async"])
def test_widths_of_the_machine_code_are_the_widest(name):
    """Without a compiler the models take the widest; here, that is what the compiler does."""
    by_source, by_machine_code = version_accesses(name, arch=None), version_accesses(name, arch="sm_90")
    assert set(by_machine_code.more) == set(by_source.more)
    for site, requests in by_machine_code.more.items():
        np.testing.assert_array_equal(requests, by_source.more[site])


def test_widths_follow_the_main_loop():
    """Four k of A by 16 bytes in the machine code, or one by one: each is told from the instructions."""
    version = find("shared")
    tile = version.small_tile
    fewer, more = (one_block(version, tile, Variant(), tiles).trace().accesses for tiles in (2, 3))
    copies = [sass.Instruction(0, "", opcode, ()) for opcode in ("LDG.E", "LDG.E", "STS", "STS")]
    ffmas = [sass.Instruction(0, "", "FFMA", ())] * 8

    def found(*loads):
        loop = sass.Loop((*copies, *ffmas, *(sass.Instruction(0, "", opcode, ()) for opcode in loads)))
        return accesses._mergings_in(loop, 8, fewer, more)

    assert found(*["LDS.128"] * 2, *["LDS"] * 8)["As", "read"] == Merging(4)
    assert found(*["LDS.64"] * 4, *["LDS"] * 8)["As", "read"] == Merging(2)
    assert found(*["LDS"] * 16)["As", "read"] == Merging(1)
    with pytest.raises(RuntimeError, match="the LDS of the main loop"):
        found(*["LDS"] * 15)


def test_a_tile_and_what_is_done_once():
    """Rung 7 copies its first tile in another way than the later ones: that is not part of a tile."""
    found = version_accesses(7, tile=find(7).small_tile, arch=None)
    counts = {count.site: count for count in found.count("global", lambda *_: 1)}
    steady = [count for site, count in counts.items() if site.site.startswith("steady_copy.py")]
    first = [count for site, count in counts.items() if site.site.startswith("tile_copy.py")]
    assert [(count.per_tile, count.once) for count in steady] == [(4, -4), (2, -2)]
    assert [(count.per_tile, count.once) for count in first] == [(0, 4), (0, 2)]
    (stores,) = (count for site, count in counts.items() if site.array == "C")
    assert (stores.site.bytes, stores.per_tile, stores.once) == (16, 0, 4)


def test_ffma_and_launches():
    tile = Tile(128, 256, 16, 16, 8, 2, 64, 64)
    assert version_accesses(7, tile=tile, arch=None).ffma == 128 * 256 * 16 // 32
    assert accesses.of_launch(tile, 256, 512, 64, per_tile=10, once=3) == 4 * (3 + 4 * 10)
    with pytest.raises(ValueError, match="100, 256, 16 is not whole tiles"):
        accesses.of_launch(tile, 100, 256, 16, per_tile=1, once=0)


def test_sites_name_the_lines_of_the_source():
    found = version_accesses(4, arch=None)
    assert {(site.array, site.space, site.kind, site.bytes) for site in found.more} == {
        ("A", "global", "read", 16),
        ("B", "global", "read", 16),
        ("As", "shared", "write", 4),
        ("Bs", "shared", "write", 16),
        ("As", "shared", "read", 16),
        ("Bs", "shared", "read", 16),
        ("C", "global", "write", 16),
    }
    assert all(isinstance(site, Site) and site.site.startswith("v4_vectorized.py:") for site in found.more)
