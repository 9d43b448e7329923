"""Rung 5 with cp.async from a linked PTX file: every copy, commit and wait is a real function call.

A linker inlines LTO-IR, never PTX. Around each CALL the kernel moves its live values to where the
calling convention keeps them, and what does not fit is spilled. Nothing else differs from rung 5.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from numba_gemm.device.async_copy import foreign
from numba_gemm.kernels import v5_cp_async
from numba_gemm.kernels.interface import PLAIN, plain_steps
from numba_gemm.kernels.v5_cp_async import DEFAULT_TILE, SMALL_TILE, check, make_pipelined_kernel
from numba_gemm.tile import Tile

__all__ = ["DEFAULT_TILE", "SIGNATURE", "SMALL_TILE", "STRUCTURE", "TRAITS", "check", "make_kernel", "steps"]

TRAITS = replace(v5_cp_async.TRAITS, foreign_files=("cp_async.ptx",))
STRUCTURE = v5_cp_async.STRUCTURE
SIGNATURE = PLAIN


@cache
def make_kernel(tile: Tile):
    return make_pipelined_kernel(tile, foreign("cp_async.ptx", pending=tile.stages - 2))


steps = plain_steps(make_kernel, TRAITS)
