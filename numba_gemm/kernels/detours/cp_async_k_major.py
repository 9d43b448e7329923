"""Rung 5 with A given K-major: who calls has transposed it, once, so that both operands are copied as they lie.

    At[k, m], B[k, n]  →  As[k][m], Bs[k][n]      by cp.async, 16 bytes at a time, both the same way

A fragment of A is then 8 neighbouring floats of one row, as in rung 4, and the copy has neither registers in between
nor stores. For weights that are used many times, the transposition is paid once.

`sgemm(a, b, version="cp_async_k_major")` takes a (M, K) that lies column-major, such as `at.T` for a row-major `at` of
(K, M); any other is brought into that form by a copy in each call. `numba_gemm.padded(a, "a", version=…)` makes
it once.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
from numba import cuda, float32, uint32

from numba_gemm.compiler.target import device_function, launch_bounds
from numba_gemm.compiler.unroll import unroll
from numba_gemm.device.async_copy import intrinsic
from numba_gemm.device.shared_memory import shared_view
from numba_gemm.device.vector import store4
from numba_gemm.kernels import v5_cp_async
from numba_gemm.kernels.interface import AMPERE, PLAIN, Traits, plain_steps
from numba_gemm.kernels.v5_cp_async import DEFAULT_TILE
from numba_gemm.tile import Tile

__all__ = ["DEFAULT_TILE", "SIGNATURE", "SMALL_TILE", "STRUCTURE", "TRAITS", "check", "make_kernel", "steps"]

SMALL_TILE = Tile(bm=8, bn=8, bk=4, tm=4, tn=4, stages=3)  # for the simulator, where each thread is a Python thread
TRAITS = Traits(min_cc=AMPERE, alignment=16, dynamic_shared=True, a_k_major=True)
STRUCTURE = replace(v5_cp_async.STRUCTURE, a_in_lines=False)
SIGNATURE = PLAIN


def check(tile: Tile) -> None:
    """The constraints of rung 5, with copies of A along m; else ValueError."""
    v5_cp_async.check(tile)
    tile.require_k_major_copies()


@cache
def make_kernel(tile: Tile):
    BM, BN, BK = np.uint32(tile.bm), np.uint32(tile.bn), np.uint32(tile.bk)
    TM, TN = np.uint32(tile.tm), np.uint32(tile.tn)
    THREADS_N = np.uint32(tile.bn // tile.tn)
    STAGES = np.uint32(tile.stages)
    AHEAD = np.uint32((tile.stages - 1) * tile.bk)  # how far along K the copies are ahead
    A_RING = (tile.stages, tile.bk, tile.bm)  # new: K-major, like B
    B_RING = (tile.stages, tile.bk, tile.bn)
    B_OFFSET = tile.stages * tile.bm * tile.bk
    ACC = (tile.tm, tile.tn)
    A_FRAGMENT, B_FRAGMENT = tile.tm, tile.tn
    VECTOR = np.uint32(4)
    A_ROW, B_ROW = np.uint32(tile.bm // 4), np.uint32(tile.bn // 4)
    a_step, b_step = tile.threads // (tile.bm // 4), tile.threads // (tile.bn // 4)
    A_STEP, B_STEP = np.uint32(a_step), np.uint32(b_step)  # rows that the block copies at once …
    A_COPIES, B_COPIES = np.uint32(-(-tile.bk // a_step)), np.uint32(-(-tile.bk // b_step))  # … this many times
    A_WHOLE, B_WHOLE = tile.bk % a_step == 0, tile.bk % b_step == 0  # else some threads have nothing to copy
    copy16, commit, wait = intrinsic(pending=tile.stages - 2)

    @device_function
    def outer_product(k, As, Bs, stage, m, n, acc):
        a = cuda.local.array(A_FRAGMENT, float32)  # (TM,)
        b = cuda.local.array(B_FRAGMENT, float32)  # (TN,)
        for i in range(TM):
            a[i] = As[stage, k, m + i]
        for j in range(TN):
            b[j] = Bs[stage, k, n + j]
        for i in range(TM):
            for j in range(TN):
                acc[i, j] += a[i] * b[j]

    tile_product = unroll(outer_product, tile.bk)

    @device_function
    def start_copies(k0, stage, At, B, As, Bs, row0, col0, a_row, a_col, b_row, b_col):
        for copy in range(A_COPIES):
            r = a_row + copy * A_STEP
            if A_WHOLE or r < BK:
                copy16(As, (stage, r, a_col), At, (k0 + r, row0 + a_col))
        for copy in range(B_COPIES):
            r = b_row + copy * B_STEP
            if B_WHOLE or r < BK:
                copy16(Bs, (stage, r, b_col), B, (k0 + r, col0 + b_col))

    @cuda.jit(**launch_bounds(tile.threads, tile.resident_blocks))
    # new: A is given as its transpose At.
    def sgemm_cp_async_k_major(At, B, C):  # (K, M), (K, N), (M, N)
        memory = cuda.shared.array(0, float32, 16)  # flat
        As = shared_view(memory, A_RING, 0)  # (STAGES, BK, BM)
        Bs = shared_view(memory, B_RING, B_OFFSET)  # (STAGES, BK, BN)
        acc = cuda.local.array(ACC, float32)  # (TM, TN)
        thread = uint32(cuda.threadIdx.x)
        m = thread // THREADS_N * TM
        n = thread % THREADS_N * TN
        row0 = uint32(cuda.blockIdx.y) * BM
        col0 = uint32(cuda.blockIdx.x) * BN
        a_row, a_col = thread // A_ROW, thread % A_ROW * VECTOR
        b_row, b_col = thread // B_ROW, thread % B_ROW * VECTOR

        K = uint32(At.shape[0])
        for t in range(STAGES - uint32(1)):
            if t * BK < K:
                start_copies(t * BK, t, At, B, As, Bs, row0, col0, a_row, a_col, b_row, b_col)
            commit()

        for i in range(TM):
            for j in range(TN):
                acc[i, j] = float32(0)

        ready, free = uint32(0), STAGES - uint32(1)
        for k_ahead in range(AHEAD, K + AHEAD, BK):
            wait()  # my copies of this tile have arrived …
            cuda.syncthreads()  # … and everybody's; and everyone has read the tile before

            if k_ahead < K:
                start_copies(k_ahead, free, At, B, As, Bs, row0, col0, a_row, a_col, b_row, b_col)
            commit()  # even if empty: the wait counts groups

            tile_product(As, Bs, ready, m, n, acc)
            free = ready  # what has just been read is refilled next
            ready = ready + uint32(1) if ready < STAGES - uint32(1) else uint32(0)

        for i in range(TM):
            for j in range(uint32(0), TN, VECTOR):
                four = (acc[i, j], acc[i, j + uint32(1)], acc[i, j + uint32(2)], acc[i, j + uint32(3)])
                store4(C, (row0 + m + i, col0 + n + j), *four)

    return sgemm_cp_async_k_major


steps = plain_steps(make_kernel, TRAITS)
