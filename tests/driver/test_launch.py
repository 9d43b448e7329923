"""Launches as the driver reads them: the configuration, the list `extra`, the buffer, and the arguments in it."""

import ctypes
import struct

import numpy as np
import pytest

from numba_gemm.driver import cuda_api, launch, loading
from numba_gemm.driver.arguments import fields
from numba_gemm.driver.launch import PreparedLaunch
from numba_gemm.driver.loading import LoadedKernel
from numba_gemm.kernels import reduce, staging
from numba_gemm.kernels.interface import (
    ALPHA,
    BETA,
    GENERAL,
    PLAIN,
    STAGING,
    WITH_WORKSPACE,
    Array,
    Kernel,
    Step,
    Variant,
)
from numba_gemm.ladder import find
from numba_gemm.tile import LaunchConfig

SIGNATURES = {
    "plain": PLAIN,
    "general": GENERAL,
    "with a workspace": WITH_WORKSPACE,
    "reduce": reduce.SIGNATURE,
    "staging": STAGING,
}


def array(name, dimensions):
    """The fields of an array as Numba passes them, named for C."""
    words = ["meminfo", "parent", "items", "itemsize", "data"]
    words += [f"{what}{axis}" for what in ("shape", "stride") for axis in range(dimensions)]
    return [(f"{name}_{word}", ctypes.c_int64) for word in words]


class OfWorkspace(ctypes.Structure):
    """The parameters of a kernel with a workspace, laid out by the rules of C."""

    _fields_ = [
        *(field for name in ("a", "b", "c", "bias") for field in array(name, 2)),
        *((name, ctypes.c_uint32) for name in ("m", "n", "k")),
        *((name, ctypes.c_float) for name in ("alpha", "beta")),
        *((name, ctypes.c_int64) for name in ("a_batch", "b_batch", "c_batch")),
        *array("sums", 1),
        *array("flags", 1),
        ("batch", ctypes.c_uint32),
    ]


class Config(ctypes.Structure):
    """CUlaunchConfig of cuda.h."""

    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_size_t),
        ("attributes", ctypes.c_size_t),
        ("attribute_count", ctypes.c_uint),
    ]


def as_the_driver_reads(prepared):
    """The buffer that the list `extra` leads to, and its size."""
    extra = prepared._passed[3].value
    key_of_pointer, pointer, key_of_size, size, end = (ctypes.c_size_t * 5).from_address(extra)
    assert (key_of_pointer, key_of_size, end) == (1, 2, 0)
    return pointer, ctypes.c_size_t.from_address(size).value


@pytest.fixture
def prepared():
    parameters = tuple(fields(kind) for kind in WITH_WORKSPACE.args)
    loaded = LoadedKernel("kernel", 0, 1 << 43, 0, parameters, registers=1, local_bytes=0, shared_bytes=0)
    matrices = [Array(name, (8, 16)) for name in ("a", "b", "c", "bias")]
    sums, flags = Array("sums", (100,)), Array("flags", (7,), offset=64, dtype=np.uint32)
    arguments = (*matrices, 8, 16, 2**32 - 1, ALPHA, BETA, 1 << 35, -3, 0, sums, flags, 9)
    step = Step(Kernel(list, (), WITH_WORKSPACE), LaunchConfig((7, 5), (32, 2), 4096), arguments)
    launch = PreparedLaunch(step, loaded)
    places = {"a": 4096, "b": 8192, "c": 12288, "bias": 16384, "sums": 1 << 40, "flags": (1 << 41) - 64}
    for place, address in places.items():
        launch.set_place(place, address)
    launch.set_scalar(ALPHA, 1.5)
    launch.set_scalar(BETA, -0.5)
    launch.stream = 3
    return launch


def test_every_argument_is_where_c_would_have_it(prepared):
    address, size = as_the_driver_reads(prepared)
    found = OfWorkspace.from_address(address)
    assert size == OfWorkspace.batch.offset + 4, "without the padding at the end of a structure"
    assert [found.a_data, found.b_data, found.c_data, found.bias_data] == [4096, 8192, 12288, 16384]
    assert [found.a_items, found.a_itemsize, found.a_shape0, found.a_shape1] == [128, 4, 8, 16]
    assert [found.bias_stride0, found.bias_stride1] == [64, 4]
    assert [found.m, found.n, found.k, found.alpha, found.beta] == [8, 16, 2**32 - 1, 1.5, -0.5]
    assert [found.a_batch, found.b_batch, found.c_batch] == [1 << 35, -3, 0]
    assert [found.sums_data, found.sums_shape0, found.sums_stride0] == [1 << 40, 100, 4]
    assert [found.flags_data, found.flags_items, found.batch] == [1 << 41, 7, 9]


