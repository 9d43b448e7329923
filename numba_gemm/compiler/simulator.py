"""What Numba's simulator lacks for these kernels, added in one place.

`cuda.shared.array` refuses an alignment there. Here it accepts one (NumPy's memory satisfies it) and
fills new shared memory with NaN, so that a kernel that reads what nobody wrote fails its test.

While a kernel runs, the name `cuda` in its module stands for the simulated device. Here it does so, too, in the
modules of the device functions that kernels have in common.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

#: A device function for each dictionary of globals that has one, by the dictionary's id.
_device_functions: dict[int, Callable[..., Any]] = {}


def register(function: Callable[..., Any]) -> None:
    """Kernels of other modules call this function: its `cuda` is theirs."""
    _device_functions.setdefault(id(function.__globals__), function)


def install() -> None:
    """Teach the simulator's shared memory to take an alignment and to start as NaN, and it all modules' `cuda`.

    And let its threads take turns more often. Its main thread polls those of a block, and holds Python's lock for as
    long as it may, 5 ms at each barrier unless told otherwise. With a tenth of that the tests take half the time.
    """
    from numba.cuda import types
    from numba.cuda.np import numpy_support
    from numba.cuda.simulator import kernel
    from numba.cuda.simulator.kernelapi import FakeCUDAShared

    def array(self: Any, shape: Any, dtype: Any, alignment: int | None = None) -> np.ndarray:
        del alignment
        if isinstance(dtype, types.Type):
            dtype = numpy_support.as_dtype(dtype)
        # Size 0 names the one dynamic allocation of the launch; a static array is named by its line.
        frame = sys._getframe(1)
        name = "dynamic" if shape == 0 else (frame.f_code.co_filename, frame.f_lineno)
        found = self._allocations.get(name)
        if found is None:
            size = self._dynshared_size // dtype.itemsize if shape == 0 else shape
            # setdefault is atomic: all threads of a block get the array of the one that came first.
            found = self._allocations.setdefault(name, np.full(size, np.nan, dtype))
        return found

    FakeCUDAShared.array = array
    swapped = kernel.swapped_cuda_module

    @contextmanager
    def swapped_everywhere(function: Callable[..., Any], simulated: Any) -> Iterator[None]:
        with ExitStack() as modules:
            for one in {**_device_functions, id(function.__globals__): function}.values():
                modules.enter_context(swapped(one, simulated))
            yield

    kernel.swapped_cuda_module = swapped_everywhere
    sys.setswitchinterval(min(sys.getswitchinterval(), 0.0005))


def require_aligned(array: Any, index: tuple[int, ...]) -> None:
    """Fail like the GPU for a 16-byte access to an address that is not a multiple of 16."""
    host = array._item._ary if hasattr(array, "_item") else array
    start = host.__array_interface__["data"][0]
    address = start + sum(int(i) * stride for i, stride in zip(index, host.strides, strict=True))
    if address % 16:
        raise RuntimeError(
            f"misaligned address: a 16-byte access to {address:#x}, element {tuple(map(int, index))} of an array of "
            f"shape {host.shape} at {start:#x}"
        )


def array_at(address: int, shape: tuple[int, ...], dtype: Any, strides: tuple[int, ...]) -> Any:
    """What a simulated kernel takes as an array: memory of the host at an address, with strides in bytes."""
    from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray

    if 0 in shape:
        return FakeCUDAArray(np.empty(shape, dtype))
    reach = sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
    memory = (ctypes.c_byte * (reach + np.dtype(dtype).itemsize)).from_address(address)
    return FakeCUDAArray(np.ndarray(shape, dtype, memoryview(memory).cast("B"), strides=strides))
