"""Numba's device array, made without Numba's checks: for `driver.outputs`, which has made one of that shape before."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from cuda.bindings import driver as cu
from numba import cuda
from numba.cuda.cudadrv.devicearray import DeviceNDArray
from numba.cuda.cudadrv.driver import MemoryPointer

_FLOAT32 = np.dtype(np.float32)

Aside = deque[tuple[int, int]]


class ResultMemory(MemoryPointer):
    """The memory of one result, as Numba's arrays hold it: set aside when nothing refers to it any more."""

    def __init__(self, facts: dict[str, Any], address: int, aside: Aside) -> None:
        self.__dict__.update(facts)
        self.address, self._aside = address, aside

    @property
    def device_pointer(self) -> Any:
        """The address as the driver's bindings have it; made when it is asked for."""
        return cu.CUdeviceptr(self.address)

    handle = device_pointer

    def __del__(self) -> None:
        # Nothing else: this runs in any thread, in the middle of anything.
        self._aside.append((self.address, self.size))


def result_maker(shape: tuple[int, ...], nbytes: int, aside: Aside) -> Callable[[int], Any]:
    """Makes the array at an address, in the context that is current now."""
    of_memory = vars(MemoryPointer(cuda.current_context(), cu.CUdeviceptr(0), nbytes))
    of_memory = {name: value for name, value in of_memory.items() if name not in ("device_pointer", "handle")}
    strides = tuple(math.prod(shape[axis + 1 :]) * _FLOAT32.itemsize for axis in range(len(shape)))
    template = DeviceNDArray(shape, strides, _FLOAT32, gpu_data=object())
    of_array = {name: value for name, value in vars(template).items() if name != "gpu_data"}

    def make(address: int) -> Any:
        array = DeviceNDArray.__new__(DeviceNDArray)
        array.__dict__.update(of_array, gpu_data=ResultMemory(of_memory, address, aside))
        return array

    return make
