"""Split-K: how K is cut, and that the reduce kernel adds up all parts, in one order, and nothing else."""

import math
from dataclasses import replace

import numpy as np
import pytest
from numba import cuda
from support.cases import WARP_TILES
from support.checks import assert_exact, units, wide_integers
from support.device_words import set_words
from support.products import Product

from numba_gemm import plan
from numba_gemm.device.slots import make_owner
from numba_gemm.device.warp_tile import make_places
from numba_gemm.driver import cuda_api, grids, launch, workspace
from numba_gemm.driver.operands import as_operand
from numba_gemm.driver.product import Operands, prepare_product
from numba_gemm.driver.workspace import Size
from numba_gemm.kernels import reduce
from numba_gemm.kernels.interface import ALPHA, BETA, Variant, sums_and_flags, workspace_arguments
from numba_gemm.kernels.split_k import parts_of
from numba_gemm.ladder import find
from numba_gemm.problem import Problem

SPLIT_K = find("split_k")
SMALL, DEFAULT = SPLIT_K.small_tile, SPLIT_K.default_tile
H200 = 132
ALL_TILES = pytest.mark.parametrize("tile", [SMALL, DEFAULT, *WARP_TILES], ids=str)


@pytest.fixture
def multiprocessors(monkeypatch):
    """Sets how many multiprocessors the device has, for what is launched."""
    return lambda count: monkeypatch.setattr(cuda_api, "multiprocessors", lambda _device: count)


# The arithmetic, without a device -------------------------------------------------------------------------


def test_parts_by_hand():
    assert (
        parts_of(DEFAULT, Problem.contiguous(128, 128, 65536, 1), H200) == 2 * H200
    )  # room for two blocks a multiprocessor
    assert parts_of(DEFAULT, Problem.contiguous(256, 256, 32768, 1), H200) == 2 * H200 // 4
    assert parts_of(DEFAULT, Problem.contiguous(256, 256, 32768, 11), H200) == 2 * H200 // 44
    assert parts_of(DEFAULT, Problem.contiguous(128, 128, 16 * 9, 1), H200) == 2  # at least four segments of 16 each
    assert parts_of(DEFAULT, Problem.contiguous(128, 128, 16 * 8 + 1, 1), H200) == 2
    assert parts_of(DEFAULT, Problem.contiguous(128, 128, 16 * 7, 1), H200) == 1
    assert parts_of(DEFAULT, Problem.contiguous(128, 128, 0, 1), H200) == 1
    assert parts_of(DEFAULT, Problem.contiguous(4096, 4096, 4096, 1), H200) == 1  # more tiles than blocks at a time


@ALL_TILES
@pytest.mark.parametrize("parts", [2, 9, 10, 11, 20, 21, 264, 10_000])
def test_the_grid_of_the_reduce_kernel(tile, parts):
    problem = Problem.contiguous(3 * tile.bm - 1, 2 * tile.bn, 1, 5)
    config = reduce.step(tile, Variant(), problem, parts, ()).config
    (blocks, tiles, matrices), (width, shares) = config.grid, config.block
    assert (tiles, matrices) == (6, 5)
    assert width * shares == tile.threads
    assert 4 * width * blocks == tile.bm * tile.bn, "a thread for each four of a tile, and for each share"
    assert width >= 8, "neighbours read a cache line together"
    assert parts <= shares * reduce.LOADS or width < 16, "more shares would be possible"
    assert shares == 1 or parts > shares // 2 * reduce.LOADS, "fewer shares would do"


