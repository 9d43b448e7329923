"""Rung 5 with cp.async from a linked PTX file: every copy, commit and wait is a real function call.

A linker inlines LTO-IR, never PTX. Around each CALL the kernel moves its live values to where the
calling convention keeps them, and what does not fit is spilled. Nothing else differs from rung 5.
"""

from __future__ import annotations

from functools import cache

from numba_gemm.device.async_copy import foreign
from numba_gemm.kernels.v5_cp_async import DEFAULT_TILE, SMALL_TILE, check, launch_config, make_pipelined_kernel
from numba_gemm.tile import Tile

__all__ = ["DEFAULT_TILE", "SMALL_TILE", "check", "launch_config", "make_kernel"]


@cache
def make_kernel(tile: Tile):
    return make_pipelined_kernel(tile, foreign("cp_async.ptx", pending=tile.stages - 2))
