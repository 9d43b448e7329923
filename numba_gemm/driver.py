"""From a kernel to a launch: compile once, load once, allow big shared memory, launch cheaply.

Numba's own launch inspects each argument anew (30 to 70 µs for three arrays). Here the arguments are
packed into the words that a Numba kernel takes and handed to `cuLaunchKernel` (about 5 µs). In the
simulator the same calls run on NumPy arrays, so that one set of tests serves both.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numba import cuda, float32, types

from numba_gemm.device import SIMULATOR
from numba_gemm.device.cache import enable_disk_cache
from numba_gemm.kernels import staging
from numba_gemm.ladder import Version
from numba_gemm.operands import Operand
from numba_gemm.tile import FLOAT_BYTES, STATIC_SHARED_BYTES, LaunchConfig, Tile

if not SIMULATOR:
    from cuda.bindings import driver as cu

#: The signature of every rung: A, B, C row-major and contiguous.
GEMM_SIGNATURE = types.void(float32[:, ::1], float32[:, ::1], float32[:, ::1])
#: The staging kernel takes any strides.
_STAGING_SIGNATURE = types.void(float32[:, :], float32[:, :])
#: Largest grid along y.
_MAX_GRID_Y = 65535


class DriverError(RuntimeError):
    """A CUDA driver call failed; the message names the call and CUDA's error."""


def _checked(call: str, result: tuple[Any, ...]) -> Any:
    error, *values = result
    if int(error) != 0:
        _, text = cu.cuGetErrorString(error)
        raise DriverError(f"{call} failed with {error.name}: {text.decode() if text else 'no description'}")
    return values[0] if len(values) == 1 else values


# Devices ---------------------------------------------------------------------------------------------


def on_device(device: int) -> AbstractContextManager[Any]:
    """Make `device` current, for Numba and for the driver."""
    if SIMULATOR:
        return nullcontext()
    # The context manager costs microseconds, and nearly every call is for the current device already.
    if cuda.current_context().device.id == device:
        return nullcontext()
    context: AbstractContextManager[Any] = cuda.gpus[device]
    return context


def current_device() -> int:
    return 0 if SIMULATOR else int(cuda.current_context().device.id)


def compute_capability(device: int) -> tuple[int, int]:
    """(major, minor); a simulated device can do everything."""
    if SIMULATOR:
        return (99, 0)
    major, minor = cuda.gpus[device].compute_capability
    return int(major), int(minor)


def device_of_pointer(pointer: int, name: str) -> int:
    """The ordinal of the device that memory belongs to.

    Raises:
        TypeError: if the driver does not know the address as device memory.

    """
    cuda.current_context()
    error, device = cu.cuPointerGetAttribute(cu.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer)
    if int(error) != 0:
        raise TypeError(f"{name} points to {pointer:#x}, which is not GPU memory ({error.name})")
    return int(device)


def wait_for_producer(producer: int, stream: int) -> None:
    """Work on `stream` from now on starts after what `producer` holds already; the host does not wait."""
    if SIMULATOR or producer == stream:
        return
    event = _checked("cuEventCreate", cu.cuEventCreate(cu.CUevent_flags.CU_EVENT_DISABLE_TIMING))
    try:
        _checked("cuEventRecord", cu.cuEventRecord(event, producer))
        _checked("cuStreamWaitEvent", cu.cuStreamWaitEvent(stream, event, 0))
    finally:
        # The driver keeps a recorded event until it is no longer waited for.
        cu.cuEventDestroy(event)


# Kernels ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LoadedKernel:
    """Machine code on one device, ready to launch."""

    handle: int
    device: int
    #: Registers a thread, and bytes of local memory (spills) a thread.
    registers: int
    local_bytes: int
    #: Static shared memory of a block, in bytes.
    shared_bytes: int


_loaded: dict[tuple[int, int], LoadedKernel] = {}
_load_lock = threading.Lock()


