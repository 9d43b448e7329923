"""Transposes, column-major arrays, leading dimensions, alignment: what versions that take any layout make of them."""

from dataclasses import dataclass, replace
from itertools import product as every_combination

import numpy as np
import pytest
from numba import cuda
from numpy.lib.stride_tricks import as_strided
from support.cases import GENERAL_TILES, ragged_shape, shapes
from support.checks import assert_exact, units, wide_integers
from support.guarded import POISON, DeviceView, bits, pointer_of
from support.products import Placement, Product, column_major

from numba_gemm import sgemm
from numba_gemm.compiler.target import SIMULATOR

pytestmark = pytest.mark.device

ANY_LAYOUT = pytest.mark.parametrize(("version", "tile"), GENERAL_TILES)
#: N for as it is, T for transposed, as in BLAS.
TRANSPOSES = pytest.mark.parametrize("transposes", ["NN", "NT", "TN", "TT"])
#: Every set of matrices.
MATRICES = ["", "a", "b", "c", "ab", "ac", "bc", "abc"]
#: Sizes around those of the tiles, and around what 16 bytes hold.
SIZES = (1, 2, 3, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 129, 130)


def transposed(product, transposes):
    return replace(product, trans_a=transposes[0] == "T", trans_b=transposes[1] == "T")


def placed(product, **placements):
    return replace(product, **{name: placement for name, placement in placements.items() if name in "abc"})


@ANY_LAYOUT
@TRANSPOSES
@pytest.mark.parametrize("by_columns", MATRICES, ids=lambda names: f"by columns {names or 'none'}")
def test_flags_and_orders(version, tile, transposes, by_columns, rng):
    # A transposed column-major array is a row-major one, and so on: each kernel is reached in several ways.
    shape = ragged_shape(tile)
    product = transposed(Product(shape.m, shape.n, shape.k), transposes)
    column_major(product, by_columns).check(version, tile, rng)


@ANY_LAYOUT
@TRANSPOSES
def test_shapes_around_a_tile(version, tile, transposes, rng):
    wanted = shapes(tile)
    if SIMULATOR:
        wanted = [shape for shape in wanted if shape.m * shape.n <= tile.bm * tile.bn]
    for shape in wanted:
        transposed(Product(shape.m, shape.n, shape.k), transposes).check(version, tile, rng)


