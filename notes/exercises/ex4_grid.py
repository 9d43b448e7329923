"""Exercise 4: the grid. One line is wrong.

The kernel is rung 1, one thread per output: the x of a thread is its column, so that the 32 threads of a warp read
neighbouring elements of B. Blocks may reach past the edges of C; the kernel checks that. Any M and N.

The author had a product of 8 × 32 to compute, and the kernel computed it. Find the line.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, uint32

from numba_gemm.tile import LaunchConfig, Tile

TILE = Tile(bm=2, bn=8, bk=1)


def make_kernel(tile: Tile):
    BM, BN = np.uint32(tile.bm), np.uint32(tile.bn)

    @cuda.jit
    def one_thread_an_output(A, B, C):
        row = uint32(cuda.blockIdx.y) * BM + uint32(cuda.threadIdx.y)
        col = uint32(cuda.blockIdx.x) * BN + uint32(cuda.threadIdx.x)

        if row < uint32(C.shape[0]) and col < uint32(C.shape[1]):
            total = float32(0)
            for k in range(uint32(A.shape[1])):
                total += A[row, k] * B[k, col]
            C[row, col] = total

    return one_thread_an_output


def launch_config(tile: Tile, m: int, n: int) -> LaunchConfig:
    blocks_m, blocks_n = -(-m // tile.bm), -(-n // tile.bn)
    return LaunchConfig(grid=(blocks_m, blocks_n), block=(tile.bn, tile.bm))
