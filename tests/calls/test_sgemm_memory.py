"""Where the operands of `sgemm` lie, whose memory it is, and on which stream the work runs."""

import numpy as np
import pytest
from numba import cuda
from support.cases import ALL_TILES, FIRST_TILES, ragged_shape, whole_shape
from support.checks import assert_exact, units, wide_integers
from support.guarded import LAYOUTS, DeviceView, Guarded, bits, pointer_of

from numba_gemm import VERSIONS, Tile, sgemm
from numba_gemm.calls import sgemm as sgemm_module
from numba_gemm.driver import cuda_api

pytestmark = pytest.mark.device

#: Rung 4 asks for the most: whole tiles, contiguous, 16-byte aligned.
TILE = Tile(16, 16, 4, 4, 4)
STRICT = {"version": "vectorized", "tile": TILE}
EVERY_OTHER = [name for name in LAYOUTS if name != "contiguous"]


def product_in(layout_a, layout_b, layout_c, rng, shape, **options):
    """A·B with each matrix in a layout: exact, with operands and surroundings unchanged."""
    a, b = wide_integers(rng, shape.m, shape.k), units(rng, shape.k, shape.n)
    device_a, device_b = Guarded(a, layout_a), Guarded(b, layout_b)
    c = Guarded.poisoned(shape.m, shape.n, layout_c)
    assert sgemm(device_a.view, device_b.view, c.view, **options) is c.view
    assert_exact(c.values(), a, b)
    device_a.assert_untouched("A")
    device_b.assert_untouched("B")
    c.assert_guards_intact("C")


@pytest.mark.parametrize(("version", "tile"), FIRST_TILES)
@pytest.mark.parametrize("layout", ["unaligned", "pitched", "column-major"])
def test_all_operands_in_a_layout(version, tile, layout, rng):
    product_in(layout, layout, layout, rng, whole_shape(tile), version=version.name, tile=tile)


@pytest.mark.parametrize("layout", EVERY_OTHER)
@pytest.mark.parametrize("which", ["a", "b", "c"])
def test_one_operand_in_a_layout(which, layout, rng):
    layouts = [layout if which == name else "contiguous" for name in "abc"]
    product_in(*layouts, rng, whole_shape(TILE), **STRICT)


def test_ragged_shapes_in_layouts(rng):
    product_in("pitched column-major", "every second row", "column-major", rng, ragged_shape(TILE), **STRICT)


def test_slices_of_numba_arrays(rng):
    whole = cuda.to_device(wide_integers(rng, 12, 20))
    b = units(rng, 9, 6)
    c = cuda.to_device(np.full((10, 10), np.nan, np.float32))
    sgemm(whole[2:7, 3:12], cuda.to_device(b), c[1:6, 2:8], **STRICT)
    after = c.copy_to_host()
    assert_exact(after[1:6, 2:8], whole.copy_to_host()[2:7, 3:12], b)
    after[1:6, 2:8] = np.nan
    assert np.isnan(after).all()


def test_disjoint_columns_of_one_buffer(rng):
    # Their address ranges interleave, their elements do not.
    before = np.full((8, 30), np.nan, np.float32)
    before[:, :8], before[:, 8:16] = wide_integers(rng, 8, 8), units(rng, 8, 8)
    buffer = cuda.to_device(before)
    sgemm(buffer[:, :8], buffer[:, 8:16], buffer[:, 16:24], **STRICT)
    after = buffer.copy_to_host()
    assert_exact(after[:, 16:24], before[:, :8], before[:, 8:16])
    after[:, 16:24] = np.nan
    np.testing.assert_array_equal(bits(after), bits(before))


def test_strides_of_single_rows_and_columns_mean_nothing(rng):
    a, b = wide_integers(rng, 1, 6), units(rng, 6, 1)
    device_a, device_b = cuda.to_device(a), cuda.to_device(b)
    c = cuda.to_device(np.full((1, 1), np.nan, np.float32))
    sgemm(
        DeviceView(device_a, data=(pointer_of(device_a), True), shape=(1, 6), strides=(0, 4)),
        DeviceView(device_b, data=(pointer_of(device_b), True), shape=(6, 1), strides=(4, -400)),
        DeviceView(c, data=(pointer_of(c), False), shape=(1, 1), strides=(12, 0)),
        **STRICT,
    )
    assert_exact(c.copy_to_host(), a, b)


