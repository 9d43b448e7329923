"""Exercise 5: any K. One line is wrong.

Shared tiles again, for matrices that are not whole tiles. Threads whose element lies outside of A or B put a zero into
the tile instead, which adds nothing to any output, and outputs outside of C are not written. Any M, N and K.

The author changed M and N until convinced. Find the line.
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
    def any_k(A, B, C):
        As = cuda.shared.array(A_TILE, float32, 16)
        Bs = cuda.shared.array(B_TILE, float32, 16)
        m = uint32(cuda.threadIdx.y)
        n = uint32(cuda.threadIdx.x)
        row = uint32(cuda.blockIdx.y) * BM + m
        col = uint32(cuda.blockIdx.x) * BN + n
        M, N, K = uint32(C.shape[0]), uint32(C.shape[1]), uint32(A.shape[1])

        total = float32(0)
        for t in range(K // BK):
            a_col, b_row = t * BK + n, t * BK + m
            As[m, n] = A[row, a_col] if row < M and a_col < K else float32(0)
            Bs[m, n] = B[b_row, col] if b_row < K and col < N else float32(0)
            cuda.syncthreads()

            for k in range(BK):
                total += As[m, k] * Bs[k, n]
            cuda.syncthreads()

        if row < M and col < N:
            C[row, col] = total

    return any_k


def launch_config(tile: Tile, m: int, n: int) -> LaunchConfig:
    return LaunchConfig(grid=tile.grid(m, n), block=(tile.bn, tile.bm))
