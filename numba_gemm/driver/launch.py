"""Kernels launched within few microseconds: everything is done before, but the launch.

Numba's own launch inspects each argument anew (30 to 70 µs for three arrays). Here the arguments are
packed as a Numba kernel takes them and handed to the driver (under 5 µs). In the
simulator the same calls run on NumPy arrays, so that one set of tests serves both.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from numba_gemm.compiler import simulator
from numba_gemm.compiler.target import SIMULATOR
from numba_gemm.driver.arguments import DATA_FIELD, offsets, strides, values
from numba_gemm.driver.cuda_api import checked, give_context, launch_function, zero_matrix
from numba_gemm.driver.loading import LoadedKernel, load, made
from numba_gemm.kernels.interface import Array, Step, Zeros
from numba_gemm.problem import Operand
from numba_gemm.tile import LaunchConfig

if not SIMULATOR:
    from cuda.bindings import driver as cu


class Launch(Protocol):
    """Enqueues a step when called, any number of times, by one thread at a time."""

    #: The kernel; None in the simulator.
    loaded: LoadedKernel | None
    config: LaunchConfig
    stream: int

    def set_place(self, place: str, address: int) -> None:
        """Say where an array of the step's arguments lies; nothing for one that it does not have."""

    def set_scalar(self, name: str, value: float) -> None:
        """Give a scalar of the step's arguments its value; nothing for one that it does not have."""

    def at(self, a: str, b: str, c: str) -> Callable[[int, int, int, int], None]:
        """The launch as a function of the addresses of three places, and the stream."""

    def __call__(self) -> None: ...


class SimulatedLaunch:
    """A launch in the simulator, which runs to its end."""

    def __init__(self, step: Step, kernel: Any) -> None:
        self.loaded: LoadedKernel | None = None
        self.config, self.stream = step.config, 0
        self._kernel, self._arguments = kernel, step.arguments
        self._places: dict[str, int] = {}
        self._scalars: dict[str, float] = {}

    def set_place(self, place: str, address: int) -> None:
        self._places[place] = address

    def set_scalar(self, name: str, value: float) -> None:
        self._scalars[name] = value

    def at(self, a: str, b: str, c: str) -> Callable[[int, int, int, int], None]:
        return _by_setting(self, a, b, c)

    def __call__(self) -> None:
        grid, block, shared_bytes = self.config
        self._kernel[grid, block, 0, shared_bytes](*map(self._passed, self._arguments))

    def _passed(self, argument: Any) -> Any:
        if isinstance(argument, Array):
            address = self._places.get(argument.place, 0) + argument.offset
            return simulator.array_at(address, argument.shape, argument.dtype, strides(argument))
        return self._scalars[argument] if isinstance(argument, str) else argument


