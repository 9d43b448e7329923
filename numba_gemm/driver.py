"""From a kernel to a launch: compile once, load once, allow big shared memory, launch cheaply.

Numba's own launch inspects each argument anew (30 to 70 µs for three arrays). Here the arguments are
packed into the words that a Numba kernel takes and handed to `cuLaunchKernel` (about 5 µs). In the
simulator the same calls run on NumPy arrays, so that one set of tests serves both.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from numba import cuda, float32, types

from numba_gemm.comparison import Comparison, Problem
from numba_gemm.device import SIMULATOR
from numba_gemm.device.cache import enable_disk_cache
from numba_gemm.kernels import staging
from numba_gemm.ladder import Version, find
from numba_gemm.operands import Operand, as_operand
from numba_gemm.runtime import checked, current_device, scratch
from numba_gemm.tile import FLOAT_BYTES, STATIC_SHARED_BYTES, LaunchConfig, Tile

if not SIMULATOR:
    from cuda.bindings import driver as cu

#: The signature of every rung: A, B, C row-major and contiguous.
GEMM_SIGNATURE = types.void(float32[:, ::1], float32[:, ::1], float32[:, ::1])
#: The staging kernel takes any strides.
_STAGING_SIGNATURE = types.void(float32[:, :], float32[:, :])
#: Largest grid along y.
_MAX_GRID_Y = 65535


# Kernels ---------------------------------------------------------------------------------------------


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


Argument = Operand | int | float


class _Words:
    """Kernel arguments in the words that Numba's calling convention wants, and pointers to them.

    An array is the words (meminfo, parent, items, itemsize, data, shape …, strides …); Numba's kernels
    use the last ones, the first two are for host code. A scalar is one word.
    """

    __slots__ = ("_pointers", "_words", "address")

    def __init__(self, arguments: Sequence[Argument]) -> None:
        words: list[int] = []
        for argument in arguments:
            words.extend(_words_of(argument))
        self._words = (ctypes.c_int64 * len(words))(*words)
        start = ctypes.addressof(self._words)
        self._pointers = (ctypes.c_void_p * len(words))(*range(start, start + 8 * len(words), 8))
        self.address = ctypes.addressof(self._pointers)


def _words_of(argument: Argument) -> Iterator[int]:
    if isinstance(argument, Operand):
        yield from (0, 0, argument.size, FLOAT_BYTES, argument.pointer)
        yield from argument.shape
        yield from argument.byte_strides
    elif isinstance(argument, float):
        yield struct.unpack("<i", struct.pack("<f", argument))[0]
    else:
        yield argument


class PreparedLaunch:
    """A launch with everything done but the launch: compiled, loaded, its arguments packed.

    Calling it enqueues the kernel and returns. It may be called any number of times, by one thread at a
    time, and keeps its operands' memory alive.
    """

    __slots__ = ("_arguments", "_config", "_name", "_words")

    def __init__(self, loaded: LoadedKernel, config: LaunchConfig, arguments: Sequence[Argument], stream: int) -> None:
        self._name = loaded.name
        self._arguments = arguments
        self._words = _Words(arguments)
        (grid_x, grid_y), (block_x, block_y), shared_bytes = config
        self._config = (
            *(loaded.handle, grid_x, grid_y, 1, block_x, block_y, 1),
            *(shared_bytes, stream, self._words.address, 0),
        )

    def __call__(self) -> None:
        (error,) = cu.cuLaunchKernel(*self._config)
        if error:
            checked(f"cuLaunchKernel of {self._name} with (function, grid, block, …) = {self._config}", (error,))


def prepare(
    kernel: Any, signature: Any, config: LaunchConfig, arguments: Sequence[Argument], stream: int
) -> Callable[[], None]:
    """A `PreparedLaunch`, or its like in the simulator. The grid must have at least one block."""
    if SIMULATOR:
        values = [_simulator_array(value) if isinstance(value, Operand) else value for value in arguments]
        return lambda: kernel[config.grid, config.block, 0, config.shared_bytes](*values)
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


def prepare_gemm(
    version: Version, tile: Tile, a: Operand, b: Operand, c: Operand, stream: int
) -> list[Callable[[], None]]:
    """The launches of C = A·B on operands that the kernel takes as they are: one, and more if M is huge."""
    (m, k), n = a.shape, b.shape[1]
    kernel = gemm_kernel(version, tile)
    launches = []
    panel_rows = _MAX_GRID_Y * tile.bm  # a grid has at most 65535 blocks along y
    for first in range(0, m if n else 0, panel_rows):
        end = min(first + panel_rows, m)
        panel = (a, b, c) if end - first == m else (a.rows(first, end), b, c.rows(first, end))
        config = version.launch_config(tile, end - first, n, k)
        launches.append(prepare(kernel, GEMM_SIGNATURE, config, panel, stream))
    return launches


def launch_copy(source: Operand, target: Operand, stream: int) -> None:
    """target[i, j] = source[i, j], or 0 where the source has no such element."""
    if target.size == 0:
        return
    launch(_staging_kernel(), _STAGING_SIGNATURE, staging.launch_config(*target.shape), (source, target), stream)


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
        for launch_panel in prepare_gemm(version, tile, whole_a, whole_b, whole_c, stream):
            launch_panel()
        if whole_c is not c:
            launch_copy(whole_c, c, stream)


# Comparison ------------------------------------------------------------------------------------------


def compare(
    version: int | str,
    m: int,
    n: int,
    k: int,
    *,
    tile: Tile | None = None,
    problem: Problem | None = None,
    rounds: int = 20,
) -> Comparison:
    """Run a version on `numba.cuda` arrays and hold it against NumPy in float64 and against cuBLAS.

    C is full of NaN before the run. Times are medians over `rounds` rounds that run the version and cuBLAS in turn;
    a shape that is not whole tiles is timed with its padding.

    Args:
        version: a number or name of `VERSIONS`.
        m, n, k: C[m, n] = A[m, k] · B[k, n].
        tile: instead of the version's default.
        problem: operands to use again for several versions.
        rounds: how often each is timed.

    Raises:
        CublasError: on a GPU, if there is no cuBLAS.
    """
    chosen = find(version)
    used_tile = tile or chosen.default_tile
    chosen.check(used_tile)
    problem = problem or Problem.random(m, n, k)
    if problem.shape != (m, n, k):
        raise ValueError(f"the problem has m, n, k = {problem.shape}, not {(m, n, k)}")
    c = cuda.to_device(np.full((m, n), np.nan, np.float32))
    operands = as_operand(problem.a, "a", 0), as_operand(problem.b, "b", 0), as_operand(c, "c", 0)
    multiply(chosen, used_tile, *operands, 0)
    error = problem.reference.error(c.copy_to_host())
    if SIMULATOR:
        return Comparison(chosen, used_tile, (m, n, k), error)

    from numba_gemm.bench.cublas import Cublas  # measuring needs the GPU that it measures
    from numba_gemm.bench.timing import GpuTimer

    cublas = Cublas()
    if used_tile.padded(m, n, k) == (m, n, k) or not chosen.needs_whole_tiles:
        (run,) = prepare_gemm(chosen, used_tile, *operands, 0)
    else:
        run = partial(multiply, chosen, used_tile, *operands, 0)
    times = GpuTimer().compare({"version": run, "cuBLAS": lambda: cublas.sgemm(*operands)}, rounds=rounds)
    loaded = load(gemm_kernel(chosen, used_tile), GEMM_SIGNATURE, used_tile.shared_bytes)
    return Comparison(
        chosen,
        used_tile,
        (m, n, k),
        error,
        seconds=times["version"].median,
        cublas_seconds=times["cuBLAS"].median,
        registers=loaded.registers,
        local_bytes=loaded.local_bytes,
    )
