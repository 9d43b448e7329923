"""Operands in whole tiles, made once: what pads weights offline instead of in each call.

Rungs 2 to 5 and most detours take whole tiles of contiguous, aligned memory. `sgemm` brings any other operand into
that form in each call, by a copy in device memory. For weights that are used many times, that copy is
better made once:

    weights = padded(w, "b", version="vectorized")                    # (K, N) → whole tiles, once
    c = sgemm(padded(x, "a", version="vectorized"), weights, version="vectorized", pad=False)[:m, :n]

Zeros add nothing to a sum of products, so the result holds the product in its first rows and columns, exactly.
What it costs in memory and work is `numba_gemm.analysis.models.padding`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from numba_gemm import ladder
from numba_gemm.calls import checks
from numba_gemm.driver import cuda_api, staging
from numba_gemm.driver.operands import as_operand, wait_for_producers
from numba_gemm.driver.streams import stream_handle
from numba_gemm.tile import Tile


def padded(operand: Any, role: str, *, version: int | str, tile: Tile | None = None, stream: Any = None) -> Any:
    """An operand in the form that a version takes without a copy: whole tiles, zero-filled, in its layout.

    Args:
        operand: float32 matrix in GPU memory, as for `sgemm`: (M, K) for A, (K, N) for B.
        role: "a" or "b", which operand of the product it will be.
        version: number or name of the version that will take it.
        tile: the tile that will be used, instead of the version's default.
        stream: where the copy runs, as for `sgemm`. Asynchronous.

    Returns:
        A new device array, with M and K (A) or K and N (B) rounded up to multiples of the tile's sizes; or `operand`
        itself where it already has that form, as it always has for a version that takes any shape and layout.

    Raises:
        TypeError: an operand that is not float32 in GPU memory, an option of the wrong type.
        ValueError: another role, an operand that is no matrix, an unknown version, a tile that breaks a constraint.
        RuntimeError: a device below the version's compute capability.
    """
    if role not in ("a", "b"):
        raise ValueError(f"role is {role!r}; it must be 'a' or 'b'")
    checks.check_tile_type(tile)
    chosen = ladder.find(version)
    handle = stream_handle(stream)
    source = as_operand(operand, role, handle)
    if len(source.shape) != 2:
        raise ValueError(f"{role} has shape {source.shape}; a matrix has two dimensions")
    device = cuda_api.current_device() if source.device is None else source.device
    used = checks.checked_tile(chosen, tile, device)
    multiples = (used.bm, used.bk) if role == "a" else (used.bk, used.bn)
    column_major = chosen.traits.a_k_major and role == "a"
    if staging.takes_operand(chosen, source, multiples, column_major=column_major):
        return operand
    units = multiples if chosen.needs_whole_tiles else (1, 1)
    sizes = tuple(-(-size // unit) * unit for size, unit in zip(source.shape, units, strict=True))
    with cuda_api.on_device(device):
        wait_for_producers([source], handle)
        whole = cuda.device_array(sizes, np.float32, order="F" if column_major else "C")
        staging.copy(source, as_operand(whole, role, handle), handle)
    return whole