class PreparedLaunch:
    """A launch with everything done but the launch: compiled, loaded, its arguments packed.

    The arguments lie in one buffer, as a C structure of their fields would, and the driver copies it whole.
    """

    __slots__ = (
        "_buffer",
        "_driver_config",
        "_extra",
        "_passed",
        "_places",
        "_pointers",
        "_scalars",
        "_stream",
        "config",
        "loaded",
    )

    def __init__(self, step: Step, loaded: LoadedKernel) -> None:
        self.loaded: LoadedKernel | None = loaded
        self.config = step.config
        layout = "".join(loaded.parameters)
        size = struct.calcsize(layout)
        self._buffer = bytearray(-(-size // 8) * 8)
        struct.pack_into(layout, self._buffer, 0, *(field for argument in step.arguments for field in values(argument)))
        #: For each place, which 8 bytes of the buffer are the address of an array there, and its offset.
        self._places: dict[str, list[tuple[int, int]]] = {}
        #: Where in the buffer each scalar is.
        self._scalars: dict[str, int] = {}
        for argument, start in zip(step.arguments, offsets(loaded.parameters), strict=True):
            if isinstance(argument, Array):
                self._places.setdefault(argument.place, []).append((start // 8 + DATA_FIELD, argument.offset))
            elif isinstance(argument, str):
                self._scalars[argument] = start
        self._pointers = memoryview(self._buffer).cast("Q")
        first = ctypes.addressof(ctypes.c_char.from_buffer(self._buffer))
        self._extra = (ctypes.c_size_t * 6)(_BUFFER_POINTER, first, _BUFFER_SIZE, 0, _END, size)
        extra = ctypes.addressof(self._extra)
        self._extra[3] = extra + 5 * ctypes.sizeof(ctypes.c_size_t)  # the driver reads the size through it
        self._driver_config = _driver_config(step.config)
        self._stream = 0
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

    def set_place(self, place: str, address: int) -> None:
        for word, offset in self._places.get(place, ()):
            self._pointers[word] = address + offset

    def set_scalar(self, name: str, value: float) -> None:
        start = self._scalars.get(name)
        if start is not None:
            struct.pack_into("f", self._buffer, start, value)

    def at(self, a: str, b: str, c: str) -> Callable[[int, int, int, int], None]:
        found = [self._places.get(place, []) for place in (a, b, c)]
        if any(len(words) != 1 or words[0][1] for words in found):
            return _by_setting(self, a, b, c)
        pointers, passed = self._pointers, self._passed
        word_a, word_b, word_c = (words[0][0] for words in found)
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


class ZeroLaunch:
    """A matrix is set to zero, in stream order."""

    __slots__ = ("_address", "_array", "config", "loaded", "stream")

    def __init__(self, zeros: Zeros) -> None:
        self._array, self._address = zeros.array, 0
        self.loaded: LoadedKernel | None = None
        self.config, self.stream = LaunchConfig((0, 0, 0), (0, 0, 0)), 0

    def set_place(self, place: str, address: int) -> None:
        if place == self._array.place:
            self._address = address + self._array.offset

    def set_scalar(self, name: str, value: float) -> None:
        """It has none."""

    def at(self, a: str, b: str, c: str) -> Callable[[int, int, int, int], None]:
        return _by_setting(self, a, b, c)

    def __call__(self) -> None:
        rows, columns = self._array.shape
        assert self._array.strides is not None
        zero_matrix(self._address, rows, columns, self._array.strides[0], self.stream)


def prepare(step: Step | Zeros) -> Launch:
    """A launch with everything done but the launch, and saying where its arguments lie."""
    if isinstance(step, Zeros):
        return ZeroLaunch(step)
    if SIMULATOR:
        return SimulatedLaunch(step, made(step.kernel))
    return PreparedLaunch(step, load(step.kernel, step.config.shared_bytes))


def prepare_on(step: Step, operands: Mapping[str, Operand], stream: int) -> Callable[[], None]:
    """A launch of a kernel by itself, on arrays that it keeps alive; each call enqueues it on `stream`."""
    launch = prepare(step)
    for place, operand in operands.items():
        launch.set_place(place, operand.pointer)
    launch.stream = stream
    return partial(_run, launch, dict(operands))


def _run(launch: Launch, _kept: Mapping[str, Operand]) -> None:
    launch()


def _by_setting(launch: Launch, a: str, b: str, c: str) -> Callable[[int, int, int, int], None]:
    """`Launch.at` by what every launch can do; `PreparedLaunch` has a shorter way."""

    def launch_at(at_a: int, at_b: int, at_c: int, stream: int) -> None:
        launch.stream = stream
        for place, address in ((a, at_a), (b, at_b), (c, at_c)):
            launch.set_place(place, address)
        launch()

    return launch_at


def _driver_config(config: LaunchConfig) -> Any:
    """A launch configuration as the driver takes it, on the default stream."""
    grid, block, shared_bytes = config
    passed = cu.CUlaunchConfig()
    passed.gridDimX, passed.gridDimY, passed.gridDimZ = _xyz(grid)
    passed.blockDimX, passed.blockDimY, passed.blockDimZ = _xyz(block)
    passed.sharedMemBytes = shared_bytes
    passed.hStream = 0
    return passed


#: CU_LAUNCH_PARAM_BUFFER_POINTER, …_BUFFER_SIZE and …_END: what follows in the list `extra`.
_BUFFER_POINTER, _BUFFER_SIZE, _END = 1, 2, 0


def _xyz(extents: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*extents, 1, 1)[:3]
    return x, y, z