def test_operands_may_be_one_array_and_read_only(rng):
    square = units(rng, 16, 16)
    device = cuda.to_device(square)
    view = DeviceView(device, data=(pointer_of(device), True), shape=square.shape)
    c = Guarded.poisoned(16, 16)
    sgemm(view, view, c.view, **STRICT)
    assert_exact(c.values(), square, square)


@pytest.mark.parametrize(("version", "tile"), FIRST_TILES)
def test_a_new_array_is_returned_without_c(version, tile, rng):
    shape = whole_shape(tile)
    a, b = wide_integers(rng, shape.m, shape.k), units(rng, shape.k, shape.n)
    c = sgemm(cuda.to_device(a), cuda.to_device(b), version=version.name, tile=tile)
    assert type(c) is type(cuda.to_device(a))
    assert c.dtype == np.float32
    assert_exact(c.copy_to_host(), a, b)


def test_a_second_product_without_c_is_launched_like_the_first(monkeypatch, rng):
    sgemm(*(cuda.to_device(np.ones(shape, np.float32)) for shape in ((13, 7), (7, 11))))
    monkeypatch.setattr(sgemm_module, "_admit", lambda *_: pytest.fail("it was chosen again"))
    a, b = wide_integers(rng, 13, 7), units(rng, 7, 11)
    first, second = (sgemm(cuda.to_device(a), cuda.to_device(b)) for _ in range(2))
    assert pointer_of(first) != pointer_of(second)
    for c in (first, second):
        assert_exact(c.copy_to_host(), a, b)


@pytest.mark.parametrize(("m", "n", "k"), [(0, 5, 3), (5, 0, 3), (5, 3, 0), (0, 0, 0)])
def test_a_new_array_of_an_empty_product(m, n, k):
    a, b = cuda.to_device(np.empty((m, k), np.float32)), cuda.to_device(np.empty((k, n), np.float32))
    c = sgemm(a, b, **STRICT)
    np.testing.assert_array_equal(c.copy_to_host(), np.zeros((m, n), np.float32))


class CudaStream:
    """Any object with the protocol."""

    def __cuda_stream__(self):
        return 0, 0


class OldCudaStream:
    """Early versions of cuda.core had a property."""

    __cuda_stream__ = (0, 0)


class TorchStream:
    cuda_stream = 0


class CupyStream:
    ptr = 0


def test_work_on_a_numba_stream(rng):
    stream = cuda.stream()
    a, b = wide_integers(rng, 17, 9), units(rng, 9, 15)
    device_a, device_b = cuda.to_device(a, stream=stream), cuda.to_device(b, stream=stream)
    c = sgemm(device_a, device_b, stream=stream, **STRICT)
    stream.synchronize()
    assert_exact(c.copy_to_host(), a, b)


@pytest.mark.parametrize("stream", [None, 0, CudaStream(), OldCudaStream(), TorchStream(), CupyStream()])
def test_kinds_of_streams(stream, rng):
    a, b = wide_integers(rng, 16, 4), units(rng, 4, 16)
    c = sgemm(cuda.to_device(a), cuda.to_device(b), stream=stream, **STRICT)
    assert_exact(c.copy_to_host(), a, b)


def test_the_producers_streams_are_waited_for(rng, monkeypatch):
    # The array interface names them; the wait itself is one driver call.
    waits = []
    monkeypatch.setattr(cuda_api, "wait_for_producer", lambda producer, stream: waits.append((producer, stream)))
    a, b = Guarded(wide_integers(rng, 16, 4)), Guarded(units(rng, 4, 16))
    c = Guarded.poisoned(16, 16)
    a.view.__cuda_array_interface__["stream"] = 1
    c.view.__cuda_array_interface__["stream"] = 2
    sgemm(a.view, b.view, c.view, stream=0, **STRICT)
    assert waits == [(1, 0), (2, 0)]


def test_every_version_is_tested():
    tested = [param.values[0] for param in (*FIRST_TILES, *ALL_TILES)]
    assert {version.module.__name__ for version in tested} == {version.module.__name__ for version in VERSIONS}