def test_what_changes_and_nothing_else(prepared):
    address, size = as_the_driver_reads(prepared)
    expected = OfWorkspace.from_buffer_copy(ctypes.string_at(address, ctypes.sizeof(OfWorkspace)))
    prepared.set_place("b", 20480)
    prepared.set_place("sums", 1 << 42)
    prepared.set_place("something else", 7)
    prepared.set_scalar(ALPHA, float("inf"))
    prepared.set_scalar(BETA, 0.25)
    expected.b_data, expected.sums_data, expected.alpha, expected.beta = 20480, 1 << 42, float("inf"), 0.25
    assert ctypes.string_at(address, size) == bytes(expected)[:size]


def test_the_configuration(prepared):
    config, function, parameters, _ = (argument.value for argument in prepared._passed)
    assert (function, parameters) == (1 << 43, None)
    found = Config.from_address(config)
    assert (list(found.grid), list(found.block), found.shared_bytes) == ([7, 5, 1], [32, 2, 1], 4096)
    assert (found.stream, found.attributes, found.attribute_count) == (3, 0, 0)
    prepared.stream = 1 << 44
    assert prepared.stream == found.stream == 1 << 44
    assert list(found.grid) == [7, 5, 1]


def test_a_short_way_launches_on_the_stream_it_is_given(prepared, monkeypatch):
    """And from the addresses; what the driver answers is an error that names the kernel."""
    seen = []

    def launch_kernel(config, *_):
        address, _ = as_the_driver_reads(prepared)
        found = OfWorkspace.from_address(address)
        seen.append((Config.from_address(config.value).stream, found.a_data, found.b_data, found.c_data))
        return 0 if len(seen) < 4 else 1

    monkeypatch.setattr(launch, "launch_function", lambda: launch_kernel)
    launch_at = prepared.at("b", "a", "c")
    launch_at(4096, 8192, 12288, 3)
    launch_at(4100, 8200, 12300, 1 << 44)
    prepared()
    assert seen == [(3, 8192, 4096, 12288), (1 << 44, 8200, 4100, 12300), (1 << 44, 8200, 4100, 12300)]
    monkeypatch.setattr(launch, "give_context", lambda: False)
    monkeypatch.setattr(cuda_api.cu, "cuGetErrorString", lambda _: (0, b"invalid argument"))
    with pytest.raises(cuda_api.DriverError, match=r"kernel.*\(7, 5\).*CUDA_ERROR_INVALID_VALUE: invalid argument"):
        launch_at(4096, 8192, 12288, 3)


def test_a_thread_without_a_context_gets_one(prepared, monkeypatch):
    answers, given = [201, 0], []
    monkeypatch.setattr(launch, "launch_function", lambda: lambda *_: answers.pop(0))
    monkeypatch.setattr(launch, "give_context", lambda: given.append(1) or True)
    prepared.at("a", "b", "c")(4096, 8192, 12288, 0)
    assert (answers, given) == ([], [1])


@pytest.mark.gpu
@pytest.mark.parametrize("name", SIGNATURES)
def test_the_layout_is_that_of_the_machine_code(name):
    from cuda.bindings import driver as cu

    skinny, boundary, naive = find("skinny"), find("boundary"), find("naive")
    kernels = {
        "plain": (naive.module.make_kernel, (naive.default_tile,)),
        "general": (boundary.module.make_kernel, (boundary.default_tile, Variant())),
        "with a workspace": (skinny.module.make_kernel, (skinny.default_tile, Variant(rows=1))),
        "reduce": (reduce.make_kernel, (find("split_k").default_tile, Variant())),
        "staging": (staging.make_kernel, ()),
    }
    loaded = loading.load(Kernel(*kernels[name], SIGNATURES[name]))
    layout = "".join(loaded.parameters)
    for index in range(len(layout)):
        error, offset, size = cu.cuKernelGetParamInfo(loaded.handle, index)
        assert int(error) == 0
        assert size == struct.calcsize(layout[index])
        assert offset + size == struct.calcsize(layout[: index + 1])
    assert int(cu.cuKernelGetParamInfo(loaded.handle, len(layout))[0]) != 0
