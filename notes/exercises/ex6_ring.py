"""Exercise 6: a ring. One line is wrong.

The pipeline of rung 5, without its register tiles: shared memory holds three tiles of A and of B. Each turn waits for
its tile, sets off the copies of the tile two turns ahead, and computes. Each thread copies one element of either by
cp.async, and commits its copies of a tile as one group; a wait for all but one group so finds the tile complete.

On the author's GPU the results are right, since the copies are fast. Find the line that relies on that.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, uint32

from numba_gemm.device.async_copy import cp_async4, cp_async_commit, cp_async_wait
from numba_gemm.tile import LaunchConfig, Tile

TILE = Tile(bm=4, bn=4, bk=4, stages=3)


def make_kernel(tile: Tile):
    BM, BN, BK = np.uint32(tile.bm), np.uint32(tile.bn), np.uint32(tile.bk)
    STAGES = np.uint32(tile.stages)
    AHEAD = np.uint32(tile.stages - 1)
    PENDING = tile.stages - 2
    A_RING = (tile.stages, tile.bm, tile.bk)
    B_RING = (tile.stages, tile.bk, tile.bn)

    @cuda.jit
    def ring(A, B, C):
        As = cuda.shared.array(A_RING, float32, 16)
        Bs = cuda.shared.array(B_RING, float32, 16)
        m = uint32(cuda.threadIdx.y)
        n = uint32(cuda.threadIdx.x)
        row0 = uint32(cuda.blockIdx.y) * BM
        col0 = uint32(cuda.blockIdx.x) * BN
        tiles = uint32(A.shape[1]) // BK

        for t in range(AHEAD):
            if t < tiles:
                cp_async4(As, (t, m, n), A, (row0 + m, t * BK + n))
                cp_async4(Bs, (t, m, n), B, (t * BK + m, col0 + n))
            cp_async_commit()

        total = float32(0)
        for t in range(tiles):
            cp_async_wait(PENDING)  # my copies of tile t have arrived …
            cuda.syncthreads()  # … and everybody's; and everyone has read tile t − 1

            ahead = t + AHEAD
            if ahead < tiles:
                cp_async4(As, (ahead % STAGES, m, n), A, (row0 + m, ahead * BK + n))
                cp_async4(Bs, (ahead % STAGES, m, n), B, (ahead * BK + m, col0 + n))
                cp_async_commit()

            for k in range(BK):
                total += As[t % STAGES, m, k] * Bs[t % STAGES, k, n]
        C[row0 + m, col0 + n] = total

    return ring


def launch_config(tile: Tile, m: int, n: int) -> LaunchConfig:
    return LaunchConfig(grid=tile.grid(m, n), block=(tile.bn, tile.bm))
