"""Rung 1, naive: one thread computes one output, straight from the formula.

    C[row, col] = Σₖ A[row, k] · B[k, col]          block: 8 rows × 32 columns

               ┌ a warp is 32 neighbouring columns of one row ┐
    B[k, col]  │ 32 different floats, 128 contiguous bytes    │  one coalesced load
    A[row, k]  │ the same float for all 32 threads            │  one broadcast load

Cost of one multiply-add: two loads, 8 bytes, so 2 FLOP per 8 bytes = 0.25 FLOP/B of logical traffic,
where a GPU needs about 10 from its memory. The caches absorb most of it; the load units do not:
for each FFMA they serve two load instructions, and each FFMA waits for the one before it.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import cuda, float32, uint32

from numba_gemm.kernels.interface import PLAIN, Structure, Traits, plain_steps
from numba_gemm.tile import Tile

DEFAULT_TILE = Tile(bm=8, bn=32, bk=1)
SMALL_TILE = Tile(bm=2, bn=16, bk=1)  # for the simulator, where each thread is a Python thread
TRAITS = Traits(capabilities=frozenset({"edges"}))
STRUCTURE = Structure(shared=False, a_in_lines=False, copy_a="vectors", copy_b="vectors", turns_a=True, prefetch=False)
SIGNATURE = PLAIN


def check(tile: Tile) -> None:
    """One output a thread; K is not tiled."""
    if (tile.bk, tile.tm, tile.tn, tile.stages) != (1, 1, 1, 1):
        raise ValueError(f"{tile}: the naive kernel takes bk = tm = tn = stages = 1; only bm and bn are free")


@cache
def make_kernel(tile: Tile):
    BM, BN = np.uint32(tile.bm), np.uint32(tile.bn)

    @cuda.jit
    def sgemm_v1(A, B, C):
        row = uint32(cuda.blockIdx.y) * BM + uint32(cuda.threadIdx.y)
        col = uint32(cuda.blockIdx.x) * BN + uint32(cuda.threadIdx.x)

        # The last blocks reach past the edge of C.
        if row < uint32(C.shape[0]) and col < uint32(C.shape[1]):
            total = float32(0)
            k = uint32(0)
            while k < uint32(A.shape[1]):
                total += A[row, k] * B[k, col]
                k += uint32(1)
            C[row, col] = total

    return sgemm_v1


steps = plain_steps(make_kernel, TRAITS, lambda tile: (tile.bn, tile.bm))
