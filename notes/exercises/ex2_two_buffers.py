"""Exercise 2: two buffers. One line is wrong.

Shared memory holds two tiles of A and two of B. While the threads compute with one pair, they fill the other with the
next tiles of K, so that one barrier a tile is enough. The last tile has no successor to copy and is computed after the
loop. M, N and K are whole tiles, and K is at least one tile.

The author tested it with a K of one tile, and of three. Find the line.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, uint32

from numba_gemm.tile import LaunchConfig, Tile

TILE = Tile(bm=4, bn=4, bk=4)


def make_kernel(tile: Tile):
    BM, BN, BK = np.uint32(tile.bm), np.uint32(tile.bn), np.uint32(tile.bk)
    A_TILES = (2, tile.bm, tile.bk)
    B_TILES = (2, tile.bk, tile.bn)
    FIRST, SECOND = np.uint32(0), np.uint32(1)

    @cuda.jit
    def two_buffers(A, B, C):
        As = cuda.shared.array(A_TILES, float32, 16)
        Bs = cuda.shared.array(B_TILES, float32, 16)
        m = uint32(cuda.threadIdx.y)
        n = uint32(cuda.threadIdx.x)
        row0 = uint32(cuda.blockIdx.y) * BM
        col0 = uint32(cuda.blockIdx.x) * BN

        As[FIRST, m, n] = A[row0 + m, n]
        Bs[FIRST, m, n] = B[m, col0 + n]
        cuda.syncthreads()

        total = float32(0)
        ready, free = FIRST, SECOND  # the buffer to compute with, and the one to fill
        for k0 in range(BK, uint32(A.shape[1]), BK):
            As[free, m, n] = A[row0 + m, k0 + n]
            Bs[free, m, n] = B[k0 + m, col0 + n]
            for k in range(BK):
                total += As[ready, m, k] * Bs[ready, k, n]
            cuda.syncthreads()  # what has been filled is complete, and what has been read may be filled
            ready, free = free, ready

        for k in range(BK):
            total += As[FIRST, m, k] * Bs[FIRST, k, n]
        C[row0 + m, col0 + n] = total

    return two_buffers


def launch_config(tile: Tile, m: int, n: int) -> LaunchConfig:
    return LaunchConfig(grid=tile.grid(m, n), block=(tile.bn, tile.bm))
