"""The arguments of a kernel, and how Numba's calling convention lays them out in memory."""

from __future__ import annotations

import struct
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import types

from numba_gemm.problem import Operand
from numba_gemm.tile import FLOAT_BYTES


class Vector(NamedTuple):
    """A contiguous array of 4-byte numbers on the device: one part of a workspace."""

    pointer: int
    length: int
    dtype: type[np.float32] | type[np.uint32]
    #: Keeps the memory alive as long as the launch.
    owner: Any = None


Argument = Operand | Vector | int | float

#: Which field of an array is its address.
DATA_FIELD = 4
#: Numba's calling convention: an array is meminfo, parent, items, itemsize, data, shape …, strides …, of which kernels
#: use the last ones; a scalar is itself.
_ARRAY = "PPqqP"
_SCALARS = {types.uint32: "I", types.int64: "q", types.float32: "f"}


def fields(kind: Any) -> str:
    """The fields of an argument of that type, in the characters of `struct`."""
    return _ARRAY + 2 * kind.ndim * "q" if isinstance(kind, types.Array) else _SCALARS[kind]


@cache
def offsets(parameters: tuple[str, ...]) -> tuple[int, ...]:
    """Where each argument starts, in bytes, if they lie one behind the other as `struct` aligns their fields."""
    return tuple(
        struct.calcsize("".join((*parameters[:index], parameter[0]))) - struct.calcsize(parameter[0])
        for index, parameter in enumerate(parameters)
    )


def values(argument: Argument) -> tuple[int | float, ...]:
    """What goes there."""
    if isinstance(argument, Operand):
        return (0, 0, argument.size, FLOAT_BYTES, argument.pointer, *argument.shape, *argument.byte_strides)
    if isinstance(argument, Vector):
        return (0, 0, argument.length, FLOAT_BYTES, argument.pointer, argument.length, FLOAT_BYTES)
    return (argument,)
