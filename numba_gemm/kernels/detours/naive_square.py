"""Rung 1 in square blocks of 16 × 16: the same kernel, and a warp that is two rows of 16 columns.

`naive_16` and `ex3`, the first step of the ladder for the RTX 5080, are this one kernel. (The source does not say
which block ex3 has; 16 is the size that its later steps use.)

A warp now loads two floats of A, in two sectors, and 16 neighbouring floats of each row of B for both of its rows: two
sectors as well. That is 2 + 2 sectors per step where rung 1 takes 1 + 4: what a warp touches is squarer, and it
moves less for the same 32 multiply-adds. What holds it back stays: two load instructions for each FFMA.
"""

from __future__ import annotations

from numba_gemm.kernels.v1_naive import SIGNATURE, STRUCTURE, TRAITS, check, make_kernel, steps
from numba_gemm.tile import Tile

__all__ = ["DEFAULT_TILE", "SIGNATURE", "SMALL_TILE", "STRUCTURE", "TRAITS", "check", "make_kernel", "steps"]

DEFAULT_TILE = Tile(bm=16, bn=16, bk=1)
SMALL_TILE = Tile(bm=4, bn=4, bk=1)  # for the simulator, where each thread is a Python thread
