"""Rung 1 with the threads turned: neighbours in a warp take neighbouring rows of C, not columns.

    C[row, col] = Σₖ A[row, k] · B[k, col]          block: 32 rows × 8 columns

               ┌ a warp is 32 neighbouring rows of one column ┐
    A[row, k]  │ 32 floats, each in a row of its own          │  32 sectors of 32 bytes, 4 bytes used of each
    B[k, col]  │ the same float for all 32 threads            │  one broadcast load

The arithmetic, the instructions and the bytes that the formula asks for are those of rung 1; only who computes what
differs, and with it what the hardware has to move: 33 sectors per step instead of 1 + 4, and 32 sectors instead
of 4 for the store of C. Coalescing is a property of the map from threads to data, and nothing else shows it as plainly.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import cuda, float32, uint32

from numba_gemm.kernels.interface import PLAIN, Structure, Traits, plain_steps
from numba_gemm.kernels.v1_naive import check
from numba_gemm.tile import Tile

__all__ = ["DEFAULT_TILE", "SIGNATURE", "SMALL_TILE", "STRUCTURE", "TRAITS", "check", "make_kernel", "steps"]

DEFAULT_TILE = Tile(bm=32, bn=8, bk=1)
SMALL_TILE = Tile(bm=4, bn=4, bk=1)  # for the simulator, where each thread is a Python thread
TRAITS = Traits(capabilities=frozenset({"edges"}))
STRUCTURE = Structure(
    lanes="rows", shared=False, a_in_lines=False, copy_a="vectors", copy_b="vectors", turns_a=True, prefetch=False
)
SIGNATURE = PLAIN


@cache
def make_kernel(tile: Tile):
    BM, BN = np.uint32(tile.bm), np.uint32(tile.bn)

    @cuda.jit
    def sgemm_naive_rows(A, B, C):  # (M, K), (K, N), (M, N)
        row = uint32(cuda.blockIdx.y) * BM + uint32(cuda.threadIdx.x)  # new: x counts rows …
        col = uint32(cuda.blockIdx.x) * BN + uint32(cuda.threadIdx.y)  # new: … and y columns

        K = uint32(A.shape[1])
        # The last blocks reach past the edge of C.
        if row < uint32(C.shape[0]) and col < uint32(C.shape[1]):
            total = float32(0)
            k = uint32(0)
            while k < K:
                total += A[row, k] * B[k, col]
                k += uint32(1)
            C[row, col] = total

    return sgemm_naive_rows


steps = plain_steps(make_kernel, TRAITS, lambda tile: (tile.bm, tile.bn))
