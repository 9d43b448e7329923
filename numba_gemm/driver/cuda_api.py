"""The CUDA driver's devices, streams and memory, through `cuda.bindings`; NumPy memory in the simulator."""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any

import numpy as np
from numba import cuda

from numba_gemm.compiler.target import SIMULATOR
from numba_gemm.tile import FLOAT_BYTES

if not SIMULATOR:
    from cuda.bindings import driver as cu

    _DEVICE_ORDINAL = cu.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL


class DriverError(RuntimeError):
    """A CUDA driver call failed; the message names the call and CUDA's error."""


def checked(call: str, result: tuple[Any, ...]) -> Any:
    """The value of a driver call's result, or the values, or a DriverError that names the call."""
    error, *values = result
    if int(error) != 0:
        _, text = cu.cuGetErrorString(error)
        raise DriverError(f"{call} failed with {error.name}: {text.decode() if text else 'no description'}")
    return (values[0] if len(values) == 1 else tuple(values)) if values else None


@cache
def launch_function() -> Any:
    """The driver's `cuLaunchKernelEx`, for arguments that are `ctypes.c_void_p`; it returns the error.

    The bindings' own function makes Python objects of the kernel and the stream at each call, and looks up one for the
    error: about 0.6 µs more of the 5 that it takes (measured once, beside this one in one process).
    """
    kinds = cu.CUdriverProcAddress_flags
    kind = kinds.CU_GET_PROC_ADDRESS_LEGACY_STREAM
    if 0 not in LEGACY_DEFAULT:
        kind = kinds.CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
    address, _ = checked("cuGetProcAddress", cu.cuGetProcAddress(b"cuLaunchKernelEx", _SINCE, kind))
    return ctypes.CFUNCTYPE(ctypes.c_int)(address)


#: The version of CUDA that brought `cuLaunchKernelEx`, 11.8.
_SINCE = 11080


# Devices ---------------------------------------------------------------------------------------------


_NOTHING_TO_DO = nullcontext()


def on_device(device: int) -> AbstractContextManager[Any]:
    """Make `device` current, for Numba and for the driver."""
    # The context manager costs microseconds, and nearly every call is for the current device already.
    if SIMULATOR or current_device() == device:
        return _NOTHING_TO_DO
    context: AbstractContextManager[Any] = cuda.gpus[device]
    return context


def current_device() -> int:
    """The ordinal of the device that this thread works on."""
    if SIMULATOR:
        return 0
    error, device = cu.cuCtxGetDevice()
    if int(error) != 0:  # this thread has no context yet; Numba makes the primary one current
        return int(cuda.current_context().device.id)
    return int(device)


def give_context() -> bool:
    """Make the primary context current in a thread that has no context yet; whether that was so."""
    error, context = cu.cuCtxGetCurrent()
    if int(error) != 0 or int(context) != 0:
        return False
    cuda.current_context()
    return True


@cache
def compute_capability(device: int) -> tuple[int, int]:
    """(major, minor); a simulated device can do everything."""
    if SIMULATOR:
        return (99, 0)
    major, minor = cuda.gpus[device].compute_capability
    return int(major), int(minor)


@cache
def multiprocessors(device: int) -> int:
    """How many multiprocessors (SMs) a device has; the simulator works like one."""
    return 1 if SIMULATOR else int(cuda.gpus[device].MULTIPROCESSOR_COUNT)


def device_of_pointer(pointer: int, name: str) -> int:
    """The ordinal of the device that memory belongs to.

    Raises:
        TypeError: if the driver does not know the address as device memory.

    """
    error, device = cu.cuPointerGetAttribute(_DEVICE_ORDINAL, pointer)
    if int(error) != 0:
        raise TypeError(f"{name} points to {pointer:#x}, which is not GPU memory ({error.name})")
    return int(device)


def wait_for_producer(producer: int, stream: int) -> None:
    """Work on `stream` from now on starts after what `producer` holds already; the host does not wait."""
    if SIMULATOR or producer == stream:
        return
    event = checked("cuEventCreate", cu.cuEventCreate(cu.CUevent_flags.CU_EVENT_DISABLE_TIMING))
    try:
        checked("cuEventRecord", cu.cuEventRecord(event, producer))
        checked("cuStreamWaitEvent", cu.cuStreamWaitEvent(stream, event, 0))
    finally:
        # The driver keeps a recorded event until it is no longer waited for.
        cu.cuEventDestroy(event)


