"""`Operand` and the questions asked of it, against enumerating every element's address."""

from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from numba import cuda
from support.guarded import LAYOUTS, Guarded

from numba_gemm.driver import operands
from numba_gemm.driver.operands import as_operand, overlap, overlaps_itself
from numba_gemm.problem import Operand

BASE = 0x10000
quick = settings(
    max_examples=300, derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)


def operand(shape, strides, start=0):
    return Operand("x", BASE + 4 * start, tuple(shape), tuple(strides))


def elements(matrix):
    """The address of every element, once for each index."""
    indices = product(*map(range, matrix.shape))
    return [matrix.pointer + 4 * sum(i * s for i, s in zip(index, matrix.strides, strict=True)) for index in indices]


@st.composite
def matrices(draw):
    """What `sgemm` lets through: positive strides, one of them 1 where it matters."""
    shape = draw(st.tuples(st.integers(0, 6), st.integers(0, 6)))
    strides = [1, draw(st.integers(1, 9))]
    if draw(st.booleans()):
        strides.reverse()
    return operand(shape, strides, draw(st.integers(0, 40)))


@st.composite
def arrays(draw):
    """Any positive strides, one to three dimensions."""
    dimensions = draw(st.integers(1, 3))
    shape = draw(st.lists(st.integers(0, 4), min_size=dimensions, max_size=dimensions))
    strides = draw(st.lists(st.integers(1, 20), min_size=dimensions, max_size=dimensions))
    return operand(shape, strides, draw(st.integers(0, 40)))


@quick
@given(one=matrices(), other=matrices())
def test_overlap_of_matrices_is_exact(one, other):
    shared = set(elements(one)) & set(elements(other))
    assert overlap(one, other) == bool(shared), f"{one} and {other} share {sorted(map(hex, shared))}"


@quick
@given(one=arrays(), other=arrays())
def test_overlap_of_arrays_is_exact(one, other):
    shared = set(elements(one)) & set(elements(other))
    assert overlap(one, other) == overlap(other, one) == bool(shared), f"{one} and {other} share {shared}"


@quick
@given(matrix=matrices())
def test_overlaps_itself_is_exact(matrix):
    addresses = elements(matrix)
    assert overlaps_itself(matrix) == (len(set(addresses)) < len(addresses)), f"{matrix}: {addresses}"


@quick
@given(array=arrays())
def test_byte_range_is_tight(array):
    addresses = elements(array)
    expected = (min(addresses), max(addresses) + 4) if addresses else (array.pointer, array.pointer)
    assert array.byte_range == expected


@quick
@given(array=arrays())
def test_contiguous_is_row_major_without_gaps(array):
    assume(array.size)
    addresses = elements(array)
    expected = list(range(array.pointer, array.pointer + 4 * len(addresses), 4))
    assert array.size == len(addresses)
    assert array.is_contiguous == (addresses == expected), f"{array}: {addresses}"


@quick
@given(matrix=matrices(), data=st.data())
def test_rows(matrix, data):
    first = data.draw(st.integers(0, matrix.shape[0]))
    end = data.draw(st.integers(first, matrix.shape[0]))
    part = matrix.rows(first, end)
    columns = matrix.shape[1]
    assert part.shape == (end - first, columns)
    assert elements(part) == elements(matrix)[first * columns : end * columns]


def test_large_addresses():
    # Products beyond 32 bits: a panel of a 100 000 × 50 000 matrix.
    matrix = operand((100_000, 50_000), (50_000, 1))
    assert matrix.size == 5_000_000_000
    assert matrix.byte_range == (BASE, BASE + 20_000_000_000)
    assert matrix.rows(90_000, 100_000).pointer == BASE + 18_000_000_000
    assert not overlap(matrix.rows(0, 50_000), matrix.rows(50_000, 100_000))
    assert overlap(matrix.rows(0, 50_001), matrix.rows(50_000, 100_000))
    left, right = operand((100_000, 25_000), (50_000, 1)), operand((100_000, 25_000), (50_000, 1), 25_000)
    assert not overlap(left, right)


def test_strides_in_bytes():
    assert operand((2, 3), (7, 1)).byte_strides == (28, 4)


@pytest.mark.device
@pytest.mark.parametrize("layout", LAYOUTS)
def test_reading_layouts(layout):
    values = np.arange(15, dtype=np.float32).reshape(3, 5)
    array = Guarded(values, layout)
    read = as_operand(array.view, "a", 0)
    interface = array.view.__cuda_array_interface__
    assert read.pointer == interface["data"][0]
    assert (read.name, read.shape, read.byte_strides) == ("a", (3, 5), interface["strides"])
    assert (read.device, read.read_only, read.producer_stream) == (0, False, None)
    assert read.owner is array.view
    assert read.is_contiguous == (layout in ("contiguous", "unaligned"))


@pytest.mark.device
@pytest.mark.parametrize("pointer", [None, 0])
def test_empty_arrays_may_have_no_address(pointer):
    array = Guarded(np.ones((2, 2)))
    array.view.__cuda_array_interface__ |= {"data": (pointer, True), "shape": (0, 3), "strides": None}
    read = as_operand(array.view, "a", 0)
    assert (read.pointer, read.shape, read.strides, read.device) == (0, (0, 3), (3, 1), None)
    assert read.read_only


@pytest.mark.device
@pytest.mark.parametrize(("named", "expected"), [(None, None), (1, 1), (2, 2), (0x7F00, 0x7F00)])
def test_the_producers_stream(named, expected):
    array = Guarded(np.ones((2, 2)))
    array.view.__cuda_array_interface__["stream"] = named
    assert as_operand(array.view, "a", 0).producer_stream == expected


class Both:
    """An array with both protocols, like those of JAX and CuPy."""

    def __init__(self, version):
        buffer = cuda.to_device(np.ones((2, 3), np.float32))
        self.owner = buffer
        interface = {"version": version, "typestr": "<f4", "shape": (2, 3), "strides": None}
        self.__cuda_array_interface__ = interface | {"data": (as_operand(buffer, "buffer", 0).pointer, False)}

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, **_):
        raise AssertionError("read by another function in this test")


@pytest.mark.device
@pytest.mark.parametrize(("version", "by_dlpack"), [(2, True), (3, False), (4, False)])
def test_an_array_interface_that_names_no_stream_gives_way_to_dlpack(version, by_dlpack, monkeypatch):
    seen = []

    def from_dlpack(_array, name, stream):
        seen.append((name, stream))
        return Operand(name, 0, (2, 3), (3, 1))

    monkeypatch.setattr(operands, "_from_dlpack", from_dlpack)
    assert as_operand(Both(version), "a", 7).shape == (2, 3)
    assert seen == ([("a", 7)] if by_dlpack else [])