@pytest.mark.simulator
@ALL_TILES
def test_every_output_has_one_place_in_a_slot(tile):
    place, owner = make_places(tile), make_owner(tile)
    counts = np.zeros((tile.bm, tile.bn), int)
    for four in range(tile.bm * tile.bn // 4):
        thread, i, j = owner(np.uint32(four))
        m, n = place.first(thread)
        row, column = place.row(m, i), place.column(n, j)
        assert [place.column(n, j + np.uint32(q)) for q in range(4)] == [column + q for q in range(4)]
        counts[row, column : column + 4] += 1
    assert (counts == 1).all()


# The reduce kernel alone ----------------------------------------------------------------------------------


def output_places(tile):
    """By number of a float in a slot: its row and column in the tile, from the drawing of rung 7."""
    fours = np.arange(tile.bm * tile.bn // 4)
    thread, q = fours % tile.threads, fours // tile.threads
    i, j = q // (tile.tn // 4), q % (tile.tn // 4)
    warp, lane = thread // 32, thread % 32
    four, eight = lane >> 1 & 3, lane & 1 | lane >> 3 << 1
    lane_m, lane_n = (four, eight) if tile.wm // tile.tm == 4 else (eight, four)
    across = tile.bn // tile.wn
    row = warp // across * tile.wm + i // 4 * (tile.wm // tile.tm * 4) + lane_m * 4 + i % 4
    column = warp % across * tile.wn + j * (tile.wn // tile.tn * 4) + lane_n * 4
    return np.repeat(row, 4), (column[:, None] + np.arange(4)).ravel()


def in_order(parts, shares):
    """The sum over the first axis in the order of the kernel, in float32."""
    each = -(-len(parts) // shares)
    total = None
    for first in range(0, len(parts), each):
        of_share = np.zeros_like(parts[0])
        for part in parts[first : first + each]:
            of_share = of_share + part
        total = of_share if total is None else total + of_share
    return total


@pytest.mark.device
@pytest.mark.parametrize(
    ("parts", "batch", "whole"),
    [
        pytest.param(2, 2, True, id="each thread has both"),
        pytest.param(10, 1, False, id="each thread has as many as it loads at a time"),
        pytest.param(11, 2, False, id="two threads share them, one has less"),
        pytest.param(25, 1, True, id="four shares"),
        pytest.param(47, 1, False, id="more than all threads load at a time"),
    ],
)
def test_parts_are_added_in_one_order(parts, batch, whole, rng):
    """Bit by bit; slots that do not belong to the tiles are NaN, and so is what belongs to no output."""
    tile, tiles = SMALL, 2
    m, n = (tile.bm, tiles * tile.bn) if whole else (tile.bm - 3, tiles * tile.bn - 5)
    shares = reduce.shares_of(tile, parts)
    slots = rng.standard_normal((batch, tiles, parts, tile.bm * tile.bn), np.float32)
    row, column = output_places(tile)
    expected = np.empty((batch, m, n), np.float32)
    for matrix, index in np.ndindex(batch, tiles):
        columns = index * tile.bn + column
        kept = (row < m) & (columns < n)
        expected[matrix][row[kept], columns[kept]] = in_order(slots[matrix, index][:, kept], shares)
        slots[matrix, index][:, ~kept] = np.nan

    workspace_parts = sums_and_flags(slots.size + tile.bm * tile.bn)
    place = workspace.allocate(Size.of(workspace_parts), 0)
    set_words(place.plain, np.append(slots.ravel(), np.full(tile.bm * tile.bn, np.nan, np.float32)).view(np.uint32))
    c = cuda.to_device(np.full((batch * m, n), np.nan, np.float32))
    problem = Problem.contiguous(m, n, 1, batch)
    arguments = workspace_arguments(problem, workspace_parts)
    one = launch.prepare(reduce.step(tile, Variant(whole=whole, vector=whole), problem, parts, arguments))
    # It reads neither A nor B: they have no address.
    for name, address in {"c": as_operand(c, "c", 0).pointer, **place.places(workspace_parts)}.items():
        one.set_place(name, address)
    one.set_scalar(ALPHA, 1.0)
    one.set_scalar(BETA, 0.0)
    one()
    np.testing.assert_array_equal(c.copy_to_host().reshape(expected.shape), expected)


# Products -------------------------------------------------------------------------------------------------

K = 11 * SMALL.bk + 3
#: Name: multiprocessors, parts of a tile, the product.
PRODUCTS = {
    "two parts, everything": (
        1,
        2,
        Product(SMALL.bm + 1, 3 * SMALL.bn - 3, K, alpha=2, beta=-0.5, bias=1, activation="relu"),
    ),
    "three parts, transposed C": (
        1,
        3,
        Product(SMALL.bm - 1, SMALL.bn, K, bias=1, epilogue=lambda x, row, col: x + row - 2 * col),
    ),
    "batch": (1, 3, Product(SMALL.bm, SMALL.bn, K, batch=5, trans_a=True, trans_b=True, beta=1)),
    "one part": (1, 1, Product(SMALL.bm, SMALL.bn, 7 * SMALL.bk)),
}


@pytest.mark.simulator
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_in_parts(name, multiprocessors, rng):
    count, parts, product = PRODUCTS[name]
    multiprocessors(count)
    assert parts_of(SMALL, Problem.contiguous(product.m, product.n, product.k, product.batch), count) == parts
    product.check(SPLIT_K, SMALL, rng)
    if name.startswith("three"):
        replace(product, c=replace(product.c, column_major=True)).check(SPLIT_K, SMALL, rng)


@pytest.mark.simulator
def test_more_shares_than_one_in_a_product(multiprocessors, rng):
    multiprocessors(H200)
    m, n, k = SMALL.bm, SMALL.bn, 4 * 12 * SMALL.bk
    parts = parts_of(SMALL, Problem.contiguous(m, n, k, 1), H200)
    assert reduce.shares_of(SMALL, parts) > 1
    Product(m, n, k, beta=1).check(SPLIT_K, SMALL, rng)


@pytest.mark.simulator
def test_launches_of_a_large_batch_have_parts_of_their_own(monkeypatch, multiprocessors, rng):
    monkeypatch.setattr(grids, "MAX_GRID_Z", 9)
    multiprocessors(1)
    product = Product(SMALL.bm, SMALL.bn, K, batch=9 + 4)
    assert [parts_of(SMALL, Problem.contiguous(product.m, product.n, product.k, batch), 1) for batch in (9, 4)] == [
        1,
        3,
    ]
    product.check(SPLIT_K, SMALL, rng)


@pytest.mark.device
def test_both_kernels_are_one_launch(rng):
    """That moves as one, and runs again."""
    m, n, k = SMALL.bm, SMALL.bn, 9 * SMALL.bk
    a, b = wide_integers(rng, m, k), units(rng, k, n)
    arrays = [cuda.to_device(array) for array in (a, b, np.full((m, n), np.nan, np.float32))]
    operands = Operands(*(as_operand(array, "x", 0) for array in arrays))
    one = prepare_product(SPLIT_K, SMALL, operands)
    assert one.main.config.grid == (1, 2, 1)
    one.launch(operands, 1.0, 0.0, 0)
    assert_exact(arrays[2].copy_to_host(), a, b)
    others = [cuda.to_device(array) for array in (2 * a, b, np.full((m, n), np.nan, np.float32))]
    one.direct()(*(as_operand(array, "x", 0).pointer for array in others), 0)
    assert_exact(others[2].copy_to_host(), 2 * a, b)


@pytest.mark.device
def test_a_plan_whose_tiles_have_one_part_has_no_workspace(rng):
    m, n, k = SMALL.bm, SMALL.bn, 7 * SMALL.bk
    p = plan(m, n, k, version="split_k", tile=SMALL)
    assert math.prod(p.grid) == 1
    a, b = wide_integers(rng, m, k), units(rng, k, n)
    c = cuda.to_device(np.full((m, n), np.nan, np.float32))
    p(cuda.to_device(a), cuda.to_device(b), c)
    assert_exact(c.copy_to_host(), a, b)
    assert len(p._products.workspaces) == 0
