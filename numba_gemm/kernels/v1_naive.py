"""Rung 1, naive: one thread computes one output, straight from the formula.

    C[row, col] = Σₖ A[row, k] · B[k, col]          block: 8 rows × 32 columns

               ┌ a warp is 32 neighbouring columns of one row ┐
    B[k, col]  │ 32 different floats, 128 contiguous bytes    │  one coalesced load
    A[row, k]  │ the same float for all 32 threads            │  one broadcast load

Cost of one multiply-add: two loads, 8 bytes, so 2 FLOP per 8 bytes = 0.25 FLOP/B of logical traffic,
where a GPU needs about 10 from its memory. The caches absorb most of it; the load units do not:
for each FFMA they serve two load instructions, and each FFMA waits for the one before it.

The words (tile, warp, coalesced, FFMA, intensity, …) are explained in notes/glossary.md.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import cuda, float32, uint32

from numba_gemm.kernels.interface import PLAIN, Structure, Traits, plain_steps
from numba_gemm.tile import Tile

DEFAULT_TILE = Tile(bm=8, bn=32, bk=1)
SMALL_TILE = Tile(bm=2, bn=16, bk=1)  # for the simulator, where each thread is a Python thread

# The next three, and `steps` at the end, are for the library around the kernel; who reads the ladder may skip them.
# TRAITS: what the kernel can do, and what it needs. STRUCTURE: how it does its work, for the models that predict its
# traffic and time. SIGNATURE: the types of its arguments. `kernels.interface` has the words.
TRAITS = Traits(capabilities=frozenset({"edges"}))
STRUCTURE = Structure(shared=False, a_in_lines=False, copy_a="vectors", copy_b="vectors", turns_a=True, prefetch=False)
SIGNATURE = PLAIN


def check(tile: Tile) -> None:
    """One output per thread, and K in one piece: raises ValueError for a tile with other sizes than bm and bn."""
    if (tile.bk, tile.tm, tile.tn, tile.stages) != (1, 1, 1, 1):
        raise ValueError(f"{tile}: the naive kernel takes bk = tm = tn = stages = 1; only bm and bn are free")


@cache
def make_kernel(tile: Tile):
    BM, BN = np.uint32(tile.bm), np.uint32(tile.bn)

    @cuda.jit
    def sgemm_v1(A, B, C):  # (M, K), (K, N), (M, N)
        row = uint32(cuda.blockIdx.y) * BM + uint32(cuda.threadIdx.y)
        col = uint32(cuda.blockIdx.x) * BN + uint32(cuda.threadIdx.x)

        K = uint32(A.shape[1])
        # The last blocks reach past the edge of C.
        if row < uint32(C.shape[0]) and col < uint32(C.shape[1]):
            total = float32(0)
            k = uint32(0)
            while k < K:
                total += A[row, k] * B[k, col]
                k += uint32(1)
            C[row, col] = total

    return sgemm_v1


# One launch: a block per tile of C, with bn threads along x and bm along y.
steps = plain_steps(make_kernel, TRAITS, lambda tile: (tile.bn, tile.bm))
