"""Operands that `sgemm` refuses: the type of the error, the numbers and the remedy in it, and that nothing ran."""

import numpy as np
import pytest
from support.guarded import POISON, DeviceView
from support.refusal import K, M, N, ones, refused, view

from numba_gemm import sgemm
from numba_gemm.driver import operands

pytestmark = [pytest.mark.device, pytest.mark.usefixtures("nothing_runs")]

OPERANDS = pytest.mark.parametrize(("name", "shape"), [("a", (M, K)), ("b", (K, N)), ("c", (M, N))])

# Not float32 in GPU memory -------------------------------------------------------------------------------


class HostTensor:
    """A CPU tensor, by DLPack."""

    def __dlpack_device__(self):
        return 1, 0  # kDLCPU

    def __dlpack__(self, **_):
        pytest.fail("a CPU tensor was exported")


class CudaArrayInterfaceThatRaises(HostTensor):
    """PyTorch's property raises AttributeError for a CPU tensor."""

    @property
    def __cuda_array_interface__(self):
        raise AttributeError("Can't get __cuda_array_interface__ on non-CUDA tensor type")


@OPERANDS
def test_numpy_arrays(name, shape):
    refused(TypeError, f"{name} is a numpy.ndarray in host memory", f"cuda.to_device({name})", **{name: np.ones(shape)})


@pytest.mark.parametrize("name", ["a", "b", "c"])
@pytest.mark.parametrize("value", [[[1.0]], ((1.0,),), 1.0, 1, np.float32(1)])
def test_host_values(name, value):
    kind = f"{type(value).__module__}.{type(value).__name__}"
    refused(TypeError, f"{name} is a {kind} in host memory", f"cuda.to_device({name})", **{name: value})


@pytest.mark.parametrize("name", ["a", "b", "c"])
@pytest.mark.parametrize("tensor", [HostTensor(), CudaArrayInterfaceThatRaises()])
def test_cpu_tensors(name, tensor):
    refused(TypeError, f"{name} is a ", "in host memory", "device type 1", f"{name}.cuda()", **{name: tensor})


@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_things_that_are_no_arrays(name):
    refused(TypeError, f"{name} is a builtins.object", "__cuda_array_interface__", "__dlpack__", **{name: object()})


@pytest.mark.parametrize("name", ["a", "b"])
def test_none_is_no_operand(name):
    arguments = {"a": ones(M, K), "b": ones(K, N), name: None}
    with pytest.raises(TypeError, match=f"{name} is a builtins.NoneType; pass a float32 array in GPU memory"):
        sgemm(**arguments)


@OPERANDS
@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int32, np.uint8, np.bool_, np.complex64])
def test_other_dtypes(name, shape, dtype):
    refused(TypeError, f"{name} has dtype {np.dtype(dtype)}", "must be float32", **{name: ones(*shape, dtype=dtype)})


@OPERANDS
@pytest.mark.parametrize("typestr", ["<f8", ">f4", "<i4", "|V2"])
def test_other_types_by_interface(name, shape, typestr):
    refused(TypeError, f"{name} has dtype", "must be float32", **{name: view(shape, typestr=typestr)})


@OPERANDS
def test_masks(name, shape):
    refused(TypeError, f"{name} has a mask", "without it", **{name: view(shape, mask=view(shape, typestr="|b1"))})


@OPERANDS
def test_requires_grad(name, shape):
    array = view(shape)
    array.requires_grad = True
    refused(ValueError, f"{name} requires grad", f"{name}.detach()", **{name: array})


# Layouts that no kernel takes ------------------------------------------------------------------------------


@OPERANDS
def test_unaligned_pointers(name, shape):
    array = view(shape, offset=2)
    address = hex(array.__cuda_array_interface__["data"][0])
    refused(ValueError, f"{name} starts at address {address}", "multiple of 4", "copy", **{name: array})


