"""Rung 4, 16-byte accesses: the same work in a quarter of the memory instructions.

    global A, row-major            As[k, m], transposed
    r: a b c d   one LDG.128  →    k0: a        four scalar stores
                                   k1:  b       scatter the four
                                   k2:   c      along k …
                                   k3:    d     … and 8 neighbouring m of one k
                                                are two LDS.128

Cost: bytes, intensity and shared traffic are those of rung 3. What falls is instructions: global reads
and the writes of Bs and C by 4; and each thread's fragment of A is contiguous, two 16-byte
reads per step. The transposed store of A pays with a 2-way bank conflict (4 stores against 512 FFMA).
Still left: the loads of the next tile do not start before this one is finished.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import cuda, float32, uint32

from numba_gemm.compiler.target import device_function, launch_bounds
from numba_gemm.compiler.unroll import unroll
from numba_gemm.device.vector import load4, store4
from numba_gemm.kernels.interface import PLAIN, Structure, Traits, plain_steps
from numba_gemm.tile import Tile

DEFAULT_TILE = Tile(bm=128, bn=128, bk=8, tm=8, tn=8)
SMALL_TILE = Tile(bm=16, bn=16, bk=4, tm=4, tn=4)  # for the simulator, where each thread is a Python thread
TRAITS = Traits(alignment=16)
STRUCTURE = Structure(a_in_lines=False, copy_a="vectors", copy_b="vectors", turns_a=True, prefetch=False)
SIGNATURE = PLAIN


def check(tile: Tile) -> None:
    """Rows of whole fours wherever 16 bytes are read or written, static shared memory; else ValueError."""
    tile.require_vector_copies()
    tile.require_stages(1, 1)
    tile.require_static_shared()


@cache
def make_kernel(tile: Tile):
    BM, BN, BK = np.uint32(tile.bm), np.uint32(tile.bn), np.uint32(tile.bk)
    TM, TN = np.uint32(tile.tm), np.uint32(tile.tn)
    THREADS_N = np.uint32(tile.bn // tile.tn)
    A_TILE = (tile.bk, tile.bm)  # new: transposed
    B_TILE = (tile.bk, tile.bn)
    ACC = (tile.tm, tile.tn)
    A_FRAGMENT, B_FRAGMENT = tile.tm, tile.tn
    VECTOR = np.uint32(4)  # new: floats in an access of 16 bytes
    A_ROW, B_ROW = np.uint32(tile.bk // 4), np.uint32(tile.bn // 4)  # new: accesses that a row of the tile takes
    a_step, b_step = tile.threads // (tile.bk // 4), tile.threads // (tile.bn // 4)
    A_STEP, B_STEP = np.uint32(a_step), np.uint32(b_step)  # rows that the block copies at once …
    A_COPIES, B_COPIES = np.uint32(-(-tile.bm // a_step)), np.uint32(-(-tile.bk // b_step))  # … this many times
    A_WHOLE, B_WHOLE = tile.bm % a_step == 0, tile.bk % b_step == 0  # new: else some threads have nothing to copy

    @device_function
    def outer_product(k, As, Bs, m, n, acc):
        a = cuda.local.array(A_FRAGMENT, float32)  # (TM,)
        b = cuda.local.array(B_FRAGMENT, float32)  # (TN,)
        for i in range(TM):
            a[i] = As[k, m + i]  # new: contiguous, merged into 16-byte reads
        for j in range(TN):
            b[j] = Bs[k, n + j]
        for i in range(TM):
            for j in range(TN):
                acc[i, j] += a[i] * b[j]

    tile_product = unroll(outer_product, tile.bk)

    @cuda.jit(**launch_bounds(tile.threads, tile.resident_blocks))
    def sgemm_v4(A, B, C):  # (M, K), (K, N), (M, N)
        As = cuda.shared.array(A_TILE, float32, 16)  # (BK, BM)
        Bs = cuda.shared.array(B_TILE, float32, 16)  # (BK, BN)
        acc = cuda.local.array(ACC, float32)  # (TM, TN)
        thread = uint32(cuda.threadIdx.x)
        m = thread // THREADS_N * TM
        n = thread % THREADS_N * TN
        row0 = uint32(cuda.blockIdx.y) * BM
        col0 = uint32(cuda.blockIdx.x) * BN
        a_row, a_col = thread // A_ROW, thread % A_ROW * VECTOR  # new: the four floats that it copies first
        b_row, b_col = thread // B_ROW, thread % B_ROW * VECTOR

        for i in range(TM):
            for j in range(TN):
                acc[i, j] = float32(0)

        K = uint32(A.shape[1])
        k0 = uint32(0)
        while k0 < K:
            for copy in range(A_COPIES):
                r = a_row + copy * A_STEP
                if A_WHOLE or r < BM:
                    four = load4(A, (row0 + r, k0 + a_col))  # new: 16 bytes per load
                    for q in range(VECTOR):
                        As[a_col + q, r] = four[q]  # new: transposed
            for copy in range(B_COPIES):
                r = b_row + copy * B_STEP
                if B_WHOLE or r < BK:
                    four = load4(B, (k0 + r, col0 + b_col))
                    for q in range(VECTOR):
                        Bs[r, b_col + q] = four[q]
            cuda.syncthreads()  # the tiles are complete before anyone reads them

            tile_product(As, Bs, m, n, acc)
            cuda.syncthreads()  # everyone has read them before anyone overwrites them
            k0 = uint32(k0 + BK)

        for i in range(TM):
            for j in range(uint32(0), TN, VECTOR):  # new: 16 bytes per store
                four = (acc[i, j], acc[i, j + uint32(1)], acc[i, j + uint32(2)], acc[i, j + uint32(3)])
                store4(C, (row0 + m + i, col0 + n + j), *four)

    return sgemm_v4


steps = plain_steps(make_kernel, TRAITS)
