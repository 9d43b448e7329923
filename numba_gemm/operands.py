"""What callers may pass as a matrix, brought into one form: `Operand`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from numba_gemm.device import SIMULATOR
from numba_gemm.tile import FLOAT_BYTES

_FLOAT32 = np.dtype(np.float32)
#: DLPack device types whose memory a kernel can address: kDLCUDA and kDLCUDAManaged.
_DLPACK_CUDA = (2, 13)


@dataclass(frozen=True, slots=True)
class Operand:
    """A float32 array in GPU memory. Strides are in elements."""

    name: str
    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    read_only: bool = False
    #: Device ordinal; None for an array without elements, whose pointer may be null.
    device: int | None = None
    #: Stream of the producer, to be waited for; None when there is nothing to wait for.
    producer_stream: int | None = None
    #: Keeps the memory alive as long as the operand.
    owner: Any = field(default=None, repr=False, compare=False)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def is_contiguous(self) -> bool:
        """Row-major without gaps, where strides of extents of at most 1 do not matter."""
        expected = 1
        for extent, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if extent > 1 and stride != expected:
                return False
            expected *= extent
        return True

    @property
    def byte_strides(self) -> tuple[int, ...]:
        return tuple(stride * FLOAT_BYTES for stride in self.strides)

    @property
    def byte_range(self) -> tuple[int, int]:
        """First and one-past-last byte that the array touches."""
        if self.size == 0:
            return self.pointer, self.pointer
        reach = [(extent - 1) * stride for extent, stride in zip(self.shape, self.strides, strict=True)]
        first = self.pointer + sum(floats for floats in reach if floats < 0) * FLOAT_BYTES
        return first, self.pointer + (sum(floats for floats in reach if floats > 0) + 1) * FLOAT_BYTES

    def rows(self, first: int, end: int) -> Operand:
        """Rows first … end−1 of a matrix."""
        return replace(
            self,
            pointer=self.pointer + first * self.strides[0] * FLOAT_BYTES,
            shape=(end - first, *self.shape[1:]),
        )


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
    if getattr(array, "requires_grad", False) is True:
        raise ValueError(f"{name} requires grad, which a kernel cannot track; pass {name}.detach()")
    operand = _read(array, name, stream)
    _check_strides(operand)
    return operand


def _read(array: Any, name: str, stream: int) -> Operand:
    if isinstance(array, np.ndarray | np.generic | list | tuple | int | float):
        raise TypeError(
            f"{name} is a {type(array).__module__}.{type(array).__name__} in host memory; "
            f"copy it to the device first, for example with numba.cuda.to_device({name})"
        )
    if SIMULATOR and hasattr(array, "__cuda_ndarray__"):
        return _from_simulator(array, name)
    # PyTorch's property raises for a CPU tensor or a conjugate view; then DLPack tells more.
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is not None:
        return _from_array_interface(array, interface, name)
    if hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__"):
        return _from_dlpack(array, name, stream)
    raise TypeError(
        f"{name} is a {type(array).__module__}.{type(array).__name__}; pass a float32 array in GPU memory that has "
        "__cuda_array_interface__ or __dlpack__ (Numba, PyTorch, CuPy, JAX)"
    )


def _from_simulator(array: Any, name: str) -> Operand:
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
    byte_strides = interface.get("strides")
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
        device=_device_of(int(pointer or 0), name) if math.prod(shape) else None,
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
        read_only=bool(view.readonly),
        device=int(device) if math.prod(shape) else None,
        owner=(array, view),
    )


def _require_float32(dtype: Any, name: str) -> None:
    if dtype != _FLOAT32:
        raise TypeError(f"{name} has dtype {dtype}; it must be float32 (numba_gemm does no conversion)")


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.insert(0, strides[0] * extent)
    return tuple(strides[: len(shape)])


def _element_strides(byte_strides: Any, name: str) -> tuple[int, ...]:
    for stride in byte_strides:
        if stride % FLOAT_BYTES:
            raise ValueError(
                f"{name} has strides of {tuple(byte_strides)} bytes, {stride} of which is not a multiple of "
                f"{FLOAT_BYTES}; make it contiguous first"
            )
    return tuple(int(stride) // FLOAT_BYTES for stride in byte_strides)


def _check_strides(operand: Operand) -> None:
    if operand.pointer % FLOAT_BYTES:
        raise ValueError(
            f"{operand.name} starts at address {operand.pointer:#x}, which is not a multiple of {FLOAT_BYTES}; "
            "make a copy of it"
        )
    if len(operand.shape) < 2 or operand.size == 0:
        return
    shape, strides = operand.shape[-2:], operand.strides[-2:]
    counted = [stride for extent, stride in zip(shape, strides, strict=True) if extent > 1]
    if any(stride <= 0 for stride in counted) or (len(counted) == 2 and 1 not in counted):
        raise ValueError(
            f"{operand.name} of shape {operand.shape} has strides of {operand.strides} elements; a matrix needs "
            "positive strides, and 1 in one of its two dimensions: make it contiguous first"
        )


def _device_of(pointer: int, name: str) -> int:
    if SIMULATOR:
        return 0
    from numba_gemm import runtime

    return runtime.device_of_pointer(pointer, name)


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
        first = replace(operand, shape=operand.shape[1:], strides=operand.strides[1:])
        if overlaps_itself(first):
            return True
        # All matrices are alike: the first meets another one only as far as it reaches.
        start, end = first.byte_range
        near = min(batch - 1, (end - start) // abs(stride)) if stride else batch - 1
        return any(overlap(first, replace(first, pointer=first.pointer + i * stride)) for i in range(1, near + 1))
    (rows, columns), (row_stride, column_stride) = operand.shape, operand.strides
    if rows <= 1 or columns <= 1:
        return False
    # With unit stride along one axis, lines of the other start at least a line's length apart.
    return row_stride < columns if column_stride == 1 else column_stride < rows
