"""`sgemm`: validate, choose, launch."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda

from numba_gemm import driver, ladder, runtime
from numba_gemm.choose import choose_version
from numba_gemm.ladder import Version
from numba_gemm.operands import Operand, as_operand, overlap, overlaps_itself
from numba_gemm.streams import stream_handle
from numba_gemm.tile import Tile

ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu")


def sgemm(
    a: Any,
    b: Any,
    c: Any = None,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    trans_a: bool = False,
    trans_b: bool = False,
    version: int | str = "auto",
    bias: Any = None,
    activation: str | None = None,
    epilogue: Callable[..., Any] | None = None,
    pad: bool = True,
    tile: Tile | None = None,
    stream: Any = None,
) -> Any:
    """C = A·B in float32, for matrices in GPU memory. Asynchronous.

    Args:
        a: (M, K) float32: Numba, PyTorch, CuPy or JAX, or anything with `__cuda_array_interface__` or
            `__dlpack__`.
        b: (K, N) float32.
        c: (M, N) float32, written in place and returned. If absent, a new Numba device array.
        alpha, beta, trans_a, trans_b, bias, activation, epilogue: for versions whose entry in `VERSIONS` has the
            capability; the others compute A·B only.
        version: number or name of a rung or detour, or "auto" for the fastest.
        pad: rungs 2 to 5 work on whole tiles of contiguous, aligned memory. True: other operands are
            copied, padded with zeros, into scratch on the device. False: they are a ValueError.
        tile: a `Tile` to use instead of the version's default.
        stream: a Numba, cuda.core, PyTorch or CuPy stream, anything with `__cuda_stream__`, or a handle;
            the default stream if absent. Work is ordered after that of the arrays' producers.

    Returns:
        `c`, or a new Numba device array of shape (M, N).

    Raises:
        TypeError: an operand that is not float32 in GPU memory, an option of the wrong type.
        ValueError: shapes that do not fit, an unknown version, an option that the version has no
            capability for, a tile that breaks a constraint, a `c` that is read-only or overlaps.
        RuntimeError: a device below the version's compute capability.
        All of them come before anything is launched or written.

    """
    _check_options(alpha, beta, trans_a, trans_b, activation, epilogue, pad, tile)
    requested = None if version == "auto" else ladder.find(version)
    handle = stream_handle(stream)

    operand_a, operand_b = as_operand(a, "a", handle), as_operand(b, "b", handle)
    m, n, batched = _shape(operand_a, operand_b, trans_a, trans_b)
    operand_c = None if c is None else _output(as_operand(c, "c", handle), operand_a, operand_b, (m, n), batched)
    if beta != 0 and operand_c is None:
        raise ValueError(f"beta is {beta}, which adds beta · c, but there is no c; pass one or beta=0")
    device = _common_device([operand_a, operand_b, *([operand_c] if operand_c else [])])

    chosen = requested or choose_version(runtime.compute_capability(device))
    asked_for = {
        "alpha": alpha != 1,
        "beta": beta != 0,
        "trans_a": trans_a,
        "trans_b": trans_b,
        "bias": bias is not None,
        "activation": activation is not None,
        "epilogue": epilogue is not None,
        "3-D operands": batched,
    }
    _check_capabilities(chosen, {name for name, asked in asked_for.items() if asked})
    used_tile = _checked_tile(chosen, tile, device)
    if not pad:
        _check_whole(chosen, used_tile, operand_a, operand_b, operand_c)

    with runtime.on_device(device):
        result = c
        if operand_c is None:
            result = _new_matrix(m, n)
            operand_c = as_operand(result, "c", handle)
        for operand in (operand_a, operand_b, operand_c):
            if operand.producer_stream is not None:
                runtime.wait_for_producer(operand.producer_stream, handle)
        driver.multiply(chosen, used_tile, operand_a, operand_b, operand_c, handle)
    return result


def _check_options(
    alpha: Any, beta: Any, trans_a: Any, trans_b: Any, activation: Any, epilogue: Any, pad: Any, tile: Any
) -> None:
    for name, scalar in (("alpha", alpha), ("beta", beta)):
        if not isinstance(scalar, numbers.Real | np.bool_):
            raise TypeError(f"{name} is {scalar!r}, of type {type(scalar).__name__}; it must be a real scalar")
    for name, flag in (("trans_a", trans_a), ("trans_b", trans_b), ("pad", pad)):
        if not isinstance(flag, bool | np.bool_):
            raise TypeError(f"{name} is {flag!r}, of type {type(flag).__name__}; it must be True or False")
    if activation is not None and activation not in ACTIVATIONS:
        raise ValueError(f"unknown activation {activation!r}; there are None, {', '.join(map(repr, ACTIVATIONS))}")
    if epilogue is not None and not callable(epilogue):
        raise TypeError(
            f"epilogue is {epilogue!r}, of type {type(epilogue).__name__}; it must be a Python function f(x) "
            "or f(x, row, col)"
        )
    if tile is not None and not isinstance(tile, Tile):
        raise TypeError(f"tile is {tile!r}, of type {type(tile).__name__}; it must be a numba_gemm.Tile")


def _shape(a: Operand, b: Operand, trans_a: bool, trans_b: bool) -> tuple[int, int, bool]:
    for operand in (a, b):
        if len(operand.shape) not in (2, 3):
            raise ValueError(
                f"{operand.name} has shape {operand.shape}; a matrix has two dimensions, a batch of matrices three"
            )
    m, k = reversed(a.shape[-2:]) if trans_a else a.shape[-2:]
    k_of_b, n = reversed(b.shape[-2:]) if trans_b else b.shape[-2:]
    if k != k_of_b:
        raise ValueError(
            f"the inner dimensions differ: a{'ᵀ' if trans_a else ''} is {m} × {k} and "
            f"b{'ᵀ' if trans_b else ''} is {k_of_b} × {n}"
        )
    return m, n, len(a.shape) == 3 or len(b.shape) == 3


def _output(c: Operand, a: Operand, b: Operand, shape: tuple[int, int], batched: bool) -> Operand:
    if not batched and c.shape != shape:
        raise ValueError(f"c has shape {c.shape}; a of {a.shape} times b of {b.shape} is {shape}")
    if c.read_only:
        raise ValueError("c is read-only; the result cannot be written to it: pass a writable array")
    if not batched and overlaps_itself(c):
        raise ValueError(
            f"c of shape {c.shape} with strides of {c.strides} elements overlaps itself: several of its elements are "
            "one place in memory; pass an array of its own"
        )
    for operand in (a, b):
        if overlap(c, operand):
            raise ValueError(
                f"c (from {c.pointer:#x}) overlaps {operand.name} (from {operand.pointer:#x}), which is read while c "
                "is written; pass an array of its own"
            )
    return c


def _common_device(operands: list[Operand]) -> int:
    found = {operand.device: operand.name for operand in operands if operand.device is not None}
    if len(found) > 1:
        places = ", ".join(f"{name} on device {device}" for device, name in found.items())
        raise ValueError(f"operands are on different devices ({places}); copy them to one")
    return next(iter(found)) if found else runtime.current_device()


def _check_capabilities(version: Version, arguments: set[str]) -> None:
    for capability, names in ladder.CAPABILITIES.items():
        asked = [name for name in names if name in arguments]
        if asked and capability not in version.capabilities:
            able = [f"version {found}" for found in ladder.with_capability(capability)]
            raise ValueError(
                f"version {version} computes C = A·B only; {', '.join(asked)} "
                f"{'needs' if len(asked) == 1 else 'need'} the capability {capability!r}, "
                f"which {', '.join(able) + (' has' if len(able) == 1 else ' have') if able else 'no version has yet'}"
            )


def _checked_tile(version: Version, tile: Tile | None, device: int) -> Tile:
    capability = runtime.compute_capability(device)
    if capability < version.min_cc:
        raise RuntimeError(
            f"version {version} needs compute capability {'.'.join(map(str, version.min_cc))}; device {device} has "
            f"{'.'.join(map(str, capability))}"
        )
    if tile is None:
        return version.default_tile
    version.check(tile)
    if version.dynamic_shared:
        tile.require_dynamic_shared(capability)
    return tile


def _check_whole(version: Version, tile: Tile, a: Operand, b: Operand, c: Operand | None) -> None:
    """Raise for what `pad=True` would copy."""
    for operand, multiples in ((a, (tile.bm, tile.bk)), (b, (tile.bk, tile.bn)), (c, (tile.bm, tile.bn))):
        if operand is not None and not driver.takes_as_is(version, operand, multiples):
            raise ValueError(
                f"version {version} with tile {tile} takes row-major contiguous operands"
                + (f" with M, N, K multiples of {tile.bm}, {tile.bn}, {tile.bk}" if version.needs_whole_tiles else "")
                + (f", at addresses that are multiples of {version.alignment}" if version.alignment > 4 else "")
                + f"; {operand.name} has shape {operand.shape}, strides {operand.strides} and starts at "
                f"{operand.pointer:#x}. With pad=True it is copied into that form"
            )


def _new_matrix(m: int, n: int) -> Any:
    return cuda.device_array((m, n), np.float32)
