"""How Numba's calling convention lays out the arguments of a kernel in memory."""

from __future__ import annotations

import struct
from functools import cache
from typing import Any

import numpy as np
from numba import types

from numba_gemm.kernels.interface import Argument, Array

#: Which field of an array is its address.
DATA_FIELD = 4
#: Numba's calling convention: an array is meminfo, parent, items, itemsize, data, shape …, strides …, of which kernels
#: use the last ones; a scalar is itself.
_ARRAY = "PPqqP"
_SCALARS = {types.uint32: "I", types.int64: "q", types.float32: "f"}


def fields(kind: Any) -> str:
    """The fields of an argument of a Numba type, in the characters of `struct`."""
    return _ARRAY + 2 * kind.ndim * "q" if isinstance(kind, types.Array) else _SCALARS[kind]


@cache
def offsets(parameters: tuple[str, ...]) -> tuple[int, ...]:
    """Where each argument starts, in bytes, if they lie one behind the other as `struct` aligns their fields."""
    return tuple(
        struct.calcsize("".join((*parameters[:index], parameter[0]))) - struct.calcsize(parameter[0])
        for index, parameter in enumerate(parameters)
    )


def strides(array: Array) -> tuple[int, ...]:
    """The strides of an array argument, in bytes."""
    itemsize = np.dtype(array.dtype).itemsize
    if array.strides is not None:
        return tuple(stride * itemsize for stride in array.strides)
    found, stride = [], itemsize
    for extent in reversed(array.shape):
        found.append(stride)
        stride *= extent
    return tuple(reversed(found))


def values(argument: Argument) -> tuple[int | float, ...]:
    """The values of an argument's fields; an array's address and a scalar that is filled in later are 0."""
    if isinstance(argument, Array):
        size, itemsize = int(np.prod(argument.shape)), np.dtype(argument.dtype).itemsize
        return (0, 0, size, itemsize, 0, *argument.shape, *strides(argument))
    return (0.0,) if isinstance(argument, str) else (argument,)