def load(kernel: Any, signature: Any, dynamic_shared_bytes: int = 0) -> LoadedKernel:
    """Compile (or fetch from disk) and load a kernel on the current device, once.

    `dynamic_shared_bytes` is what launches will ask for; above 48 KB the kernel has to opt in.
    """
    device = current_device()
    key = (id(kernel), device)  # kernels are cached for the life of the process, so ids are unique
    found = _loaded.get(key)
    if found is not None:
        return found
    with _load_lock:
        if key not in _loaded:
            _loaded[key] = _load(kernel, signature, device, dynamic_shared_bytes)
        return _loaded[key]


def _load(kernel: Any, signature: Any, device: int, dynamic_shared_bytes: int) -> LoadedKernel:
    overload = kernel.compile(signature.args)
    function = overload._codelibrary.get_cufunc()
    overload.bind()
    if dynamic_shared_bytes > STATIC_SHARED_BYTES:
        attribute = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        _checked(
            "cuKernelSetAttribute",
            cu.cuKernelSetAttribute(attribute, dynamic_shared_bytes, function.handle, device),
        )
    return LoadedKernel(
        handle=int(function.handle),
        device=device,
        registers=function.attrs.regs,
        local_bytes=function.attrs.local,
        shared_bytes=function.attrs.shared,
    )


_kernels: dict[tuple[str, Tile], Any] = {}


def gemm_kernel(version: Version, tile: Tile) -> Any:
    """The kernel of a version and tile, with its place on disk."""
    key = (version.name, tile)
    found = _kernels.get(key)
    if found is None:
        found = version.make_kernel(tile)
        if not version.foreign_files:  # Numba cannot cache a kernel with linked files
            enable_disk_cache(found, f"{version.name} {tile!r}")
        _kernels[key] = found
    return found


@cache
def _staging_kernel() -> Any:
    kernel = staging.make_kernel()
    enable_disk_cache(kernel, "staging")
    return kernel


# Arguments and launches ------------------------------------------------------------------------------


class Arguments:
    """Kernel arguments in the words that Numba's calling convention wants, and pointers to them.

    An array is the words (meminfo, parent, items, itemsize, data, shape …, strides …); Numba's kernels
    use the last ones, the first two are for host code. A scalar is one word.
    """

    __slots__ = ("_pointers", "_words", "address")

    def __init__(self, arguments: Sequence[Operand | int | float]) -> None:
        words: list[int] = []
        for argument in arguments:
            words.extend(_words_of(argument))
        self._words = (ctypes.c_int64 * len(words))(*words)
        start = ctypes.addressof(self._words)
        self._pointers = (ctypes.c_void_p * len(words))(*range(start, start + 8 * len(words), 8))
        self.address = ctypes.addressof(self._pointers)


def _words_of(argument: Operand | int | float) -> Iterator[int]:
    if isinstance(argument, Operand):
        yield from (0, 0, argument.size, FLOAT_BYTES, argument.pointer)
        yield from argument.shape
        yield from argument.byte_strides
    elif isinstance(argument, float):
        yield struct.unpack("<i", struct.pack("<f", argument))[0]
    else:
        yield argument


def launch(kernel: Any, signature: Any, config: LaunchConfig, operands: Sequence[Operand], stream: int) -> None:
    """Run a kernel on `stream`, asynchronously. Its grid must have at least one block."""
    if SIMULATOR:
        kernel[config.grid, config.block, 0, config.shared_bytes](*map(_simulator_array, operands))
        return
    loaded = load(kernel, signature, config.shared_bytes)
    arguments = Arguments(operands)
    result = cu.cuLaunchKernel(
        loaded.handle, *config.grid, 1, *config.block, 1, config.shared_bytes, stream, arguments.address, 0
    )
    if int(result[0]) != 0:
        _checked(f"cuLaunchKernel of {kernel.py_func.__name__} with {config}", result)


def _simulator_array(operand: Operand) -> Any:
    from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray

    if operand.size == 0:
        return FakeCUDAArray(np.empty(operand.shape, np.float32))
    start, end = operand.byte_range
    memory = memoryview((ctypes.c_byte * (end - start)).from_address(start)).cast("B")
    return FakeCUDAArray(np.ndarray(operand.shape, np.float32, memory, strides=operand.byte_strides))


