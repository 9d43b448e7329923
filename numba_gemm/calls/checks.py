"""What a caller asked for, checked: every error of the contract comes from here, before anything is launched."""

from __future__ import annotations

import ctypes
import math
import numbers
from collections.abc import Sequence
from functools import cache
from typing import Any, cast

import numpy as np

from numba_gemm import ladder
from numba_gemm.device.activation import ACTIVATIONS
from numba_gemm.device.epilogue import Epilogue, snapshot
from numba_gemm.driver import cuda_api, staging
from numba_gemm.driver.operands import overlap, overlaps_itself
from numba_gemm.ladder import Version
from numba_gemm.problem import Operand
from numba_gemm.tile import Tile

#: Kernels count rows, columns and k as uint32, up to the end of the last tile.
MAX_EXTENT = 2**32 - 2**16


def scalar(name: str, value: Any) -> float:
    """An alpha or beta as the float32 value that the kernel gets.

    Raises:
        TypeError: if it is no real Python or NumPy scalar.
    """
    if type(value) is float and value in (0.0, 1.0):
        return value
    if not isinstance(value, numbers.Real | np.bool_):
        raise TypeError(f"{name} is {value!r}, of type {type(value).__name__}; it must be a real scalar")
    try:
        wide = float(value)
    except OverflowError:  # an int beyond float64
        wide = math.inf if cast(int, value) > 0 else -math.inf
    return ctypes.c_float(wide).value  # as NumPy rounds, in a tenth of the time


def check_flag(name: str, value: Any) -> None:
    """Raises TypeError unless the value is True or False."""
    if value is not True and value is not False and not isinstance(value, np.bool_):
        raise TypeError(f"{name} is {value!r}, of type {type(value).__name__}; it must be True or False")


