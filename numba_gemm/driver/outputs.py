"""Arrays that the library makes for its results: Numba's device arrays, with memory that is used again.

Numba's own way to a new array takes 20 to 30 µs, several times as long as the product's launch, and of ten arrays that
are given back each waits for the device. Here a new array is a copy of an earlier one of that shape, with another
address. When it is collected, work on any stream may still use its memory, and nobody knows on which. So that is set
aside, until it is worth one wait for the device: from then on all that was set aside before is free for new arrays.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numba import cuda

from numba_gemm.compiler.target import SIMULATOR
from numba_gemm.driver import cuda_api
from numba_gemm.problem import Operand
from numba_gemm.tile import FLOAT_BYTES

#: A new array for a result, and its address.
Maker = Callable[[], tuple[Any, int]]

#: How many arrays, and how many of their bytes, are set aside or free at the most.
_MOST_ARRAYS, _MOST_BYTES = 64, 256 << 20


class _Memory:
    """The memory of results on one device, for any number of threads."""

    def __init__(self) -> None:
        #: (address, bytes) of arrays that were collected. Only appended to, by whatever thread collects them.
        self.aside: deque[tuple[int, int]] = deque()
        self._free: dict[int, list[int]] = {}
        self._lock = threading.Lock()

    def take(self, nbytes: int) -> int:
        """The address of memory that nothing uses, on the current device."""
        with self._lock:
            free = self._free.get(nbytes)
            if free:
                return free.pop()
            if len(self.aside) >= _MOST_ARRAYS or sum(size for _, size in self.aside) > _MOST_BYTES:
                self._recycle()
                free = self._free.get(nbytes)
                if free:
                    return free.pop()
            try:
                return cuda_api.allocate(nbytes)
            except cuda_api.DriverError:
                self._give_back()
                cuda.current_context().deallocations.clear()
                return cuda_api.allocate(nbytes)

    def give_back(self) -> None:
        """Free all that is not in use; waits for the device."""
        with self._lock:
            self._give_back()

    def _recycle(self) -> None:
        """Make free what was set aside until now, as far as it is not too much."""
        if not self.aside:
            return
        kept = sum(nbytes * len(free) for nbytes, free in self._free.items())
        first = True
        for _ in range(len(self.aside)):
            address, nbytes = self.aside.popleft()
            kept += nbytes
            # To free the first one waits for all work on the device: after that, none uses the others.
            if first or kept > _MOST_BYTES:
                cuda_api.free(address)
                kept, first = kept - nbytes, False
            else:
                self._free.setdefault(nbytes, []).append(address)

    def _give_back(self) -> None:
        while self.aside:
            cuda_api.free(self.aside.popleft()[0])
        for free in self._free.values():
            while free:
                cuda_api.free(free.pop())


@cache
def _memory_of(_device: int) -> _Memory:
    return _Memory()


@lru_cache(maxsize=1024)
def maker(shape: tuple[int, ...], device: int) -> Maker:
    """Makes float32 arrays of a shape, row-major, on a device that is current when it is called."""
    if SIMULATOR or 0 in shape:
        return lambda: _by_numba(shape)
    from numba_gemm.compiler.result_array import result_maker  # Numba's simulator has no such arrays

    memory, nbytes = _memory_of(device), math.prod(shape) * FLOAT_BYTES
    make = result_maker(shape, nbytes, memory.aside)

    def new() -> tuple[Any, int]:
        address = memory.take(nbytes)
        return make(address), address

    return new


def new(name: str, shape: tuple[int, ...], device: int) -> tuple[Any, Operand]:
    """A new array on a device, for a result that has not been written yet, and its operand."""
    with cuda_api.on_device(device):
        array, address = maker(shape, device)()
    strides = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
    return array, Operand(name, address, shape, strides, device=None if 0 in shape else device, owner=array)


def _by_numba(shape: tuple[int, ...]) -> tuple[Any, int]:
    array = cuda.device_array(shape, np.float32)
    return array, array._ary.ctypes.data if SIMULATOR else 0
