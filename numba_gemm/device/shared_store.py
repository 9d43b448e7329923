"""The outputs of a block to C by way of shared memory: what a warp stores at once is then whole lines of 128 bytes.

A thread's outputs are TN neighbours in each of its TM rows. Stored from the registers, 16 bytes per thread, the threads
of a warp reach every TN-th float of a row at a time: with TN = 8, half of each 32-byte sector. Here the block puts row
i of every thread into shared memory, a band of BM / TM rows of C, and reads it back in the order of C; then the next
i. It costs two barriers per row of a thread, and each output passes shared memory once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda, float32

from numba_gemm.compiler.target import device_function
from numba_gemm.compiler.unroll import unroll
from numba_gemm.device.shared_memory import shared_view
from numba_gemm.tile import Tile


def band_floats(tile: Tile) -> int:
    """Floats of shared memory that `make_shared_store` takes: one row of each thread."""
    return tile.bm // tile.tm * tile.bn


def make_shared_store(tile: Tile, store: Any) -> Any:
    """Device function (memory, C, row0, col0, M, N, acc, thread, bias, alpha, beta) that stores a block's outputs.

    `store` is the function of `tile_store` that it hands four outputs at a time. All threads have to call it.
    """
    TM, TN, BN = np.uint32(tile.tm), np.uint32(tile.tn), np.uint32(tile.bn)
    THREADS_N = np.uint32(tile.bn // tile.tn)
    BAND = (tile.bm // tile.tm, tile.bn)
    FOURS, THREADS = np.uint32(band_floats(tile) // 4), np.uint32(tile.threads)
    VECTOR, ZERO = np.uint32(4), np.uint32(0)

    @device_function
    def store_band(i, memory, C, row0, col0, M, N, acc, thread, bias, alpha, beta):
        band = shared_view(memory, BAND, 0)  # (BM / TM, BN)
        four = cuda.local.array((1, 4), float32)  # (1, 4)
        cuda.syncthreads()  # nobody reads any more what the band replaces
        for j in range(TN):
            band[thread // THREADS_N, thread % THREADS_N * TN + j] = acc[i, j]
        cuda.syncthreads()
        for at in range(thread, FOURS, THREADS):
            row, column = at * VECTOR // BN, at * VECTOR % BN
            for q in range(VECTOR):
                four[ZERO, q] = band[row, column + q]
            store(C, row0 + row * TM + i, col0 + column, M, N, four, ZERO, ZERO, bias, alpha, beta)

    return unroll(store_band, tile.tm)