def check_extent(name: str, value: Any) -> None:
    """Raises TypeError or ValueError unless it is an int ≥ 0."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is {value!r}, of type {type(value).__name__}; it must be an int")
    if not 0 <= value <= MAX_EXTENT:
        limit = "at least 0" if value < 0 else f"at most {MAX_EXTENT}, since kernels count in 32 bits"
        raise ValueError(f"{name} is {value}; it must be {limit}")


def check_tile_type(tile: Any) -> None:
    """Raises TypeError unless it is a Tile or None."""
    if tile is not None and not isinstance(tile, Tile):
        raise TypeError(f"tile is {tile!r}, of type {type(tile).__name__}; it must be a numba_gemm.Tile")


def epilogue_of(bias: bool, activation: Any, function: Any) -> Epilogue:
    """The epilogue to compile.

    Raises:
        ValueError: for an unknown activation.
        TypeError: for a function that is not callable, takes other arguments, or holds what a kernel cannot.
    """
    if activation is not None and (not isinstance(activation, str) or activation not in ACTIVATIONS):
        raise ValueError(f"unknown activation {activation!r}; there are None, {', '.join(map(repr, ACTIVATIONS))}")
    if function is None:
        return _plain_epilogue(bias, activation)
    if not callable(function):
        raise TypeError(
            f"epilogue is {function!r}, of type {type(function).__name__}; it must be a Python function f(x) "
            "or f(x, row, col)"
        )
    return Epilogue(bias, activation, *snapshot(function))


@cache
def _plain_epilogue(bias: bool, activation: str | None) -> Epilogue:
    return Epilogue(bias, activation)


def output_shape(a: Operand, b: Operand, trans_a: bool, trans_b: bool) -> tuple[int, ...]:
    """The shape of op(A)·op(B).

    Raises:
        ValueError: if the operands have another number of dimensions or do not fit.
    """
    shape_a, shape_b = a.shape, b.shape
    for operand in (a, b):
        if len(operand.shape) not in (2, 3):
            raise ValueError(
                f"{operand.name} has shape {operand.shape}; a matrix has two dimensions, a batch of matrices three"
            )
    (k, m) = shape_a[-2:] if trans_a else shape_a[:-3:-1]
    (n, k_of_b) = shape_b[-2:] if trans_b else shape_b[:-3:-1]
    if k != k_of_b:
        raise ValueError(
            f"the inner dimensions differ: a{'ᵀ' if trans_a else ''} is {m} × {k} and "
            f"b{'ᵀ' if trans_b else ''} is {k_of_b} × {n}"
        )
    if max(m, n, k) > MAX_EXTENT:
        raise ValueError(
            f"M, N, K are {m}, {n}, {k}; they must be at most {MAX_EXTENT}, since kernels count in 32 bits"
        )
    if len(shape_a) == len(shape_b) == 2:
        return m, n
    batches = {shape[0] for shape in (shape_a, shape_b) if len(shape) == 3}
    if len(batches - {1}) > 1:
        raise ValueError(
            f"the batches differ: a has shape {shape_a} and b {shape_b}; they have to be equal, "
            "or one of them 1 or absent"
        )
    return max(batches - {1}, default=1), m, n


def arguments_given(*, alpha: float = 1.0, beta: float = 0.0, batch: int | None = None, **others: bool) -> set[str]:
    """The names of arguments, as in `ladder.CAPABILITIES`, that ask for more than C = A·B."""
    given = {"alpha": alpha != 1, "beta": beta != 0, "3-D operands": batch is not None, **others}
    return {name for name, asked in given.items() if asked}


def check_shape_of_output(c: Operand, a: Operand, b: Operand, shape: tuple[int, ...]) -> None:
    """Raises ValueError if c has another shape than the product."""
    if c.shape != shape:
        raise ValueError(f"c has shape {c.shape}; a of {a.shape} times b of {b.shape} is {shape}")


def check_writable(c: Operand) -> None:
    """Raises ValueError if an output is read-only, or two of its elements are one."""
    if c.read_only:
        raise ValueError(f"{c.name} is read-only; the result cannot be written to it: pass a writable array")
    if overlaps_itself(c):
        raise ValueError(
            f"{c.name} of shape {c.shape} with strides of {c.strides} elements overlaps itself: several of its "
            "elements are one place in memory; pass an array of its own"
        )


def check_disjoint(c: Operand, operand: Operand) -> None:
    """Raises ValueError if an output shares an element with an operand."""
    if overlap(c, operand):
        raise ValueError(
            f"{c.name} (from {c.pointer:#x}) overlaps {operand.name} (from {operand.pointer:#x}), which is read while "
            f"{c.name} is written; pass an array of its own"
        )


def check_bias(bias: Operand, n: int) -> None:
    """Raises ValueError unless it is N numbers with a positive stride."""
    if bias.shape != (n,):
        raise ValueError(f"bias has shape {bias.shape}; it must be ({n},), one number a column of c")
    if n > 1 and bias.strides[0] < 1:
        raise ValueError(
            f"bias has a stride of {bias.strides[0]} elements; it must be positive: make it contiguous first"
        )


def common_device(operands: Sequence[Operand]) -> int:
    """The device of all operands; the current one if none has memory.

    Raises:
        ValueError: if they are on different devices.
    """
    found = {operand.device: operand.name for operand in operands if operand.device is not None}
    if len(found) > 1:
        places = ", ".join(
            f"{operand.name} on device {operand.device}" for operand in operands if operand.device is not None
        )
        raise ValueError(f"operands are on different devices ({places}); copy them to one")
    return next(iter(found)) if found else cuda_api.current_device()


def check_capabilities(version: Version, arguments: set[str]) -> None:
    """Raises ValueError if the version cannot do what an argument asks, naming those that can."""
    for capability, names in ladder.CAPABILITIES.items():
        asked = [name for name in names if name in arguments]
        if asked and capability not in version.capabilities:
            able = [f"version {found}" for found in ladder.with_capability(capability)]
            raise ValueError(
                f"version {version} computes C = A·B only; {', '.join(asked)} "
                f"{'needs' if len(asked) == 1 else 'need'} the capability {capability!r}, "
                f"which {', '.join(able) + (' has' if len(able) == 1 else ' have') if able else 'no version has yet'}"
            )


def checked_tile(version: Version, tile: Tile | None, device: int) -> Tile:
    """The tile to use.

    Raises:
        RuntimeError: if the device is below the version's compute capability.
        ValueError: if the version or the device cannot use the tile.
    """
    capability = cuda_api.compute_capability(device)
    if capability < version.min_cc:
        raise RuntimeError(
            f"version {version} needs compute capability {'.'.join(map(str, version.min_cc))}; device {device} has "
            f"{'.'.join(map(str, capability))}"
        )
    if tile is None:
        return version.default_tile
    version.check(tile)
    if version.traits.dynamic_shared:
        tile.require_dynamic_shared(capability)
    return tile


def check_whole(version: Version, tile: Tile, a: Operand, b: Operand, c: Operand) -> None:
    """Raise ValueError for what `pad=True` would copy."""
    traits = version.traits
    if traits.takes_variants:
        return
    for operand, multiples, column_major in (
        (a, (tile.bm, tile.bk), traits.a_k_major),
        (b, (tile.bk, tile.bn), False),
        (c, (tile.bm, tile.bn), False),
    ):
        if not staging.takes_operand(version, operand, multiples, column_major=column_major):
            raise ValueError(
                f"version {version} with tile {tile} takes row-major contiguous operands"
                + (" (but a column-major)" if traits.a_k_major else "")
                + (f" with M, N, K multiples of {tile.bm}, {tile.bn}, {tile.bk}" if version.needs_whole_tiles else "")
                + (f", at addresses that are multiples of {traits.alignment}" if traits.alignment > 4 else "")
                + f"; {operand.name} has shape {operand.shape}, strides {operand.strides} and starts at "
                f"{operand.pointer:#x}. With pad=True it is copied into that form"
            )