def launch_gemm(version: Version, tile: Tile, a: Operand, b: Operand, c: Operand, stream: int) -> None:
    """C = A·B on operands that the kernel takes as they are. Empty products launch nothing."""
    (m, k), n = a.shape, b.shape[1]
    if m == 0 or n == 0:
        return
    kernel = gemm_kernel(version, tile)
    panel_rows = _MAX_GRID_Y * tile.bm  # a grid has at most 65535 blocks along y
    for first in range(0, m, panel_rows):
        rows = slice(first, min(first + panel_rows, m))
        config = version.launch_config(tile, rows.stop - rows.start, n, k)
        operands = (a.rows(rows.start, rows.stop), b, c.rows(rows.start, rows.stop))
        launch(kernel, GEMM_SIGNATURE, config, operands, stream)


def launch_copy(source: Operand, target: Operand, stream: int) -> None:
    """target[i, j] = source[i, j], or 0 where the source has no such element."""
    if target.size == 0:
        return
    launch(_staging_kernel(), _STAGING_SIGNATURE, staging.launch_config(*target.shape), (source, target), stream)


# Memory ----------------------------------------------------------------------------------------------


@contextmanager
def scratch(rows: int, columns: int, name: str, device: int, stream: int) -> Iterator[Operand]:
    """A contiguous matrix that exists, in stream order, for the work enqueued inside the `with`.

    It belongs to this call alone: calls on other streams or threads never see its memory.
    """
    nbytes = max(rows * columns * FLOAT_BYTES, 1)
    owner, pointer = None, 0
    if SIMULATOR:
        owner = np.empty(rows * columns, np.float32)
        pointer = owner.ctypes.data
    else:
        pointer = int(_checked("cuMemAllocAsync", cu.cuMemAllocAsync(nbytes, stream)))
    try:
        yield Operand(name, pointer, (rows, columns), (columns, 1), device=device, owner=owner)
    finally:
        if not SIMULATOR:
            _checked("cuMemFreeAsync", cu.cuMemFreeAsync(pointer, stream))


# Products --------------------------------------------------------------------------------------------


def takes_as_is(version: Version, operand: Operand, multiples: tuple[int, int]) -> bool:
    """Whether a kernel can work on an operand directly, without a copy into whole aligned tiles."""
    if operand.size == 0:
        return True
    whole = not version.needs_whole_tiles or all(
        extent % multiple == 0 for extent, multiple in zip(operand.shape, multiples, strict=True)
    )
    return whole and operand.is_contiguous and operand.pointer % version.alignment == 0


def multiply(version: Version, tile: Tile, a: Operand, b: Operand, c: Operand, stream: int) -> None:
    """C = A·B for operands of any shape and layout: what the kernel cannot take goes through scratch."""
    (m, k), n = a.shape, b.shape[1]
    if m == 0 or n == 0:
        return
    if version.needs_whole_tiles:
        padded_m, padded_n, padded_k = tile.padded(m, n, k)
    else:
        padded_m, padded_n, padded_k = m, n, k

    device = current_device()
    with ExitStack() as scratches:

        def staged(operand: Operand, rows: int, columns: int) -> Operand:
            if operand.shape == (rows, columns) and takes_as_is(version, operand, (1, 1)):
                return operand
            return scratches.enter_context(scratch(rows, columns, operand.name, device, stream))

        whole_a = staged(a, padded_m, padded_k)
        whole_b = staged(b, padded_k, padded_n)
        whole_c = staged(c, padded_m, padded_n)
        if whole_a is not a:
            launch_copy(a, whole_a, stream)
        if whole_b is not b:
            launch_copy(b, whole_b, stream)
        launch_gemm(version, tile, whole_a, whole_b, whole_c, stream)
        if whole_c is not c:
            launch_copy(whole_c, c, stream)
