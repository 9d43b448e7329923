"""What callers may pass as a matrix, brought into one form: `Operand`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from numba_gemm.compiler.target import SIMULATOR
from numba_gemm.driver import cuda_api, torch_tensors
from numba_gemm.driver.torch_tensors import Reader
from numba_gemm.problem import Operand
from numba_gemm.tile import FLOAT_BYTES

_FLOAT32 = np.dtype(np.float32)
#: DLPack device types whose memory a kernel can address: kDLCUDA and kDLCUDAManaged.
_DLPACK_CUDA = (2, 13)
#: The version of the CUDA array interface that names the producer's stream.
_VERSION_WITH_STREAMS = 3


def as_operand(array: Any, name: str, stream: int) -> Operand:
    """Read an array's pointer, shape and strides, without copying or waiting.

    Args:
        array: anything with `__cuda_array_interface__` or `__dlpack__`, on a GPU.
        name: what error messages call it.
        stream: the handle that work will run on; a DLPack producer orders itself before it.

    Raises:
        TypeError: not an array in GPU memory, or not float32.
        ValueError: requires grad, or has strides that no kernel takes.
    """
    kind = type(array)
    read = _readers.get(kind)
    if read is None:
        read = _readers[kind] = _reader_of(kind)
    operand = read(array, name, stream)
    pointer = operand.pointer
    if not pointer or pointer % FLOAT_BYTES or not _has_lines(operand.shape, operand.strides):
        _refuse_layout(operand)
    return operand


#: How to read each type of array that has been seen.
_readers: dict[type, Reader] = {}


def _reader_of(kind: type) -> Reader:
    if issubclass(kind, np.ndarray | np.generic | list | tuple | int | float):
        return _refuse_host_data
    if SIMULATOR and getattr(kind, "__cuda_ndarray__", False):
        return _from_simulator
    if torch_tensors.is_tensor_type(kind):
        return torch_tensors.make_reader(_require_float32)
    return _from_protocols


def _refuse_host_data(array: Any, name: str, _stream: int) -> Operand:
    raise TypeError(
        f"{name} is a {type(array).__module__}.{type(array).__name__} in host memory; "
        f"copy it to the device first, for example with numba.cuda.to_device({name})"
    )


def _from_protocols(array: Any, name: str, stream: int) -> Operand:
    if getattr(array, "requires_grad", False) is True:
        raise ValueError(f"{name} requires grad, which a kernel cannot track; pass {name}.detach()")
    interface = getattr(array, "__cuda_array_interface__", None)
    has_dlpack = hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__")
    # Before version 3 the interface says nothing about streams (JAX): then DLPack, which orders the work.
    if interface is not None and (interface.get("version", 0) >= _VERSION_WITH_STREAMS or not has_dlpack):
        return _from_array_interface(array, interface, name)
    if has_dlpack:
        return _from_dlpack(array, name, stream)
    raise TypeError(
        f"{name} is a {type(array).__module__}.{type(array).__name__}; pass a float32 array in GPU memory that has "
        "__cuda_array_interface__ or __dlpack__ (Numba, PyTorch, CuPy, JAX)"
    )


def _from_simulator(array: Any, name: str, _stream: int) -> Operand:
    """The simulator's device arrays are NumPy arrays in disguise; their host address is the pointer."""
    _require_float32(array.dtype, name)
    host = array._ary
    return Operand(
        name=name,
        pointer=host.ctypes.data,
        shape=tuple(host.shape),
        strides=_element_strides(host.strides, name),
        read_only=not host.flags.writeable,
        device=0,
        owner=array,
    )


def _from_array_interface(array: Any, interface: dict[str, Any], name: str) -> Operand:
    _require_float32(np.dtype(interface["typestr"]), name)
    if interface.get("mask") is not None:
        raise TypeError(f"{name} has a mask, which a kernel would ignore; pass the data without it")
    shape = tuple(int(extent) for extent in interface["shape"])
    # Numba's interface calls a broadcast view contiguous; the array itself knows better.
    byte_strides = array.strides if getattr(array, "__cuda_ndarray__", False) is True else interface.get("strides")
    strides = _contiguous(shape) if byte_strides is None else _element_strides(byte_strides, name)
    pointer, read_only = interface["data"]
    producer_stream = interface.get("stream")
    if producer_stream is None:
        producer_stream = getattr(array, "stream", None) if hasattr(array, "__cuda_ndarray__") else None
        producer_stream = int(producer_stream) if producer_stream else None
    return Operand(
        name=name,
        pointer=int(pointer or 0),
        shape=shape,
        strides=strides,
        read_only=bool(read_only),
        device=_device_of(int(pointer), name) if pointer and math.prod(shape) else None,
        producer_stream=producer_stream,
        owner=array,
    )


