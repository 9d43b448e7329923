"""`Operand` and the questions asked of it, against enumerating every element's address."""

from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from numba import cuda
from support.checks import wide_integers
from support.guarded import LAYOUTS, DeviceView, Guarded, pointer_of

from numba_gemm import gemv, sgemm
from numba_gemm.driver import operands
from numba_gemm.driver.operands import as_operand, overlap, overlaps_itself
from numba_gemm.ladder import find
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
        return Operand(name, 4096, (2, 3), (3, 1))

    monkeypatch.setattr(operands, "_from_dlpack", from_dlpack)
    assert as_operand(Both(version), "a", 7).shape == (2, 3)
    assert seen == ([("a", 7)] if by_dlpack else [])


# Where a producer's object knows better than its protocol -------------------------------------------------------


class Broadcast(DeviceView):
    """As Numba's broadcast views are: the interface says contiguous, the attribute has the strides."""

    __cuda_ndarray__ = True

    def __init__(self, shape, byte_strides):
        buffer = cuda.to_device(np.arange(64, dtype=np.float32))
        super().__init__(buffer, data=(pointer_of(buffer), False), shape=shape, strides=None)
        self.strides = byte_strides


@pytest.mark.gpu
def test_a_zero_batch_stride_of_a_numba_array_is_a_broadcast(rng):
    host = np.arange(12, dtype=np.float32).reshape(3, 4)
    b = wide_integers(rng, 4, 5)
    for version in (6, 7, 8, "skinny", "split_k"):
        c = sgemm(Broadcast((3, 3, 4), (0, 16, 4)), cuda.to_device(b), version=version)
        np.testing.assert_array_equal(c.copy_to_host(), np.broadcast_to(host @ b, (3, 3, 5)))


@pytest.mark.gpu
@pytest.mark.parametrize("version", ["auto", 1, 4, 6])
def test_zero_strides_inside_a_matrix_are_refused(version):
    good = cuda.to_device(np.ones((6, 6), np.float32))
    for strides in ((0, 4), (16, 0)):
        flat = Broadcast((6, 6), strides)
        with pytest.raises(ValueError, match=r"strides of \((0, 1|4, 0)\) elements"):
            sgemm(flat, good, version=version)
        with pytest.raises(ValueError, match=r"strides of \((0, 1|4, 0)\) elements"):
            sgemm(good, good, flat, version=version)


@pytest.mark.gpu
def test_an_output_that_is_a_broadcast_batch_is_refused():
    a, b = cuda.to_device(np.ones((2, 3, 4), np.float32)), cuda.to_device(np.ones((4, 4), np.float32))
    with pytest.raises(ValueError, match="overlaps itself"):
        sgemm(a, b, Broadcast((2, 3, 4), (0, 16, 4)))


@pytest.mark.gpu
def test_an_immutable_array_is_no_output():
    jax = pytest.importorskip("jax")
    c = jax.numpy.zeros((4, 4), jax.numpy.float32)
    a = cuda.to_device(np.ones((4, 4), np.float32))
    for _ in range(2):
        with pytest.raises(ValueError, match="c is read-only"):
            sgemm(a, a, c)
    assert (np.asarray(c) == 0).all()
    assert (sgemm(c, a).copy_to_host() == 0).all(), "it is an input like others"


@pytest.mark.device
@pytest.mark.parametrize("place", ["a", "b", "c", "bias", "x", "y"])
def test_elements_without_memory_are_refused(place):
    def without(*shape):
        return DeviceView(None, data=(0, False), shape=shape, strides=None)

    def ones(*shape):
        return cuda.to_device(np.ones(shape, np.float32))

    def matrix(name):
        return without(4, 4) if place == name else ones(4, 4)

    def vector(name):
        return without(4) if place == name else ones(4)

    def call():
        if place in ("x", "y"):
            return gemv(ones(4, 4), vector("x"), vector("y"))
        tile = find(6).small_tile
        return sgemm(matrix("a"), matrix("b"), matrix("c"), bias=vector("bias"), version=6, tile=tile)

    with pytest.raises(ValueError, match=rf"{place} has \d+ elements and no memory: its pointer is null"):
        call()
    found = sgemm(ones(4, 4), ones(4, 4), version=6, tile=find(6).small_tile)
    assert found.copy_to_host().sum() == 64, "the context is alive"
