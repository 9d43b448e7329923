"""How a product of strided operands is put to a kernel: computed again with NumPy from nothing but the description."""

from itertools import product as every_combination

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided
from support.products import Placement

from numba_gemm import Tile
from numba_gemm.device.epilogue import Epilogue
from numba_gemm.kernels.interface import Variant
from numba_gemm.problem import Lines, Operand, Problem

TILE = Tile(16, 16, 4, 4, 4)
ROWS, COLUMNS = Placement(), Placement(column_major=True)


class Memory:
    """An operand in host memory, as a kernel would get its description, and the buffer that it lies in."""

    def __init__(self, values, placement):
        size, view = placement(*values.shape)
        self.buffer = np.full(size, np.nan, np.float32)
        self.values = view(self.buffer)
        self.values[...] = values
        strides = tuple(stride // 4 for stride in self.values.strides)
        # Addresses as if the buffer were as aligned as memory on the device is.
        self.operand = Operand("x", self.values.ctypes.data - self.buffer.ctypes.data, values.shape, strides)

    def read(self, lines: Lines, length, index):
        """The lines of one matrix of the batch as rows of an array, at most to the buffer's end."""
        return as_strided(
            self.buffer[self.operand.pointer // 4 + index * lines.batch :],
            (lines.number, length),
            (4 * lines.lead, 4),
        )


def operands(rng, m, n, k, placements=(ROWS, ROWS, ROWS), transposes=(False, False), batches=(None, None, None)):
    shapes = [(m, k), (k, n), (m, n)]
    found = []
    for shape, placement, transpose, batch in zip(shapes, placements, (*transposes, False), batches, strict=True):
        stored = shape[::-1] if transpose else shape
        values = rng.integers(-9, 10, stored if batch is None else (batch, *stored)).astype(np.float32)
        found.append(Memory(values, placement))
    return found


def arranged(a, b, c, transposes=(False, False)):
    """As a kernel that writes C row by row sees it."""
    found = Problem.of(a.operand, b.operand, c.operand, trans_a=transposes[0], trans_b=transposes[1])
    return found.by_rows_of_c()


def carry_out(arrangement, a, b, c):
    """What a kernel does: it knows only the arrangement, and writes C by lines along n."""
    if arrangement.transposed:
        a, b = b, a
    for index in range(arrangement.batch):
        matrix_a = a.read(arrangement.a, arrangement.k if arrangement.a_along_k else arrangement.m, index)
        matrix_b = b.read(arrangement.b, arrangement.k if arrangement.b_along_k else arrangement.n, index)
        matrix_a = matrix_a if arrangement.a_along_k else matrix_a.T
        matrix_b = matrix_b.T if arrangement.b_along_k else matrix_b
        assert matrix_a.shape == (arrangement.m, arrangement.k)
        assert matrix_b.shape == (arrangement.k, arrangement.n)
        c.read(arrangement.c, arrangement.n, index)[...] = matrix_a @ matrix_b


@pytest.mark.parametrize("batches", [(None, None, None), (3, 3, 3), (3, None, 3), (None, 3, 3)], ids=str)
@pytest.mark.parametrize("sizes", [(5, 7, 3), (1, 7, 3), (5, 1, 3), (5, 7, 1), (1, 1, 4), (1, 1, 1), (5, 7, 0)])
def test_the_product_is_in_the_description(sizes, batches, rng):
    for *orders, trans_a, trans_b in every_combination([False, True], repeat=5):
        pitches, gaps = rng.integers(0, 6, (2, 3)).tolist()
        placements = [
            Placement(column_major, pitch, pitch, gap)
            for column_major, pitch, gap in zip(orders, pitches, gaps, strict=True)
        ]
        check_description(sizes, placements, (trans_a, trans_b), batches, rng)


def check_description(sizes, placements, transposes, batches, rng):
    trans_a, trans_b = transposes
    a, b, c = operands(rng, *sizes, placements, transposes, batches)
    op_a = a.values.swapaxes(-1, -2) if trans_a else a.values
    op_b = b.values.swapaxes(-1, -2) if trans_b else b.values
    around = c.buffer.copy()
    arrangement = arranged(a, b, c, transposes)
    assert arrangement.batch == (batches[2] or 1)
    carry_out(arrangement, a, b, c)
    np.testing.assert_array_equal(c.values, op_a @ op_b, f"{placements}, {transposes}")
    np.testing.assert_array_equal(np.isnan(c.buffer), np.isnan(around), "something was written beside C")


def test_which_axis_the_lines_run_along(rng):
    # As the kernel names them: along k or not, for A and for B.
    expected = {"NN": (True, False), "NT": (True, True), "TN": (False, False), "TT": (False, True)}
    for name, along_k in expected.items():
        flags = tuple(letter == "T" for letter in name)
        by_flag = arranged(*operands(rng, 5, 7, 3, transposes=flags), flags)
        assert (by_flag.a_along_k, by_flag.b_along_k, by_flag.transposed) == (*along_k, False), name
        orders = [COLUMNS if flag else ROWS for flag in flags]
        by_order = arranged(*operands(rng, 5, 7, 3, (*orders, ROWS)))
        assert (by_order.a_along_k, by_order.b_along_k, by_order.transposed) == (*along_k, False), name


def test_a_column_major_c_swaps_the_operands(rng):
    a, b, c = operands(rng, 5, 7, 3, (ROWS, ROWS, COLUMNS))
    found = arranged(a, b, c)
    assert (found.m, found.n, found.k, found.transposed) == (7, 5, 3, True)
    assert (found.a.number, found.a.lead) == (3, 7)  # of the caller's B
    assert (found.b.number, found.b.lead) == (5, 3)
    assert (found.c.number, found.c.lead) == (7, 5)
    assert (found.a_along_k, found.b_along_k) == (False, True)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (Lines(5, 8), True),
        (Lines(5, 8, 40), True),
        (Lines(5, 8, aligned=False), False),
        *((Lines(5, 8 + extra), False) for extra in (1, 2, 3)),
        *((Lines(5, 8, 40 + extra), False) for extra in (1, 2, 3)),
    ],
)
def test_lines_take_vectors_if_everything_is_a_multiple_of_16_bytes(lines, expected):
    assert lines.takes_vectors is expected