@OPERANDS
@pytest.mark.parametrize(
    "strides",
    [
        pytest.param((0, 1), id="broadcast rows"),
        pytest.param((1, 0), id="broadcast columns"),
        pytest.param((0, 0), id="one element"),
        pytest.param((-16, 1), id="rows upside down"),
        pytest.param((16, -1), id="columns from right to left"),
        pytest.param((-1, 16), id="column-major upside down"),
        pytest.param((32, 2), id="every second column"),
        pytest.param((2, 2), id="no unit stride, overlapping"),
    ],
)
def test_bad_strides(name, shape, strides):
    array = view(shape, tuple(4 * stride for stride in strides))
    refused(ValueError, f"{name} of shape {shape} has strides of {strides}", "make it contiguous", **{name: array})


@OPERANDS
@pytest.mark.parametrize("strides", [(30, 4), (32, 6), (2, 4)])
def test_strides_of_no_whole_elements(name, shape, strides):
    refused(ValueError, f"{name} has strides of {strides} bytes", "multiple of 4", **{name: view(shape, strides)})


@pytest.mark.parametrize("name", ["a", "b", "c"])
@pytest.mark.parametrize("shape", [(), (15,), (2, 2, 5, 3)])
def test_dimensions(name, shape):
    refused(ValueError, f"{name} has shape {shape}", **{name: view(shape)})


# Operands that do not go together --------------------------------------------------------------------------


def test_inner_dimensions():
    refused(ValueError, "inner dimensions differ", f"a is {M} × {K}", f"b is {K + 1} × {N}", b=ones(K + 1, N))
    refused(ValueError, "inner dimensions differ", f"a is {K} × {M}", a=ones(K, M))
    refused(ValueError, f"aᵀ is {K} × {M}", f"b is {K} × {N}", trans_a=True)
    refused(ValueError, f"a is {M} × {K}", f"bᵀ is {N} × {K}", trans_b=True)


@pytest.mark.parametrize("shape", [(M + 1, N), (M, N - 1), (N, M), (1, 1), (0, N), (1, M, N)])
def test_shape_of_c(shape):
    refused(ValueError, f"c has shape {shape}", f"({M}, {K})", f"({K}, {N})", f"({M}, {N})", c=ones(*shape))


def test_read_only_c():
    refused(ValueError, "c is read-only", "writable", c=view((M, N), read_only=True))


def test_different_devices(monkeypatch):
    device_of = {}
    monkeypatch.setattr(operands, "_device_of", lambda _, name: device_of.get(name, 0))
    arrays = {"a": view((M, K)), "b": view((K, N)), "c": view((M, N))}
    for odd in arrays:
        device_of.update(dict.fromkeys(arrays, 0) | {odd: 1})
        refused(ValueError, "different devices", f"{odd} on device 1", "on device 0", "copy them to one", **arrays)


# A result over its operands -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a", "b"])
@pytest.mark.parametrize("shift", [0, 1, -1, 24, -24])
def test_c_overlaps_an_operand(name, shift):
    # 5 × 5 matrices: a shift by 24 leaves one element in common.
    square = view((5, 5))
    pointer, _ = square.__cuda_array_interface__["data"]
    c = DeviceView(square.owner, data=(pointer + 4 * shift, False), shape=(5, 5))
    others = {"a": view((5, 5)), "b": view((5, 5)), name: square}
    refused(ValueError, "c (from", hex(pointer + 4 * shift), f"overlaps {name}", hex(pointer), "own", c=c, **others)
    np.testing.assert_array_equal(square.owner.copy_to_host().view(np.uint32), POISON.view(np.uint32))


def test_c_is_an_operand():
    square = ones(5, 5)
    refused(ValueError, "c (from", "overlaps a", a=square, b=ones(5, 5), c=square)
    refused(ValueError, "c (from", "overlaps b", a=ones(5, 5), b=square, c=square)


def test_c_shares_one_column_of_its_buffer_with_a():
    buffer = ones(5, 20)
    refused(ValueError, "overlaps a", a=buffer[:, 0:5], b=ones(5, 6), c=buffer[:, 4:10])


@pytest.mark.parametrize("strides", [(N - 1, 1), (1, 1), (1, M - 1)])
def test_c_overlaps_itself(strides):
    c = view((M, N), tuple(4 * stride for stride in strides))
    refused(ValueError, f"c of shape {(M, N)}", f"strides of {strides}", "overlaps itself", "an array of its own", c=c)
