"""Rung 5 with only B asynchronous: A takes the way through registers, and is transposed on it.

cp.async copies 16 bytes as they lie, so rung 5 leaves A as As[m][k]. Here A is copied as in `register_prefetch`: loaded
before the arithmetic of a turn, stored after it as As[k][m], into the stage that the ring refills in that turn, and
read S − 1 turns later. B stays with cp.async.

What it brings depends on how fragments of A are read: eight scalar reads for each k become two of 16 bytes, by the
letter; but the compiler reads four k at once from As[m][k], so rung 5 has as many, and as many wavefronts. What it
costs: 4 registers per thread on the way, and a load of 16 bytes and four stores per tile where rung 5 has one
instruction.
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
from numba_gemm.device.vector import load4, store4
from numba_gemm.kernels import v5_cp_async
from numba_gemm.kernels.interface import AMPERE, PLAIN, Traits, plain_steps
from numba_gemm.kernels.v5_cp_async import DEFAULT_TILE, check
from numba_gemm.tile import Tile

__all__ = ["DEFAULT_TILE", "SIGNATURE", "SMALL_TILE", "STRUCTURE", "TRAITS", "check", "make_kernel", "steps"]

SMALL_TILE = Tile(bm=8, bn=8, bk=4, tm=4, tn=4, stages=3)  # for the simulator, where each thread is a Python thread
TRAITS = Traits(min_cc=AMPERE, alignment=16, dynamic_shared=True)
STRUCTURE = replace(v5_cp_async.STRUCTURE, a_in_lines=False, copy_a="vectors", turns_a=True)
SIGNATURE = PLAIN


@cache
def make_kernel(tile: Tile):
    BM, BN, BK = np.uint32(tile.bm), np.uint32(tile.bn), np.uint32(tile.bk)
    TM, TN = np.uint32(tile.tm), np.uint32(tile.tn)
    THREADS_N = np.uint32(tile.bn // tile.tn)
    STAGES = np.uint32(tile.stages)
    AHEAD = np.uint32((tile.stages - 1) * tile.bk)  # how far along K the copies are ahead
    A_RING = (tile.stages, tile.bk, tile.bm)  # new: A transposed, as in rung 4
    B_RING = (tile.stages, tile.bk, tile.bn)
    B_OFFSET = tile.stages * tile.bm * tile.bk
    ACC = (tile.tm, tile.tn)
    A_FRAGMENT, B_FRAGMENT = tile.tm, tile.tn
    VECTOR = np.uint32(4)
    A_ROW, B_ROW = np.uint32(tile.bk // 4), np.uint32(tile.bn // 4)
    a_step, b_step = tile.threads // (tile.bk // 4), tile.threads // (tile.bn // 4)
    A_STEP, B_STEP = np.uint32(a_step), np.uint32(b_step)  # rows that the block copies at once …
    a_copies, b_copies = -(-tile.bm // a_step), -(-tile.bk // b_step)
    A_COPIES, B_COPIES = np.uint32(a_copies), np.uint32(b_copies)  # … this many times
    A_WHOLE, B_WHOLE = tile.bm % a_step == 0, tile.bk % b_step == 0  # else some threads have nothing to copy
    A_STAGED = (a_copies, 4)  # new: what waits in registers
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
    def start_copies(k0, stage, A, B, Bs, row0, col0, a_row, a_col, b_row, b_col, a_staged):
        for copy in range(B_COPIES):
            r = b_row + copy * B_STEP
            if B_WHOLE or r < BK:
                copy16(Bs, (stage, r, b_col), B, (k0 + r, col0 + b_col))
        for copy in range(A_COPIES):
            r = a_row + copy * A_STEP
            if A_WHOLE or r < BM:
                four = load4(A, (row0 + r, k0 + a_col))  # new: into registers …
                for q in range(VECTOR):
                    a_staged[copy, q] = four[q]

    @device_function
    def finish_copies(stage, As, a_row, a_col, a_staged):
        for copy in range(A_COPIES):
            r = a_row + copy * A_STEP
            if A_WHOLE or r < BM:
                for q in range(VECTOR):
                    As[stage, a_col + q, r] = a_staged[copy, q]  # new: … and on, once they have arrived

    @cuda.jit(**launch_bounds(tile.threads, tile.resident_blocks))
    def sgemm_cp_async_b(A, B, C):  # (M, K), (K, N), (M, N)
        memory = cuda.shared.array(0, float32, 16)  # flat
        As = shared_view(memory, A_RING, 0)  # (STAGES, BK, BM)
        Bs = shared_view(memory, B_RING, B_OFFSET)  # (STAGES, BK, BN)
        acc = cuda.local.array(ACC, float32)  # (TM, TN)
        a_staged = cuda.local.array(A_STAGED, float32)  # (A_COPIES, 4)
        thread = uint32(cuda.threadIdx.x)
        m = thread // THREADS_N * TM
        n = thread % THREADS_N * TN
        row0 = uint32(cuda.blockIdx.y) * BM
        col0 = uint32(cuda.blockIdx.x) * BN
        a_row, a_col = thread // A_ROW, thread % A_ROW * VECTOR
        b_row, b_col = thread // B_ROW, thread % B_ROW * VECTOR

        K = uint32(A.shape[1])
        for t in range(STAGES - uint32(1)):
            if t * BK < K:
                start_copies(t * BK, t, A, B, Bs, row0, col0, a_row, a_col, b_row, b_col, a_staged)
                finish_copies(t, As, a_row, a_col, a_staged)
            commit()

        for i in range(TM):
            for j in range(TN):
                acc[i, j] = float32(0)

        ready, free = uint32(0), STAGES - uint32(1)
        for k_ahead in range(AHEAD, K + AHEAD, BK):
            wait()  # my copies of this tile have arrived …
            cuda.syncthreads()  # … and everybody's; and everyone has read the tile before

            if k_ahead < K:
                start_copies(k_ahead, free, A, B, Bs, row0, col0, a_row, a_col, b_row, b_col, a_staged)
            commit()  # even if empty: the wait counts groups

            tile_product(As, Bs, ready, m, n, acc)
            if k_ahead < K:
                finish_copies(free, As, a_row, a_col, a_staged)  # new: read S − 1 turns and barriers later
            free = ready  # what has just been read is refilled next
            ready = ready + uint32(1) if ready < STAGES - uint32(1) else uint32(0)

        for i in range(TM):
            for j in range(uint32(0), TN, VECTOR):
                four = (acc[i, j], acc[i, j + uint32(1)], acc[i, j + uint32(2)], acc[i, j + uint32(3)])
                store4(C, (row0 + m + i, col0 + n + j), *four)

    return sgemm_cp_async_b


steps = plain_steps(make_kernel, TRAITS)
