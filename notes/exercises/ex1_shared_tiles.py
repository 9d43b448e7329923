"""Exercise 1: shared tiles. One line is missing.

The kernel is rung 2 of the ladder: the block copies a tile of A and a tile of B into shared memory, each thread one
element of either, and then every thread computes its output from what all of them copied. M, N and K are whole tiles.

With blocks of a single warp the author has only seen right results on a GPU; with larger ones there is a wrong one now
and then, and never in the debugger. Find the line that is missing.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, uint32

from numba_gemm.tile import LaunchConfig, Tile

TILE = Tile(bm=4, bn=4, bk=4)


def make_kernel(tile: Tile):
    BM, BN, BK = np.uint32(tile.bm), np.uint32(tile.bn), np.uint32(tile.bk)
    A_TILE = (tile.bm, tile.bk)
    B_TILE = (tile.bk, tile.bn)

    @cuda.jit
    def shared_tiles(A, B, C):
        As = cuda.shared.array(A_TILE, float32, 16)
        Bs = cuda.shared.array(B_TILE, float32, 16)
        m = uint32(cuda.threadIdx.y)
        n = uint32(cuda.threadIdx.x)
        row0 = uint32(cuda.blockIdx.y) * BM
        col0 = uint32(cuda.blockIdx.x) * BN

        total = float32(0)
        for k0 in range(uint32(0), uint32(A.shape[1]), BK):
            As[m, n] = A[row0 + m, k0 + n]
            Bs[m, n] = B[k0 + m, col0 + n]
            cuda.syncthreads()

            for k in range(BK):
                total += As[m, k] * Bs[k, n]

        C[row0 + m, col0 + n] = total

    return shared_tiles


def launch_config(tile: Tile, m: int, n: int) -> LaunchConfig:
    return LaunchConfig(grid=tile.grid(m, n), block=(tile.bn, tile.bm))
