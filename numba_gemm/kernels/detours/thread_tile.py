"""Thread tiles without shared memory: what registers alone can do for rung 1.

Each thread computes TM × TN outputs, straight from global memory: for each k it loads TM floats of a column of A and
TN of a row of B, and multiplies each with each. `thread_tile` has 8 × 8 outputs, `thread_tile_4` 4 × 4; the file is
the same. Loads past the edge give 0, stores past it do not happen, so any shape is taken as it is.

    per thread and step of k   naive   4 × 4   8 × 8
    loads : multiply-adds        2:1    8:16   16:64
    FLOP per byte of loads       0.25       1       2

Load instructions fall by 4 and 8, sectors do not: lanes beside each other now lie TN floats apart, so a load of B
touches 8 sectors (4 × 4) or 16 (8 × 8) where a coalesced one has 2, and uses a quarter or an eighth of each. Other
loads of the same step use the rest, if the L1 still holds it. The price is registers, for accumulators, addresses and
what lies inside: 47 per thread (4 × 4) and 124 (8 × 8) on sm_90, where the source has 39 and 114 by another compiler.
Shared memory is what rung 3 adds to this: coalesced copies, and one fetch for the whole block.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import cuda, float32, uint32

from numba_gemm.kernels.interface import PLAIN, Structure, Traits, plain_steps
from numba_gemm.tile import Tile

DEFAULT_TILE = Tile(bm=128, bn=128, bk=1, tm=8, tn=8)
TILE_4X4 = Tile(bm=64, bn=64, bk=1, tm=4, tn=4)
SMALL_TILE = Tile(bm=8, bn=8, bk=1, tm=2, tn=4)  # for the simulator, where each thread is a Python thread
TRAITS = Traits(capabilities=frozenset({"edges"}))
STRUCTURE = Structure(shared=False, a_in_lines=False, copy_a="vectors", copy_b="vectors", turns_a=True, prefetch=False)
SIGNATURE = PLAIN


def check(tile: Tile) -> None:
    """A register tile per thread, and K in one piece: ValueError unless bk = stages = 1."""
    if (tile.bk, tile.stages) != (1, 1):
        raise ValueError(f"{tile}: this kernel has no shared memory and takes bk = stages = 1")


@cache
def make_kernel(tile: Tile):
    BM, BN = np.uint32(tile.bm), np.uint32(tile.bn)
    TM, TN = np.uint32(tile.tm), np.uint32(tile.tn)
    ACC = (tile.tm, tile.tn)
    A_FRAGMENT, B_FRAGMENT = tile.tm, tile.tn

    @cuda.jit
    def sgemm_thread_tile(A, B, C):  # (M, K), (K, N), (M, N)
        acc = cuda.local.array(ACC, float32)  # (TM, TN)
        a = cuda.local.array(A_FRAGMENT, float32)  # (TM,)
        b = cuda.local.array(B_FRAGMENT, float32)  # (TN,)
        row = uint32(cuda.blockIdx.y) * BM + uint32(cuda.threadIdx.y) * TM
        col = uint32(cuda.blockIdx.x) * BN + uint32(cuda.threadIdx.x) * TN
        M, N, K = uint32(C.shape[0]), uint32(C.shape[1]), uint32(A.shape[1])
        rows = uint32(M - row) if row < M else uint32(0)  # how many of the thread's rows exist, if fewer than TM
        columns = uint32(N - col) if col < N else uint32(0)

        for i in range(TM):
            for j in range(TN):
                acc[i, j] = float32(0)

        k = uint32(0)
        while k < K:
            for i in range(TM):
                a[i] = A[row + i, k] if i < rows else float32(0)
            for j in range(TN):
                b[j] = B[k, col + j] if j < columns else float32(0)
            for i in range(TM):
                for j in range(TN):
                    acc[i, j] += a[i] * b[j]
            k = uint32(k + uint32(1))

        for i in range(TM):
            for j in range(TN):
                if i < rows and j < columns:
                    C[row + i, col + j] = acc[i, j]

    return sgemm_thread_tile


steps = plain_steps(make_kernel, TRAITS, lambda tile: (tile.bn // tile.tn, tile.bm // tile.tm))