def _from_dlpack(array: Any, name: str, stream: int) -> Operand:
    device_type, device = array.__dlpack_device__()
    if int(device_type) not in _DLPACK_CUDA:
        raise TypeError(
            f"{name} is a {type(array).__module__}.{type(array).__name__} in host memory (DLPack device type "
            f"{int(device_type)}); copy it to the device first, for example with {name}.cuda()"
        )
    from cuda.core.utils import StridedMemoryView

    # DLPack calls the legacy default stream 1, and 0 is not allowed.
    view = StridedMemoryView.from_dlpack(array, stream_ptr=stream or 1)
    _require_float32(view.dtype, name)
    shape = tuple(view.shape)
    return Operand(
        name=name,
        pointer=int(view.ptr),
        shape=shape,
        strides=_contiguous(shape) if view.strides is None else tuple(view.strides),
        read_only=bool(view.readonly) or _is_immutable(array),
        device=int(device) if math.prod(shape) else None,
        owner=(array, view),
    )


def _is_immutable(array: Any) -> bool:
    """Whether a producer says by its array interface that nobody may write; JAX's DLPack export does not say so."""
    interface = getattr(array, "__cuda_array_interface__", None)
    data = interface.get("data") if isinstance(interface, dict) else None
    return bool(data is not None and data[1]) or type(array).__module__.partition(".")[0] in ("jax", "jaxlib")


def _require_float32(dtype: Any, name: str) -> None:
    if dtype != _FLOAT32:
        raise TypeError(f"{name} has dtype {dtype}; it must be float32 (numba_gemm does no conversion)")


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _element_strides(byte_strides: Any, name: str) -> tuple[int, ...]:
    for stride in byte_strides:
        if stride % FLOAT_BYTES:
            raise ValueError(
                f"{name} has strides of {tuple(byte_strides)} bytes, {stride} of which is not a multiple of "
                f"{FLOAT_BYTES}; make it contiguous first"
            )
    return tuple(int(stride) // FLOAT_BYTES for stride in byte_strides)


def _has_lines(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether a matrix has positive strides, one of them 1; axes of length 1 have any."""
    if len(shape) < 2:
        return True
    rows, columns = shape[-2:]
    row_stride, column_stride = strides[-2:]
    if rows > 1 and columns > 1:
        return (column_stride == 1 and row_stride > 0) or (row_stride == 1 and column_stride > 0)
    return ((rows <= 1 or row_stride > 0) and (columns <= 1 or column_stride > 0)) or rows == 0 or columns == 0


def _refuse_layout(operand: Operand) -> None:
    if operand.pointer == 0 and operand.size:
        raise ValueError(
            f"{operand.name} has {operand.size} elements and no memory: its pointer is null. Pass an array with "
            "its data, not a wrapper or a stand-in for one"
        )
    if operand.pointer % FLOAT_BYTES:
        raise ValueError(
            f"{operand.name} starts at address {operand.pointer:#x}, which is not a multiple of {FLOAT_BYTES}; "
            "make a copy of it"
        )
    if operand.size:
        raise ValueError(
            f"{operand.name} of shape {operand.shape} has strides of {operand.strides} elements; a matrix needs "
            "positive strides, and 1 in one of its two dimensions: make it contiguous first"
        )


def _device_of(pointer: int, name: str) -> int:
    return 0 if SIMULATOR else cuda_api.device_of_pointer(pointer, name)


def wait_for_producers(operands: Iterable[Operand], stream: int) -> None:
    """Work on `stream` from now on starts after what the operands' producers have enqueued."""
    for producer in {operand.producer_stream for operand in operands}:
        if producer is not None:
            cuda_api.wait_for_producer(producer, stream)


class _Described:
    """An address range with strides that NumPy can reason about without ever reading it."""

    def __init__(self, operand: Operand) -> None:
        self.__array_interface__ = {
            "version": 3,
            "typestr": "<f4",
            "data": (operand.pointer, True),
            "shape": operand.shape,
            "strides": operand.byte_strides,
        }


def overlap(one: Operand, other: Operand) -> bool:
    """Whether two arrays share an element, exactly: interleaved columns of one buffer do not."""
    if one.size == 0 or other.size == 0:
        return False
    (one_start, one_end), (other_start, other_end) = one.byte_range, other.byte_range
    if one_end <= other_start or other_end <= one_start:
        return False
    return bool(np.shares_memory(np.asarray(_Described(one)), np.asarray(_Described(other))))


def overlaps_itself(operand: Operand) -> bool:
    """Whether two indices of a matrix, or of a batch of matrices, are the same element."""
    if operand.size <= 1:
        return False
    if len(operand.shape) == 3:
        batch, stride = operand.shape[0], operand.strides[0] * FLOAT_BYTES
        first = operand._replace(shape=operand.shape[1:], strides=operand.strides[1:])
        if overlaps_itself(first):
            return True
        # All matrices are alike: the first meets another one only as far as it reaches.
        start, end = first.byte_range
        near = min(batch - 1, (end - start) // abs(stride)) if stride else batch - 1
        return any(overlap(first, first._replace(pointer=first.pointer + i * stride)) for i in range(1, near + 1))
    (rows, columns), (row_stride, column_stride) = operand.shape, operand.strides
    if rows <= 1 or columns <= 1:
        return False
    # With unit stride along one axis, lines of the other start at least a line's length apart.
    return row_stride < columns if column_stride == 1 else column_stride < rows
