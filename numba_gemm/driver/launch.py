"""Kernels launched with few microseconds: everything is done before, but the launch.

Numba's own launch inspects each argument anew (30 to 70 µs for three arrays). Here the arguments are
packed as a Numba kernel takes them and handed to the driver (under 5 µs). In the
simulator the same calls run on NumPy arrays, so that one set of tests serves both.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from numba_gemm.compiler.target import SIMULATOR
from numba_gemm.driver.arguments import DATA_FIELD, Argument, Vector, offsets, values
from numba_gemm.driver.cuda_api import checked, give_context, launch_function, zero_matrix
from numba_gemm.driver.loading import LoadedKernel, load
from numba_gemm.problem import Operand
from numba_gemm.tile import FLOAT_BYTES, LaunchConfig

if not SIMULATOR:
    from cuda.bindings import driver as cu


class Launch(Protocol):
    """Enqueues a kernel, and what goes with it, when called, any number of times, by one thread at a time."""

    #: The kernel; None in the simulator.
    loaded: LoadedKernel | None
    config: LaunchConfig
    stream: int

    def set_pointer(self, position: int, pointer: int) -> None:
        """Move an array argument to another place."""

    def set_float(self, position: int, value: float) -> None:
        """Change a float argument."""

    def at(self, a: int, b: int, c: int) -> Callable[[int, int, int, int], None]:
        """The launch as a function of the addresses of the arguments at positions a, b, c, and the stream."""

    def __call__(self) -> None: ...


def _by_setting(launch: Launch, a: int, b: int, c: int) -> Callable[[int, int, int, int], None]:
    """`Launch.at` by what every launch can do; `PreparedLaunch` has a shorter way."""

    def launch_at(at_a: int, at_b: int, at_c: int, stream: int) -> None:
        launch.stream = stream
        for position, pointer in ((a, at_a), (b, at_b), (c, at_c)):
            launch.set_pointer(position, pointer)
        launch()

    return launch_at


class SimulatedLaunch:
    """A launch in the simulator, which runs to its end."""

    def __init__(self, kernel: Any, config: LaunchConfig, arguments: Sequence[Argument], stream: int) -> None:
        self.loaded: LoadedKernel | None = None
        self.stream = stream
        self._kernel, self.config = kernel, config
        self._arguments = list(arguments)

    def set_pointer(self, position: int, pointer: int) -> None:
        array = self._arguments[position]
        assert isinstance(array, Operand | Vector)
        self._arguments[position] = array._replace(pointer=pointer)

    def set_float(self, position: int, value: float) -> None:
        self._arguments[position] = value

    def at(self, a: int, b: int, c: int) -> Callable[[int, int, int, int], None]:
        return _by_setting(self, a, b, c)

    def __call__(self) -> None:
        grid, block, shared_bytes = self.config
        passed = [
            _simulator_array(value) if isinstance(value, Operand | Vector) else value for value in self._arguments
        ]
        self._kernel[grid, block, 0, shared_bytes](*passed)


class PreparedLaunch:
    """A launch with everything done but the launch: compiled, loaded, its arguments packed.

    The arguments lie in one buffer, as a C structure of their fields would, and the driver copies it whole. A launch
    keeps the arguments that it was made with alive.
    """

    __slots__ = (
        "_arguments",
        "_buffer",
        "_driver_config",
        "_extra",
        "_offsets",
        "_passed",
        "_pointers",
        "_stream",
        "config",
        "loaded",
    )

    def __init__(self, loaded: LoadedKernel, config: LaunchConfig, arguments: Sequence[Argument], stream: int) -> None:
        self.loaded: LoadedKernel | None = loaded
        self.config = config
        self._arguments = list(arguments)
        layout = "".join(loaded.parameters)
        size = struct.calcsize(layout)
        self._buffer = bytearray(-(-size // 8) * 8)
        struct.pack_into(layout, self._buffer, 0, *(field for argument in arguments for field in values(argument)))
        self._offsets = offsets(loaded.parameters)
        self._pointers = memoryview(self._buffer).cast("Q")
        first = ctypes.addressof(ctypes.c_char.from_buffer(self._buffer))
        self._extra = (ctypes.c_size_t * 6)(_BUFFER_POINTER, first, _BUFFER_SIZE, 0, _END, size)
        extra = ctypes.addressof(self._extra)
        self._extra[3] = extra + 5 * ctypes.sizeof(ctypes.c_size_t)  # the driver reads the size through it
        self._driver_config = _driver_config(config, stream)
        self._stream = stream
        #: What `cuLaunchKernelEx` takes: addresses, which stay as they are.
        addresses = (self._driver_config.getPtr(), loaded.function, 0, extra)
        self._passed = tuple(ctypes.c_void_p(address) for address in addresses)

    @property
    def stream(self) -> int:
        return self._stream

    @stream.setter
    def stream(self, stream: int) -> None:
        if stream != self._stream:
            self._driver_config.hStream = stream
            self._stream = stream

    def _pointer(self, position: int) -> int:
        """Which 8 bytes of the buffer are the address of an array."""
        return self._offsets[position] // 8 + DATA_FIELD

    def set_pointer(self, position: int, pointer: int) -> None:
        self._pointers[self._pointer(position)] = pointer

    def set_float(self, position: int, value: float) -> None:
        struct.pack_into("f", self._buffer, self._offsets[position], value)

    def at(self, a: int, b: int, c: int) -> Callable[[int, int, int, int], None]:
        pointers, passed = self._pointers, self._passed
        word_a, word_b, word_c = self._pointer(a), self._pointer(b), self._pointer(c)
        launch_kernel = launch_function()

        def launch_at(at_a: int, at_b: int, at_c: int, stream: int) -> None:
            pointers[word_a], pointers[word_b], pointers[word_c] = at_a, at_b, at_c
            if stream != self._stream:
                self.stream = stream
            error = launch_kernel(*passed)
            if error:
                self._try_again(error)

        return launch_at

    def __call__(self) -> None:
        error = launch_function()(*self._passed)
        if error:
            self._try_again(error)

    def _try_again(self, error: int) -> None:
        """After an error, which may be that this thread has no context yet: to ask before would take time each time."""
        if give_context():
            error = launch_function()(*self._passed)
        name = self.loaded.name if self.loaded else ""
        what = f"cuLaunchKernelEx of {name} with (grid, block, shared bytes) = {tuple(self.config)}"
        checked(what, (cu.CUresult(error),))


def _driver_config(config: LaunchConfig, stream: int) -> Any:
    """The same for the driver."""
    grid, block, shared_bytes = config
    passed = cu.CUlaunchConfig()
    passed.gridDimX, passed.gridDimY, passed.gridDimZ = _xyz(grid)
    passed.blockDimX, passed.blockDimY, passed.blockDimZ = _xyz(block)
    passed.sharedMemBytes = shared_bytes
    passed.hStream = stream
    return passed


#: CU_LAUNCH_PARAM_BUFFER_POINTER, …_BUFFER_SIZE and …_END: what follows in the list `extra`.
_BUFFER_POINTER, _BUFFER_SIZE, _END = 1, 2, 0


class OntoZeros:
    """The launch of a kernel that adds to a matrix, which is set to zero before, in stream order."""

    __slots__ = ("_inner", "_matrix", "_position", "config", "loaded", "stream")

    def __init__(self, inner: Launch, position: int, matrix: Operand) -> None:
        """`position` is that of the matrix among the arguments."""
        self._inner, self._position, self._matrix = inner, position, matrix
        self.loaded, self.config, self.stream = inner.loaded, inner.config, inner.stream

    def set_pointer(self, position: int, pointer: int) -> None:
        if position == self._position:
            self._matrix = self._matrix._replace(pointer=pointer)
        self._inner.set_pointer(position, pointer)

    def set_float(self, position: int, value: float) -> None:
        self._inner.set_float(position, value)

    def at(self, a: int, b: int, c: int) -> Callable[[int, int, int, int], None]:
        return _by_setting(self, a, b, c)

    def __call__(self) -> None:
        (rows, columns), (lead, _) = self._matrix.shape, self._matrix.strides
        zero_matrix(self._matrix.pointer, rows, columns, lead, self.stream)
        self._inner.stream = self.stream
        self._inner()


class InTurn:
    """Two launches, one behind the other on the same stream, whose arguments have the same positions."""

    __slots__ = ("_first", "_then", "config", "loaded", "stream")

    def __init__(self, first: Launch, then: Launch) -> None:
        self._first, self._then = first, then
        #: Those of the first one, which has most of the work.
        self.loaded, self.config, self.stream = first.loaded, first.config, first.stream

    def set_pointer(self, position: int, pointer: int) -> None:
        self._first.set_pointer(position, pointer)
        self._then.set_pointer(position, pointer)

    def set_float(self, position: int, value: float) -> None:
        self._first.set_float(position, value)
        self._then.set_float(position, value)

    def at(self, a: int, b: int, c: int) -> Callable[[int, int, int, int], None]:
        first, then = self._first.at(a, b, c), self._then.at(a, b, c)

        def launch_at(at_a: int, at_b: int, at_c: int, stream: int) -> None:
            first(at_a, at_b, at_c, stream)
            then(at_a, at_b, at_c, stream)

        return launch_at

    def __call__(self) -> None:
        for one in (self._first, self._then):
            one.stream = self.stream
            one()


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


def _simulator_array(operand: Operand | Vector) -> Any:
    from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray

    if isinstance(operand, Vector):
        if operand.length == 0:
            return FakeCUDAArray(np.empty(0, operand.dtype))
        memory = _host_memory(operand.pointer, operand.length * FLOAT_BYTES)
        return FakeCUDAArray(np.ndarray((operand.length,), operand.dtype, memory))
    if operand.size == 0:
        return FakeCUDAArray(np.empty(operand.shape, np.float32))
    start, end = operand.byte_range
    memory = _host_memory(start, end - start)
    return FakeCUDAArray(np.ndarray(operand.shape, np.float32, memory, strides=operand.byte_strides))


def _host_memory(start: int, nbytes: int) -> memoryview:
    return memoryview((ctypes.c_byte * nbytes).from_address(start)).cast("B")