@pytest.mark.parametrize("name", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("bad", [Placement(shift=1), Placement(pitch=1), Placement(gap=2)], ids=str)
def test_only_copies_along_lines_need_alignment(name, bad, rng):
    transposes = tuple(letter == "T" for letter in name)

    def vector(*placements):
        return arranged(*operands(rng, 8, 12, 16, placements, transposes, (2, 2, 2)), transposes).vector

    assert vector(ROWS, ROWS, ROWS)
    assert vector(bad, ROWS, ROWS) == (name[0] == "N")  # A runs along k
    assert vector(ROWS, bad, ROWS) == (name[1] == "T")
    assert not vector(ROWS, ROWS, bad)


@pytest.mark.parametrize("name", ["NN", "NT", "TN", "TT"])
def test_copies_along_lines_need_lines_in_fours(name, rng):
    # With padded leading dimensions, so that nothing else keeps them from 16-byte accesses.
    transposes = tuple(letter == "T" for letter in name)

    def vector(m, n):
        placements = tuple(Placement(multiple=4) for _ in range(3))
        return arranged(*operands(rng, m, n, 16, placements, transposes, (2, 2, 2)), transposes).vector

    assert vector(8, 12)
    assert vector(7, 12) == (name[0] == "N")  # lines of A run along k, one by one
    assert vector(8, 11) == (name[1] == "T")


def test_a_single_line_may_have_any_stride(rng):
    # One row of 6 floats: the next line would start 6 floats further on, but there is none.
    a, b, c = operands(rng, 4, 1, 4)
    assert not arranged(a, b, c).vector  # C is 4 × 1, and its lines are 1 float apart
    a, b, c = operands(rng, 1, 6, 4, transposes=(False, True))
    assert arranged(a, b, c, (False, True)).vector
    a, b, c = operands(rng, 1, 6, 4, (ROWS, ROWS, Placement(shift=1)), (False, True))
    assert not arranged(a, b, c, (False, True)).vector


def test_offsets_beyond_32_bits():
    a = Operand("a", 2**45, (2**16, 2**16), (2**17, 1))
    b = Operand("b", 2**46, (2, 2**16, 8), (2**34, 8, 1))
    c = Operand("c", 2**47, (2, 2**16, 8), (2**35, 1, 2**18))
    found = Problem.of(a, b, c).by_rows_of_c()
    assert found.transposed
    assert found.a == Lines(2**16, 8, 2**34)
    assert found.b == Lines(2**16, 2**17, 0)
    assert found.c == Lines(8, 2**18, 2**35)


def test_a_batch_of_one_has_no_distance():
    a = Operand("a", 0, (1, 5, 3), (7, 3, 1))
    c = Operand("c", 0, (1, 5, 5), (1, 5, 1))
    b = Operand("b", 0, (3, 5), (5, 1))
    assert [lines.batch for found in [Problem.of(a, b, c)] for lines in (found.a, found.b, found.c)] == [0, 0, 0]


@pytest.mark.parametrize(
    ("m", "n", "k", "whole"),
    [(16, 32, 8, True), (17, 32, 8, False), (16, 31, 8, False), (16, 32, 7, False), (16, 32, 0, False)],
)
def test_whole_tiles(m, n, k, whole, rng):
    for order in (ROWS, COLUMNS):
        square = Tile(16, 16, 4, 4, 4)
        found = Variant.of(arranged(*operands(rng, m, n, k, (ROWS, ROWS, order))), square, Epilogue())
        assert found.whole is whole


def test_whole_tiles_are_judged_as_the_kernel_sees_them(rng):
    tile = Tile(32, 16, 4, 4, 4)
    for m, n, whole in ((32, 16, False), (16, 32, True)):
        arrangement = arranged(*operands(rng, m, n, 4, (ROWS, ROWS, COLUMNS)))
        found = Variant.of(arrangement, tile, Epilogue(bias=True))
        assert found.whole is whole, (m, n)
        assert found.epilogue.transposed
        # What does not look at rows and columns is one kernel for both.
        assert not Variant.of(arrangement, tile, Epilogue(activation="relu")).epilogue.transposed


@pytest.mark.parametrize("pointer", [0x1000, 0x1004, 0x1008, 0x100C])
def test_alignment_is_all_of_an_address_that_counts(pointer):
    a, b, c = (Operand(name, 0x1000, (8, 8), (8, 1)) for name in "abc")
    found = Problem.of(a, b, c._replace(pointer=pointer))
    assert found.c.aligned is (pointer == 0x1000)
    assert found._replace(c=found.c._replace(aligned=True)) == Problem.of(a, b, c)


@pytest.mark.parametrize("batch", [None, 1, 3])
@pytest.mark.parametrize("name", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize(
    "sizes", [(5, 7, 3), (1, 8, 3), (5, 1, 3), (5, 7, 1), (1, 1, 4), (4, 1, 1), (5, 7, 0)], ids=str
)
def test_contiguous_is_what_contiguous_operands_are(sizes, name, batch, rng):
    transposes = tuple(letter == "T" for letter in name)
    a, b, c = (memory.operand for memory in operands(rng, *sizes, (ROWS, ROWS, ROWS), transposes, (batch,) * 3))
    found = Problem.of(a, b, c, trans_a=transposes[0], trans_b=transposes[1])
    assert found == Problem.contiguous(*sizes, batch, trans_a=transposes[0], trans_b=transposes[1])
    assert hash(found) == hash(Problem.contiguous(*sizes, batch, trans_a=transposes[0], trans_b=transposes[1]))


@pytest.mark.parametrize(
    "placement", [Placement(), Placement(True), Placement(False, 3, 1, 5), Placement(True, 2, 0, 4)]
)
@pytest.mark.parametrize("batches", [(None, None, None), (3, 3, 3), (3, None, 3)], ids=str)
@pytest.mark.parametrize("sizes", [(5, 7, 3), (1, 7, 3), (5, 1, 3), (1, 1, 1), (5, 7, 0)], ids=str)
def test_spans_are_those_of_the_operands(sizes, batches, placement, rng):
    a, b, c = (memory.operand for memory in operands(rng, *sizes, (placement,) * 3, batches=batches))
    bias = Operand("bias", 0, sizes[1:2], (3,))
    found = Problem.of(a, b, c, bias=bias)
    for place, operand in (("a", a), ("b", b), ("c", c), ("bias", bias)):
        assert found.span(place) == operand.span, place


def test_the_key_is_the_same_for_all_leading_dimensions():
    def of(lead, **options):
        operands = (Operand(name, 0, (8, 8), (lead, 1)) for name in "abc")
        return Problem.of(*operands, **options).key

    assert of(8) == of(12) == Problem.of_key(8, 8, 8, 1)
    assert of(9) == Problem.of_key(8, 8, 8, 1, vector=False) != of(8)
    assert of(8, trans_a=True) == Problem.of_key(8, 8, 8, 1, a_along_k=False)
    by_columns = (Operand(name, 0, (8, 8), (1, 8)) for name in "abc")
    assert Problem.of(*by_columns).key == of(8), "the product of the transposes"
    assert of(8).key == of(8)
