"""Work comes after that of the arrays' producers, whatever streams they use."""

import numpy as np
import pytest
from cuda.core import Device
from numba import cuda
from support.checks import assert_exact, assert_same, wide_integers
from support.foreign import DlpackOnly, K, M, N, numbers, on_host
from support.guarded import DeviceView, pointer_of

from numba_gemm import VERSIONS, sgemm
from numba_gemm.calls import sgemm as sgemm_module
from numba_gemm.driver.product import ThreadProducts
from numba_gemm.driver.streams import stream_handle

pytestmark = pytest.mark.gpu

GENERAL = [version for version in VERSIONS if version.takes_everything]
ORDERED = pytest.mark.parametrize("version", ["auto", *(version.name for version in GENERAL)])


@cuda.jit
def wait(turns):
    for _ in range(turns):
        cuda.nanosleep(1_000_000)


def occupy(handle):
    """Keep a stream busy for a tenth of a second or more: what is enqueued after it is late."""
    wait[1, 1, cuda.external_stream(handle) if handle else 0](200)


@pytest.fixture
def turns(monkeypatch):
    """Four times: what compiles comes first, since the device may have to wait for that; then as the first call
    of a layout, and as one that follows another."""

    def each():
        wait[1, 1](1)
        for remembered in (False, False, True, True):
            if not remembered:
                monkeypatch.setattr(sgemm_module, "_products", ThreadProducts())
            yield

    return each()


def new_stream():
    """A stream that does not wait for the default stream, which those of Numba do."""
    device = Device()
    device.set_current()
    return device.create_stream()


@pytest.mark.parametrize("producer", ["default", "side"])
@pytest.mark.parametrize(
    ("version", "which"),
    [("auto", "a"), ("auto", "b"), *((v.name, which) for v in GENERAL for which in ("a", "b", "c", "bias"))],
)
def test_work_comes_after_that_of_pytorch(version, producer, which, torch, turns, rng):
    side = torch.cuda.Stream() if producer == "side" else torch.cuda.default_stream()
    work = torch.cuda.Stream()
    for _ in turns:
        a, b = numbers(rng)
        values = {"a": a, "b": b, "c": wide_integers(rng, M, N), "bias": wide_integers(rng, 1, N)[0]}
        device = {name: torch.as_tensor(value, device="cuda") for name, value in values.items()}
        late = device[which].clone()
        device[which].zero_()
        options = {} if version == "auto" else {"beta": 1.0, "bias": device["bias"]}
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            occupy(side.cuda_stream)
            device[which].copy_(late)
            sgemm(device["a"], device["b"], device["c"], version=version, stream=work, **options)
        work.synchronize()
        assert_same(on_host(device["c"]), a @ b + (values["c"] + values["bias"] if options else 0))


def with_stream(array, handle):
    """An array whose interface names the stream that it is made on, as the protocol asks for."""
    view = DeviceView(array, data=(pointer_of(array), False), shape=tuple(array.shape))
    view.__cuda_array_interface__["stream"] = handle
    return view


@ORDERED
@pytest.mark.parametrize("default", [False, True], ids=["side stream", "legacy default stream"])
def test_work_comes_after_that_of_an_array_interface(version, default, turns, rng):
    side, work = new_stream(), new_stream()
    handle = 1 if default else int(side.handle)
    for _ in turns:
        a, b = numbers(rng)
        device_a, device_b = cuda.to_device(np.zeros_like(a)), cuda.to_device(b)
        late, c = cuda.to_device(a), cuda.to_device(np.full((M, N), np.nan, np.float32))
        cuda.synchronize()
        occupy(0 if default else handle)
        device_a.copy_to_device(late, stream=0 if default else cuda.external_stream(handle))
        sgemm(with_stream(device_a, handle), device_b, c, version=version, stream=work)
        work.sync()
        assert_exact(c.copy_to_host(), a, b)


@ORDERED
def test_work_comes_after_that_of_cupy(version, cupy, turns, rng):
    side, work = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    for _ in turns:
        a, b = numbers(rng)
        device_a, device_b, late = cupy.zeros((M, K), np.float32), cupy.asarray(b), cupy.asarray(a)
        c = cupy.full((M, N), np.nan, np.float32)
        cuda.synchronize()
        with side:
            occupy(side.ptr)
            device_a[...] = late
            sgemm(device_a, device_b, c, version=version, stream=work)
        work.synchronize()
        assert_exact(on_host(c), a, b)


def streams():
    """A stream of each library, and how to wait for it."""
    stream = cuda.stream()
    yield stream, stream.synchronize
    yield stream_handle(stream), stream.synchronize
    yield type("Any", (), {"__cuda_stream__": lambda _: (0, stream_handle(stream))})(), stream.synchronize
    for library in ("torch", "cupy"):
        module = pytest.importorskip(library)
        stream = module.cuda.Stream()
        yield stream, stream.synchronize
    stream = new_stream()
    yield stream, stream.sync


@ORDERED
def test_streams_of_every_library(version, rng):
    for stream, synchronize in streams():
        a, b = numbers(rng)
        device_a, device_b = cuda.to_device(a), cuda.to_device(b)
        c = cuda.to_device(np.full((M, N), np.nan, np.float32))
        cuda.synchronize()
        sgemm(device_a, device_b, c, stream=stream, version=version)
        synchronize()
        assert_exact(c.copy_to_host(), a, b)


@ORDERED
def test_work_comes_after_that_of_dlpack(version, torch, turns, rng):
    side, work = torch.cuda.Stream(), torch.cuda.Stream()
    for _ in turns:
        a, b = numbers(rng)
        device_a, late = torch.zeros((M, K), device="cuda"), torch.as_tensor(a, device="cuda")
        device_b = cuda.to_device(b)
        c = cuda.to_device(np.full((M, N), np.nan, np.float32))
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            occupy(side.cuda_stream)
            device_a.copy_(late)
            sgemm(DlpackOnly(device_a), device_b, c, version=version, stream=work)
        work.synchronize()
        assert_exact(c.copy_to_host(), a, b)