#: Handles of the default stream that all threads share, which can be neither captured nor destroyed. The bindings can
#: be told that 0 is the thread's own default stream instead.
LEGACY_DEFAULT = (1,) if os.environ.get("CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM", "0") != "0" else (0, 1)


def stream_id(stream: int) -> int:
    """A number that no other stream of the program has or will have, unlike a handle."""
    return stream if SIMULATOR else int(checked("cuStreamGetId", cu.cuStreamGetId(stream)))


def is_capturing(stream: int) -> bool:
    """Whether what is enqueued on a stream goes into a graph."""
    if SIMULATOR:
        return False
    status = checked("cuStreamIsCapturing", cu.cuStreamIsCapturing(stream))
    return bool(status != cu.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE)


# Memory ----------------------------------------------------------------------------------------------


@contextmanager
def device_memory(nbytes: int, stream: int) -> Iterator[int]:
    """Address of memory that exists, in stream order, for the work enqueued inside the `with`.

    It belongs to this call alone: calls on other streams or threads never see it. In the simulator it starts
    full of NaN, like memory that nobody has written.
    """
    if SIMULATOR:
        memory = np.full(-(-nbytes // FLOAT_BYTES), np.nan, np.float32)
        yield memory.ctypes.data
        return
    pointer = int(checked("cuMemAllocAsync", cu.cuMemAllocAsync(max(nbytes, 1), stream)))
    try:
        yield pointer
    finally:
        checked("cuMemFreeAsync", cu.cuMemFreeAsync(pointer, stream))


def allocate(nbytes: int) -> int:
    """The address of new memory on the current device."""
    with _beside_captures():
        return int(checked("cuMemAlloc", cu.cuMemAlloc(max(nbytes, 1))))


def free(pointer: int) -> None:
    """Free memory of the current context, after all that is enqueued anywhere on its device."""
    with _beside_captures():
        cu.cuMemFree(pointer)


class DeviceMemory:
    """Memory on the current device for as long as this object lives, of which nobody has written a byte.

    It may go while kernels still use it: freeing it waits for them. In the simulator it starts full of NaN.
    """

    __slots__ = ("__weakref__", "_array", "pointer")

    def __init__(self, nbytes: int) -> None:
        if SIMULATOR:
            self._array = np.full(-(-nbytes // FLOAT_BYTES), np.nan, np.float32)
            self.pointer = self._array.ctypes.data
            return
        context = checked("cuCtxGetCurrent", cu.cuCtxGetCurrent())
        self.pointer = allocate(nbytes)
        weakref.finalize(self, _free, context, self.pointer).atexit = False


def _free(context: Any, pointer: int) -> None:
    """Free memory of a context, from whatever thread the last reference went away in."""
    (error,) = cu.cuCtxPushCurrent(context)
    if int(error) != 0:  # the context has gone, and its memory with it
        return
    try:
        free(pointer)
    finally:
        cu.cuCtxPopCurrent()


@contextmanager
def _beside_captures() -> Iterator[None]:
    """What is called inside neither disturbs, nor is refused because of, a stream that is being captured elsewhere."""
    mode = checked(
        "cuThreadExchangeStreamCaptureMode",
        cu.cuThreadExchangeStreamCaptureMode(cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED),
    )
    try:
        yield
    finally:
        cu.cuThreadExchangeStreamCaptureMode(mode)


def zero_words(pointer: int, count: int, stream: int) -> None:
    """Set `count` words of 32 bits to 0, in stream order."""
    if count == 0:
        return
    if SIMULATOR:
        ctypes.memset(pointer, 0, count * FLOAT_BYTES)
        return
    checked("cuMemsetD32Async", cu.cuMemsetD32Async(pointer, 0, count, stream))


def zero_matrix(pointer: int, rows: int, columns: int, lead: int, stream: int) -> None:
    """Set a matrix of 32-bit words to 0, whose rows start `lead` words apart, in stream order."""
    if SIMULATOR:
        for row in range(rows):
            ctypes.memset(pointer + row * lead * FLOAT_BYTES, 0, columns * FLOAT_BYTES)
        return
    pitch = lead * FLOAT_BYTES
    checked("cuMemsetD2D32Async", cu.cuMemsetD2D32Async(pointer, pitch, 0, columns, rows, stream))