@pytest.mark.gpu
@ANY_LAYOUT
@TRANSPOSES
@pytest.mark.parametrize("multiple", [1, 4], ids=["contiguous", "aligned lines"])
@pytest.mark.parametrize("order", ["by rows", "by columns"])
def test_sizes_up_to_130(version, tile, transposes, multiple, order, rng):
    # Each pair of sizes in each pair of dimensions, the third running along.
    pairs = list(every_combination(SIZES, repeat=2))
    sizes = {
        place
        for index, (one, other) in enumerate(pairs)
        for third in [SIZES[(7 * index + 3 * (index // len(SIZES))) % len(SIZES)]]
        for place in ((one, other, third), (one, third, other), (third, one, other))
    }
    for m, n, k in sorted(sizes):
        place = Placement(multiple=multiple)
        product = transposed(Product(m, n, k, a=place, b=place, c=place), transposes)
        column_major(product, "c" if order == "by columns" else "").check(version, tile, rng)


#: Floats a line, or the first element, is away from what 16-byte accesses allow.
PLACEMENTS = {
    "aligned lines": Placement(multiple=4),
    "aligned lines, pitched": Placement(multiple=4, pitch=8),
    "odd leading dimension": Placement(pitch=3),
    "4-byte aligned": Placement(shift=1),
    "8-byte aligned": Placement(shift=2),
    "12-byte aligned, pitched": Placement(shift=3, pitch=8),
}


@ANY_LAYOUT
@TRANSPOSES
@pytest.mark.parametrize("placement", PLACEMENTS.values(), ids=PLACEMENTS)
def test_one_operand_after_the_other_in_a_placement(version, tile, transposes, placement, rng):
    # In turn, at one shape: what was chosen for one of them must not be used for the next.
    product = transposed(Product(tile.bm, tile.bn, 2 * tile.bk), transposes)
    for names in ("a", "b", "c"):
        placed(product, **dict.fromkeys(names, placement)).check(version, tile, rng)


@ANY_LAYOUT
@pytest.mark.parametrize("placement", PLACEMENTS.values(), ids=PLACEMENTS)
@pytest.mark.parametrize("by_columns", ["", "abc"], ids=["by rows", "by columns"])
def test_all_operands_in_a_placement(version, tile, placement, by_columns, rng):
    shape = ragged_shape(tile)
    product = placed(Product(shape.m, shape.n, shape.k), a=placement, b=placement, c=placement)
    column_major(product, by_columns).check(version, tile, rng)


@ANY_LAYOUT
@pytest.mark.parametrize("by_columns", ["", "c", "abc"])
def test_empty_products_in_layouts(version, tile, by_columns, rng):
    for m, n, k in ((0, 5, 3), (5, 0, 3), (5, 3, 0), (0, 0, 0)):
        for transposes in ("NN", "TT"):
            product = placed(Product(m, n, k), c=Placement(pitch=3, shift=1))
            column_major(transposed(product, transposes), by_columns).check(version, tile, rng)


@dataclass(frozen=True)
class Strides:
    """A matrix with these strides, in floats. That of a dimension of length 1 may be anything."""

    row: int
    column: int

    def __call__(self, rows, columns):
        reach = (rows - 1) * self.row + (columns - 1) * self.column
        return 16 + reach + 1, lambda whole: as_strided(whole[8:], (rows, columns), (4 * self.row, 4 * self.column))


@ANY_LAYOUT
@pytest.mark.parametrize(
    ("m", "n", "k", "a", "b", "c"),
    [
        (1, 9, 6, Strides(0, 1), Strides(9, 1), Strides(-7, 1)),
        (1, 9, 6, Strides(-3, 2), Strides(1, 6), Strides(0, 3)),  # single lines need no unit stride
        (9, 1, 6, Strides(6, 1), Strides(1, 0), Strides(1, -400)),
        (9, 1, 6, Strides(1, 10), Strides(5, 2**40), Strides(3, 2)),
        (9, 10, 1, Strides(2, -1), Strides(0, 3), Strides(10, 1)),
        (9, 10, 1, Strides(1, 0), Strides(2**33, 1), Strides(1, 9)),
        (1, 1, 6, Strides(1, 4), Strides(4, 1), Strides(0, 0)),
        (1, 1, 1, Strides(0, 0), Strides(-1, -1), Strides(2**50, 3)),
    ],
)
def test_strides_of_length_1_mean_nothing(version, tile, m, n, k, a, b, c, rng):
    product = Product(m, n, k, a=a, b=b, c=c)
    product.check(version, tile, rng)
    # As the transpose, where that stride is the one of the other axis.
    a, b, c = (Strides(strides.column, strides.row) for strides in (a, b, c))
    Product(n, m, k, a=b, b=a, c=c).check(version, tile, rng)
    Product(
        n,
        m,
        k,
        a=replace(b, row=b.column, column=b.row),
        b=replace(a, row=a.column, column=a.row),
        c=c,
        trans_a=True,
        trans_b=True,
    ).check(version, tile, rng)


@ANY_LAYOUT
def test_views_of_numba_arrays(version, tile, rng):
    a, b = wide_integers(rng, 12, 20), units(rng, 15, 14)
    c = cuda.to_device(np.full((10, 12), np.nan, np.float32))
    sgemm(cuda.to_device(a)[2:7, 3:12], cuda.to_device(b)[1:10, 4:10], c[1:6, 2:8], version=version.name, tile=tile)
    after = c.copy_to_host()
    assert_exact(after[1:6, 2:8], a[2:7, 3:12], b[1:10, 4:10])
    after[1:6, 2:8] = np.nan
    assert np.isnan(after).all()


@ANY_LAYOUT
@pytest.mark.parametrize("by_columns", [False, True], ids=["columns", "rows"])
def test_disjoint_parts_of_one_buffer(version, tile, by_columns, rng):
    # Their address ranges interleave, their elements do not.
    before = np.full((9, 31), POISON)
    before[:, :9], before[:, 9:18] = wide_integers(rng, 9, 9), units(rng, 9, 9)
    buffer = cuda.to_device(before)

    def part(first, end):
        pointer = pointer_of(buffer) + 4 * first
        strides = (4, 124) if by_columns else (124, 4)
        return DeviceView(buffer, data=(pointer, False), shape=(9, end - first), strides=strides)

    sgemm(part(0, 9), part(9, 18), part(19, 28), version=version.name, tile=tile)
    after = buffer.copy_to_host()
    a, b, c = before[:, :9], before[:, 9:18], after[:, 19:28]
    assert_exact(c.T, a.T, b.T) if by_columns else assert_exact(c, a, b)
    after[:, 19:28] = POISON
    np.testing.assert_array_equal(bits(after), bits(before))
