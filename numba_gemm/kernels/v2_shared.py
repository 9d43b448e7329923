"""Rung 2, shared tiles: the block reads each element once and shares it through on-chip memory.

    for each tile of K:                        ┌─ Bs ─┐
        every thread copies one element        │32×32 │   copied by all 1024 threads,
            of A and one of B                  └──────┘   then read 32 times each
        barrier                         ┌─ As ─┐┌─ C ──┐
        32 multiply-adds per thread     │32×32 ││32×32 │  one output per thread
        barrier                         └──────┘└──────┘

Cost: global reads fall 32-fold, to I = 32·32 / (2·(32+32)) = 8 FLOP/B. But each multiply-add now takes
two shared-memory reads, and an SM delivers one 128-byte wavefront per cycle: the bound has moved from
global to shared memory (0.25 FLOP/B there), and a barrier separates every copy from its use.
Shapes are whole tiles.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import cuda, float32, uint32

from numba_gemm.compiler.target import launch_bounds
from numba_gemm.kernels.interface import PLAIN, Structure, Traits, plain_steps
from numba_gemm.tile import Tile

DEFAULT_TILE = Tile(bm=32, bn=32, bk=32)
SMALL_TILE = Tile(bm=8, bn=8, bk=8)  # for the simulator, where each thread is a Python thread
TRAITS = Traits()
STRUCTURE = Structure(a_in_lines=True, copy_a="floats", copy_b="floats", turns_a=False, prefetch=False)
SIGNATURE = PLAIN


def check(tile: Tile) -> None:
    """Square tiles, so that each thread copies one element of A and one of B and owns one of C; else ValueError."""
    tile.require_square()
    tile.require_stages(1, 1)
    tile.require_static_shared()


@cache
def make_kernel(tile: Tile):
    BM, BN, BK = np.uint32(tile.bm), np.uint32(tile.bn), np.uint32(tile.bk)
    A_TILE = (tile.bm, tile.bk)  # new: shapes of shared arrays are plain ints
    B_TILE = (tile.bk, tile.bn)

    # Two blocks of 1024 threads fill an SM, if a thread makes do with 32 registers; with 33 only one fits.
    @cuda.jit(**launch_bounds(tile.threads, blocks_per_sm=2))
    def sgemm_v2(A, B, C):  # (M, K), (K, N), (M, N)
        # new: the block's tiles, in memory that all of its threads reach
        As = cuda.shared.array(A_TILE, float32, 16)  # (BM, BK)
        Bs = cuda.shared.array(B_TILE, float32, 16)  # (BK, BN)
        m = uint32(cuda.threadIdx.y)  # new: the thread's place inside the block …
        n = uint32(cuda.threadIdx.x)
        row0 = uint32(cuda.blockIdx.y) * BM  # new: … and the block's corner in C
        col0 = uint32(cuda.blockIdx.x) * BN

        total = float32(0)
        K = uint32(A.shape[1])
        # `range` here, `while` in other rungs: with that, the compiler finds the 32 registers too few and loads a value
        # from local memory in each turn of the main loop (sm_90).
        for k0 in range(uint32(0), K, BK):  # new: tile by tile of K
            As[m, n] = A[row0 + m, k0 + n]  # new: global → shared, each element once per block
            Bs[m, n] = B[k0 + m, col0 + n]
            cuda.syncthreads()  # new: the tiles are complete before anyone reads them

            for k in range(BK):
                total += As[m, k] * Bs[k, n]  # new: from shared memory
            cuda.syncthreads()  # new: everyone has read them before anyone overwrites them

        C[row0 + m, col0 + n] = total

    return sgemm_v2


steps = plain_steps(make_kernel, TRAITS, lambda tile: (tile.bn, tile.bm))
