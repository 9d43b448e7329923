"""The kernel for few rows: which side the rows are, how K is cut, and what blocks leave each other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import cuda, float32, uint32
from support.cases import tiles
from support.checks import normals, units, wide_integers
from support.guarded import bits
from support.products import Placement, Product

from numba_gemm import Tile, sgemm
from numba_gemm.analysis.models import gemv
from numba_gemm.compiler.target import device_function
from numba_gemm.device.arrival import arrives_last
from numba_gemm.device.epilogue import Epilogue
from numba_gemm.device.part_sums import PartsShape, make_part_sums
from numba_gemm.device.streaming import load4_once
from numba_gemm.driver import cuda_api
from numba_gemm.kernels import skinny
from numba_gemm.kernels.interface import Variant
from numba_gemm.kernels.skinny import DEFAULT_TILE, GEMV_TILE, SMALL_TILE
from numba_gemm.ladder import find
from numba_gemm.problem import Operand, Problem

SKINNY = find("skinny")
DEVICE = pytest.mark.device
#: Of an H200.
MULTIPROCESSORS = 132


#: Of so many k on, sums of the numbers in `products` need not be exact. (`test_many_slices_on_a_gpu` has smaller ones.)
EXACT_K = 4096


@pytest.fixture
def four_multiprocessors(monkeypatch):
    """The simulator works like one; K is cut so that each has blocks."""
    monkeypatch.setattr(cuda_api, "multiprocessors", lambda _device: 4)


# Which side the rows are ------------------------------------------------------------------------------------


def operand(name, rows, columns, by_columns=False, pointer=4096):
    return Operand(name, pointer, (rows, columns), (1, rows) if by_columns else (columns, 1))


def arranged(m, n, k, by_columns="", pointer=4096):
    return Problem.of(
        operand("a", m, k, "a" in by_columns, pointer),
        operand("b", k, n, "b" in by_columns, pointer),
        operand("c", m, n, "c" in by_columns, pointer),
    ).with_few_rows()


def launches_of(tile, variant, m, n, k, batch, multiprocessors):
    return SKINNY.launches(tile, variant, Problem.contiguous(m, n, k, batch), multiprocessors)


def lengths_of(launches):
    return {part.name: part.length for part in launches.workspace}


def test_the_smaller_side_becomes_the_rows():
    wide = arranged(3, 40, 8)
    assert (wide.m, wide.n, wide.transposed, wide.c_along_n, wide.rows) == (3, 40, False, True, 4)
    assert (wide.a_along_k, wide.b_along_k) == (True, False)
    tall = arranged(40, 3, 8)
    assert (tall.m, tall.n, tall.transposed, tall.c_along_n, tall.rows) == (3, 40, True, False, 4)
    # Rows of A are what was columns of B, which lie along n; and the other way round.
    assert (tall.a_along_k, tall.b_along_k) == (False, True)
    # A C by columns is transposed before, so this is the former again.
    assert arranged(40, 3, 8, "abc") == wide._replace(transposed=True)


@pytest.mark.parametrize(
    ("m", "rows"), [(0, 1), (1, 1), (2, 2), (3, 4), (4, 4), (5, 8), (8, 8), (9, 16), (16, 16), (17, 16), (1000, 16)]
)
def test_rows_are_compiled_for_a_power_of_two(m, rows):
    arrangement = arranged(m, 1000, 64)
    assert arrangement.rows == rows
    variant = Variant.of(arrangement, DEFAULT_TILE, Epilogue())
    assert (variant.rows, variant.whole) == (rows, False)
    assert skinny.rows_of(DEFAULT_TILE, variant) == rows
    assert skinny.rows_of(GEMV_TILE, variant) == 1


def test_a_tile_kernel_is_made_for_no_number_of_rows():
    variants = {
        Variant.of(
            Problem.of(operand("a", m, 64), operand("b", 64, 1000), operand("c", m, 1000)), SMALL_TILE, Epilogue()
        )
        for m in (1, 3, 9, 1000 - 1)
    }
    assert len(variants) == 1


@pytest.mark.parametrize(
    ("m", "n", "k", "by_columns", "vector"),
    [
        (3, 8, 5, "", True),  # lines along n: N counts
        (3, 9, 8, "", False),
        (3, 9, 8, "b", True),  # lines along k: K counts
        (3, 8, 9, "b", False),
        (9, 3, 8, "", True),  # A is the large operand
        (8, 3, 9, "", False),
        (8, 3, 9, "a", True),
    ],
)
def test_vectors_are_asked_of_the_large_operand_alone(m, n, k, by_columns, vector):
    assert arranged(m, n, k, by_columns).vector is vector
    assert not arranged(m, n, k, by_columns, pointer=4100).vector


# How K is cut ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tile", "rows", "n", "k", "blocks", "slices"),
    [
        (GEMV_TILE, 1, 4096, 4096, 128, 1),  # enough columns
        (DEFAULT_TILE, 16, 4096, 14336, 32, 4),
        (DEFAULT_TILE, 8, 4096, 4096, 32, 4),
        (DEFAULT_TILE, 1, 4096, 4096, 32, 8),  # two blocks an SM
        (DEFAULT_TILE, 16, 14336, 4096, 112, 1),
        (DEFAULT_TILE, 16, 128, 512, 1, 2),  # four steps at least
        (DEFAULT_TILE, 16, 128, 64, 1, 1),
        (DEFAULT_TILE, 16, 128, 0, 1, 1),
    ],
)
def test_k_is_cut_until_each_multiprocessor_has_blocks(tile, rows, n, k, blocks, slices):
    assert -(-n // tile.bn) == blocks
    assert skinny.slices(tile, rows, blocks, k, MULTIPROCESSORS) == slices
    variant = Variant(rows=rows)
    launches = launches_of(tile, variant, rows, n, k, 1, MULTIPROCESSORS)
    config = launches.main.config
    assert config.grid == (blocks, slices, 1)
    assert config.block == (tile.threads, 1)
    expected = {"sums": blocks * slices * rows * tile.bn, "flags": blocks} if slices > 1 else {}
    assert lengths_of(launches) == expected


@given(st.integers(1, 5000), st.integers(0, 100000), st.integers(1, 200))
def test_slices_are_worth_a_block(blocks, k, multiprocessors):
    slices = skinny.slices(DEFAULT_TILE, 16, blocks, k, multiprocessors)
    assert 1 <= slices <= 256
    assert slices == 1 or k // slices >= 3 * DEFAULT_TILE.bk
    if blocks % multiprocessors == 0 and blocks // multiprocessors > 2:
        assert slices == 1, "nothing is left to fill"


def test_a_batch_and_groups_of_rows_count_as_blocks():
    variant = Variant(rows=16)
    many = launches_of(DEFAULT_TILE, variant, 40, 4096, 4096, 22, MULTIPROCESSORS)
    assert many.main.config.grid == (3 * 32, 1, 22)  # 16 blocks for each multiprocessor
    assert many.workspace == ()


# Products in slices ------------------------------------------------------------------------------------------


@DEVICE
@pytest.mark.usefixtures("four_multiprocessors")
@pytest.mark.parametrize("transposes", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("tall", [False, True])
def test_sums_of_slices_are_exact(transposes, tall, rng):
    tile = SMALL_TILE
    few, many, k = 3, tile.bn + 1, 9 * tile.bk + 3  # two slices and more, the last of them shorter
    assert launches_of(tile, Variant(rows=4), few, many, k, 1, 4).main.config.grid == (2, 2, 1)
    m, n = (many, few) if tall else (few, many)
    product = Product(m, n, k, trans_a=transposes[0] == "T", trans_b=transposes[1] == "T", alpha=0.5, beta=-2.0, bias=2)
    product.check(SKINNY, tile, rng)
    # Again in the same workspace, whose counters the first one has to have left at zero.
    product.check(SKINNY, tile, rng)


@DEVICE
@pytest.mark.usefixtures("four_multiprocessors")
@pytest.mark.parametrize("tile", [tile for tile in tiles(SKINNY)[1:] if 8 * tile.bk < EXACT_K], ids=str)
def test_slices_of_a_batch(tile, rng):
    steps = 8 * tile.bk
    shapes = Product(tile.bm + 1, tile.bn, steps, batch=2), Product(2, 5, steps, batch=3, shared="b")
    for product in shapes:
        product.check(SKINNY, tile, rng)


@DEVICE
@pytest.mark.usefixtures("four_multiprocessors")
def test_slices_repeat_their_bits(rng):
    a, b = cuda.to_device(normals(rng, 2, 160)), cuda.to_device(normals(rng, 160, 16))
    first, second = (sgemm(a, b, version="skinny", tile=SMALL_TILE).copy_to_host() for _ in range(2))
    np.testing.assert_array_equal(bits(first), bits(second))


@DEVICE
def test_what_lies_beside_the_large_operand_does_not_count():
    """A column that exists is read in the place of those that do not; an infinity in it stays in its own sums."""
    for m, n, trans_b in ((2, 9, False), (2, 9, True), (9, 2, False)):
        a, b = np.ones((m, 20), np.float32), np.ones((20, n), np.float32)
        expected = np.full((m, n), 20, np.float32)
        if n > m:
            b[3, -1] = np.inf
            expected[:, -1] = np.inf
        else:
            a[-1, 3] = np.inf
            expected[-1] = np.inf
        device_b = cuda.to_device(np.ascontiguousarray(b.T) if trans_b else b)
        c = sgemm(cuda.to_device(a), device_b, trans_b=trans_b, version="skinny", tile=SMALL_TILE)
        np.testing.assert_array_equal(c.copy_to_host(), expected)


@DEVICE
def test_a_long_thin_c_by_columns(rng):
    Product(SMALL_TILE.bn * 2, 1, 24, c=Placement(pitch=3), bias=1, epilogue=lambda x, row, col: x + row - col).check(
        SKINNY, SMALL_TILE, rng
    )


@pytest.mark.gpu
@pytest.mark.parametrize("m", [1, 2, 3, 8, 16, 17, 40])
@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("tile", [DEFAULT_TILE, GEMV_TILE], ids=str)
def test_many_slices_on_a_gpu(m, trans_b, tile, rng):
    for n, k in ((4096, 4096), (130, 20000), (1000, 999), (12, 4100)):
        product = Product(m, n, k, trans_b=trans_b)
        op_a, op_b = units(rng, m, k), np.clip(wide_integers(rng, k, n), -200, 200)
        b = cuda.to_device(np.ascontiguousarray(op_b.T) if trans_b else op_b)
        for _ in range(3):
            c = sgemm(cuda.to_device(op_a), b, trans_b=trans_b, version="skinny", tile=tile).copy_to_host()
            np.testing.assert_array_equal(c, op_a @ op_b, err_msg=str(product))


# The model ---------------------------------------------------------------------------------------------------


def test_time_is_flat_until_the_ridge():
    bandwidth, peak = 4.26e12, 60e12
    one = gemv.bound_seconds(1, 4096, 4096, bandwidth, peak)
    assert one == pytest.approx(4 * (4096 * 4096 + 2 * 4096) / bandwidth)
    assert one * 1e6 == pytest.approx(15.8, abs=0.05)
    assert gemv.bound_seconds(16, 4096, 4096, bandwidth, peak) <= 1.01 * one
    ridge = gemv.ridge_batch(peak / bandwidth, 4096, 4096)
    assert 28 < ridge < 29
    below, above = (gemv.bound_seconds(batch, 4096, 4096, bandwidth, peak) for batch in (28, 29))
    assert below < 1.02 * one
    assert above == 2 * 29 * 4096 * 4096 / peak
    assert gemv.bound_seconds(256, 4096, 4096, bandwidth, peak) == pytest.approx(256 / 29 * above)


def test_bytes_that_a_multiprocessor_has_under_way():
    """At 800 ns and the bandwidth of a copy."""
    needed = gemv.bytes_under_way(4.26e12, 800e-9) / MULTIPROCESSORS
    assert 25e3 < needed < 26e3
    for tile, rows in ((DEFAULT_TILE, 16), (DEFAULT_TILE, 8), (DEFAULT_TILE, 1), (GEMV_TILE, 1)):
        # A load of 16 bytes for each k of a thread's share of a step, in the worst case, and twice that in the best.
        least = skinny.resident_blocks(tile, rows) * tile.threads * tile.tk * 16
        assert least >= needed, tile
    with pytest.raises(ValueError, match="latency is -1"):
        gemv.bytes_under_way(1, -1)


# What the kernel is made of ----------------------------------------------------------------------------------


@DEVICE
def test_streaming_loads_are_loads():
    @cuda.jit
    def copy(source, target):
        thread = uint32(cuda.threadIdx.x)
        x = load4_once(source, (thread, uint32(4)))
        for q in range(4):
            target[thread, q] = x[q]

    source = np.arange(64, dtype=np.float32).reshape(4, 16)
    target = cuda.to_device(np.zeros((4, 4), np.float32))
    copy[1, 4](cuda.to_device(source), target)
    np.testing.assert_array_equal(target.copy_to_host(), source[:, 4:8])


@DEVICE
def test_the_last_of_several_blocks_knows_it():
    arrive = device_function(arrives_last)

    @cuda.jit
    def kernel(flags, written, last):
        block, thread = uint32(cuda.blockIdx.x), uint32(cuda.threadIdx.x)
        written[block, thread] = float32(block + uint32(1))
        if arrive(flags, block % uint32(2), uint32(3), thread):
            total = float32(0)
            for other in range(block % uint32(2), uint32(6), uint32(2)):
                total += written[other, thread]
            last[block % uint32(2), thread] += total

    flags = cuda.to_device(np.zeros(2, np.uint32))
    written = cuda.to_device(np.full((6, 4), np.nan, np.float32))
    last = cuda.to_device(np.zeros((2, 4), np.float32))
    for launches in (1, 2):
        kernel[6, 4](flags, written, last)
        # Blocks 0, 2, 4 and 1, 3, 5: one of each three adds up what all have written, once a launch.
        np.testing.assert_array_equal(last.copy_to_host(), launches * np.repeat([[1 + 3 + 5], [2 + 4 + 6]], 4, axis=1))
        np.testing.assert_array_equal(flags.copy_to_host(), [0, 0])


@DEVICE
@pytest.mark.parametrize("shape", [PartsShape(1, 4, 3), PartsShape(4, 8, 2), PartsShape(8, 4, 5)], ids=str)
def test_parts_add_up_in_their_order(shape):
    groups, threads = shape.columns // 4, shape.threads
    place, rows, acc_shape = shape.shape, shape.rows, (shape.rows, 4)

    def deliver(total, row, column, target):
        target[row, column] = total

    add_parts = make_part_sums(shape, device_function(deliver))

    @cuda.jit
    def kernel(source, target):
        shared = cuda.shared.array(place, float32, 16)
        acc = cuda.local.array(acc_shape, float32)
        thread = uint32(cuda.threadIdx.x)
        part, group = thread // uint32(groups), thread % uint32(groups)
        for i in range(rows):
            for j in range(4):
                acc[i, j] = source[part, i, uint32(4) * group + uint32(j)]
        add_parts(shared, acc, part, group, thread, target)

    # Sums that depend on the order: 2²⁴ swallows a 1 that comes after it, not before.
    parts = np.ones((shape.parts, shape.rows, shape.columns), np.float32)
    parts[1] = 2**24
    target = cuda.to_device(np.zeros((shape.rows, shape.columns), np.float32))
    kernel[1, threads](cuda.to_device(parts), target)
    expected = np.zeros((shape.rows, shape.columns), np.float32)
    for part in parts:
        expected += part
    np.testing.assert_array_equal(target.copy_to_host(), expected)


@pytest.mark.parametrize(
    ("tile", "fragments"),
    [
        (Tile(16, 128, 64, 8, 4, 3, tk=8), ("bm = 16, tm = 8", "power of two")),
        (Tile(32, 128, 64, 32, 4, 3, tk=8), ("bm = 32", "at most 16")),
        (Tile(3, 128, 64, 3, 4, 3, tk=8), ("bm = 3", "power of two")),
        (Tile(16, 128, 64, 16, 8, 3, tk=8), ("tn = 8", "tn = 4")),
        (Tile(16, 128, 8, 16, 4, 3), ("tk = 0", "multiple of 4")),
        (Tile(16, 128, 12, 16, 4, 3, tk=6), ("tk = 6", "multiple of 4")),
        (Tile(16, 128, 64, 16, 4, 1, tk=8), ("stages = 1",)),
        (Tile(16, 12, 16, 16, 4, 2, tk=8), ("6 threads", "bm = 16")),
        (Tile(16, 128, 512, 16, 4, 8, tk=64), (f"{8 * 16 * 516 * 4} bytes", str(48 * 1024))),
    ],
    ids=str,
)
def test_tiles_that_it_cannot_use(tile, fragments):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 the fragments are the match
        skinny.check(tile)
    missing = [fragment for fragment in fragments if fragment not in str(caught.value)]
    assert not missing, f"{missing} not in: {caught.value}"


@pytest.mark.parametrize("tile", [*tiles(SKINNY), DEFAULT_TILE, GEMV_TILE], ids=str)
def test_tiles_that_it_can_use(tile):
    skinny.check(tile)
    assert tile.threads == tile.bn // 4 * (tile.bk // tile.tk)
