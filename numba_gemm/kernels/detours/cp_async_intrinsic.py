"""Rung 5 with cp.async as inline PTX that Numba's code generator emits: no call, nothing linked.

Where the foreign function hides the copy from the optimiser until link time, here it is one
instruction in the kernel's own code from the start; and a kernel without linked files can be cached on
disk. Nothing else differs from rung 5.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from numba_gemm.device.async_copy import intrinsic
from numba_gemm.kernels import v5_cp_async
from numba_gemm.kernels.interface import PLAIN, plain_steps
from numba_gemm.kernels.v5_cp_async import DEFAULT_TILE, SMALL_TILE, check, make_pipelined_kernel
from numba_gemm.tile import Tile

__all__ = ["DEFAULT_TILE", "SIGNATURE", "SMALL_TILE", "STRUCTURE", "TRAITS", "check", "make_kernel", "steps"]

TRAITS = replace(v5_cp_async.TRAITS, foreign_files=())
STRUCTURE = v5_cp_async.STRUCTURE
SIGNATURE = PLAIN


@cache
def make_kernel(tile: Tile):
    return make_pipelined_kernel(tile, intrinsic(pending=tile.stages - 2))


steps = plain_steps(make_kernel, TRAITS)
