"""Exercise 3: a large batch. One line is wrong.

Many products at once: matrix p of each array begins `stride` elements after matrix p − 1, and layer p of the grid
computes it. A, B and C are flat, row by row: A[p, row, k] is element p·stride + row·K + k. Any M, N, K, any stride.

All tests pass on the author's laptop. With more memory, the first matrices of C are sometimes those of others, and the
last ones are never written. Find the line. (No machine is needed that holds such arrays: the checker's only pretend.)
"""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, uint32, uint64

from numba_gemm.tile import LaunchConfig, Tile

TILE = Tile(bm=2, bn=4, bk=1)


def make_kernel(tile: Tile):
    BM, BN = np.uint32(tile.bm), np.uint32(tile.bn)

    @cuda.jit
    def large_batch(A, B, C, M, N, K, stride):
        """M, N and K are uint32, the stride is uint64."""
        row = uint32(cuda.blockIdx.y) * BM + uint32(cuda.threadIdx.y)
        col = uint32(cuda.blockIdx.x) * BN + uint32(cuda.threadIdx.x)
        first = uint32(uint64(cuda.blockIdx.z) * stride)  # unsigned, like all the indices here

        if row < M and col < N:
            total = float32(0)
            for k in range(K):
                total += A[first + row * K + k] * B[first + k * N + col]
            C[first + row * N + col] = total

    return large_batch


def launch_config(tile: Tile, m: int, n: int, batch: int) -> LaunchConfig:
    return LaunchConfig(grid=(*tile.grid(m, n), batch), block=(tile.bn, tile.bm))
