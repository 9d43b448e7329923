"""Kernels on the device: made and compiled once, loaded once, launched with few microseconds.

Numba's own launch inspects each argument anew (30 to 70 µs for three arrays). Here the arguments are
packed into the words that a Numba kernel takes and handed to `cuLaunchKernel` (about 5 µs). In the
simulator the same calls run on NumPy arrays, so that one set of tests serves both.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from numba_gemm.device import SIMULATOR
from numba_gemm.device.cache import enable_disk_cache
from numba_gemm.device.epilogue import require_compilable
from numba_gemm.ladder import Version
from numba_gemm.operands import Operand
from numba_gemm.runtime import checked, current_device
from numba_gemm.tile import FLOAT_BYTES, STATIC_SHARED_BYTES, LaunchConfig, Tile
from numba_gemm.variant import Variant

if not SIMULATOR:
    from cuda.bindings import driver as cu


@dataclass(frozen=True, slots=True)
class LoadedKernel:
    """Machine code on one device, ready to launch."""

    name: str
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
        checked(
            "cuKernelSetAttribute",
            cu.cuKernelSetAttribute(attribute, dynamic_shared_bytes, function.handle, device),
        )
    return LoadedKernel(
        name=kernel.py_func.__name__,
        handle=int(function.handle),
        device=device,
        registers=function.attrs.regs,
        local_bytes=function.attrs.local,
        shared_bytes=function.attrs.shared,
    )


_kernels: dict[tuple[str, Tile, Variant | None], Any] = {}
_make_lock = threading.Lock()


def gemm_kernel(version: Version, tile: Tile, variant: Variant | None = None) -> Any:
    """The kernel of a version, tile and (for rungs with edges) variant, with its place on disk; made once."""
    key = (version.name, tile, variant)
    found = _kernels.get(key)
    if found is not None:
        return found
    with _make_lock:
        if key not in _kernels:
            if variant is not None and variant.epilogue.function is not None:
                require_compilable(variant.epilogue.function)
            kernel = version.make_kernel(tile, variant)
            if not version.foreign_files:  # Numba cannot cache a kernel with linked files
                enable_disk_cache(kernel, f"{version.name} {tile!r} {variant!r}")
            _kernels[key] = kernel
        return _kernels[key]


# Arguments and launches ------------------------------------------------------------------------------


Argument = Operand | int | float


class Launch(Protocol):
    """Enqueues one kernel when called, any number of times, by one thread at a time."""

    #: What is launched; None in the simulator.
    loaded: LoadedKernel | None
    config: LaunchConfig
    stream: int

    def set_pointer(self, position: int, pointer: int) -> None:
        """Move an array argument to another place."""

    def set_float(self, position: int, value: float) -> None:
        """Change a float argument."""

    def __call__(self) -> None: ...


def _float_word(value: float) -> int:
    word: int = struct.unpack("<i", struct.pack("<f", value))[0]
    return word


class SimulatedLaunch:
    """A launch in the simulator, which runs to its end."""

    def __init__(self, kernel: Any, config: LaunchConfig, arguments: Sequence[Argument], stream: int) -> None:
        self.loaded: LoadedKernel | None = None
        self.stream = stream
        self._kernel, self.config = kernel, config
        self._arguments = list(arguments)

    def set_pointer(self, position: int, pointer: int) -> None:
        array = self._arguments[position]
        assert isinstance(array, Operand)
        self._arguments[position] = array._replace(pointer=pointer)

    def set_float(self, position: int, value: float) -> None:
        self._arguments[position] = value

    def __call__(self) -> None:
        grid, block, shared_bytes = self.config
        values = [_simulator_array(value) if isinstance(value, Operand) else value for value in self._arguments]
        self._kernel[grid, block, 0, shared_bytes](*values)


class PreparedLaunch:
    """A launch with everything done but the launch: compiled, loaded, its arguments packed.

    Numba's calling convention: an array is the words (meminfo, parent, items, itemsize, data, shape …,
    strides …), of which kernels use the last ones; a scalar is one word. The driver wants a pointer to each
    word. A launch keeps the arguments that it was made with alive.
    """

    __slots__ = (
        "_address",
        "_arguments",
        "_first_word",
        "_pointers",
        "_prefix",
        "_words",
        "config",
        "loaded",
        "stream",
    )

    def __init__(self, loaded: LoadedKernel, config: LaunchConfig, arguments: Sequence[Argument], stream: int) -> None:
        self.loaded: LoadedKernel | None = loaded
        self.stream = stream
        self._arguments = list(arguments)
        words: list[int] = []
        self._first_word: list[int] = []
        for argument in arguments:
            self._first_word.append(len(words))
            words.extend(_words_of(argument))
        self._words = (ctypes.c_int64 * len(words))(*words)
        start = ctypes.addressof(self._words)
        self._pointers = (ctypes.c_void_p * len(words))(*range(start, start + 8 * len(words), 8))
        self._address = ctypes.addressof(self._pointers)
        self.config = config
        grid, block, shared_bytes = config
        self._prefix = (loaded.handle, *_xyz(grid), *_xyz(block), shared_bytes)

    def set_pointer(self, position: int, pointer: int) -> None:
        self._words[self._first_word[position] + _DATA_WORD] = pointer

    def set_float(self, position: int, value: float) -> None:
        self._words[self._first_word[position]] = _float_word(value)

    def __call__(self) -> None:
        (error,) = cu.cuLaunchKernel(*self._prefix, self.stream, self._address, 0)
        if error:
            name = self.loaded.name if self.loaded else ""
            checked(f"cuLaunchKernel of {name} with (function, grid, block, …) = {self._prefix}", (error,))


#: Which word of an array is its address.
_DATA_WORD = 4


def _words_of(argument: Argument) -> Iterator[int]:
    if isinstance(argument, Operand):
        yield from (0, 0, argument.size, FLOAT_BYTES, argument.pointer)
        yield from argument.shape
        yield from argument.byte_strides
    elif isinstance(argument, float):
        yield _float_word(argument)
    else:
        yield argument


def _xyz(extents: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*extents, 1, 1)[:3]
    return x, y, z


def prepare(kernel: Any, signature: Any, config: LaunchConfig, arguments: Sequence[Argument], stream: int) -> Launch:
    """A launch on `stream` with everything done but the launch. The grid must have at least one block."""
    if SIMULATOR:
        return SimulatedLaunch(kernel, config, arguments, stream)
    return PreparedLaunch(load(kernel, signature, config.shared_bytes), config, arguments, stream)


def launch(kernel: Any, signature: Any, config: LaunchConfig, arguments: Sequence[Argument], stream: int) -> None:
    """Run a kernel on `stream`, asynchronously."""
    prepare(kernel, signature, config, arguments, stream)()


def _simulator_array(operand: Operand) -> Any:
    from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray

    if operand.size == 0:
        return FakeCUDAArray(np.empty(operand.shape, np.float32))
    start, end = operand.byte_range
    memory = memoryview((ctypes.c_byte * (end - start)).from_address(start)).cast("B")
    return FakeCUDAArray(np.ndarray(operand.shape, np.float32, memory, strides=operand.byte_strides))
