"""Rung 5, a pipeline: hardware copies the next tiles into shared memory while this one is computed.

    stage 0 │ copy 0 ───┤ compute 0 │ copy 3 ───┤ compute 3 │      a ring of S = 3 stages:
    stage 1 │   copy 1 ─────┤       │ compute 1 │ copy 4 ───┤      one is computed while
    stage 2 │     copy 2 ───────┤   │           │ compute 2 │      S − 1 are under way

cp.async moves 16 bytes from global to shared memory without passing a register, and the thread goes on.
Each turn t waits until at most S − 2 groups are unfinished, so that tile t has arrived; passes one
barrier, after which everybody's copies are visible and nobody still reads stage (t−1) mod S; refills
exactly that stage with tile t+S−1; and computes tile t. A turn commits a group even when nothing is
left to copy: the wait counts groups, and a missing one would let it return too early.

Cost: one barrier per tile instead of two; no staging registers; S·(BM+BN)·BK·4 = 24 KB of shared memory.
cp.async copies 16 bytes as they lie, so A stays As[m, k], and a fragment of it is a column, eight
separate rows. The compiler reads four k of a row at once, so that the reads are as few and as wide as in rung 4;
what is left is that the rows of two threads of a warp lie in the same banks.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import cuda, float32, uint32

from numba_gemm.compiler.target import device_function, launch_bounds
from numba_gemm.compiler.unroll import unroll
from numba_gemm.device.async_copy import MAX_PENDING, AsyncCopy, foreign
from numba_gemm.device.shared_memory import shared_view
from numba_gemm.device.vector import store4
from numba_gemm.kernels.interface import AMPERE, PLAIN, Structure, Traits, plain_steps
from numba_gemm.tile import Tile

DEFAULT_TILE = Tile(bm=128, bn=128, bk=8, tm=8, tn=8, stages=3)
SMALL_TILE = Tile(bm=16, bn=16, bk=4, tm=4, tn=4, stages=3)  # for the simulator, where each thread is a Python thread
TRAITS = Traits(min_cc=AMPERE, alignment=16, dynamic_shared=True, foreign_files=("cp_async.cu",))
STRUCTURE = Structure(a_in_lines=True, copy_a="async", copy_b="async", turns_a=False, prefetch=True)
SIGNATURE = PLAIN


def check(tile: Tile) -> None:
    """Rows of whole fours wherever 16 bytes move, and no more stages than ptx/ has waits for; else ValueError."""
    tile.require_vector_copies()
    tile.require_stages(2, MAX_PENDING + 2)


@cache
def make_kernel(tile: Tile):
    return make_pipelined_kernel(tile, foreign("cp_async.cu", pending=tile.stages - 2))


def make_pipelined_kernel(tile: Tile, async_copy: AsyncCopy) -> Any:
    """The kernel over one of the three ways to cp.async, see `device.async_copy`."""
    BM, BN, BK = np.uint32(tile.bm), np.uint32(tile.bn), np.uint32(tile.bk)
    TM, TN = np.uint32(tile.tm), np.uint32(tile.tn)
    THREADS_N = np.uint32(tile.bn // tile.tn)
    STAGES = np.uint32(tile.stages)  # new: tiles in shared memory at a time
    AHEAD = np.uint32((tile.stages - 1) * tile.bk)  # new: how far along K the copies are ahead
    A_RING = (tile.stages, tile.bm, tile.bk)  # new: a tile per stage, and A as it lies in memory
    B_RING = (tile.stages, tile.bk, tile.bn)
    B_OFFSET = tile.stages * tile.bm * tile.bk
    ACC = (tile.tm, tile.tn)
    A_FRAGMENT, B_FRAGMENT = tile.tm, tile.tn
    VECTOR = np.uint32(4)
    A_ROW, B_ROW = np.uint32(tile.bk // 4), np.uint32(tile.bn // 4)
    a_step, b_step = tile.threads // (tile.bk // 4), tile.threads // (tile.bn // 4)
    A_STEP, B_STEP = np.uint32(a_step), np.uint32(b_step)  # rows that the block copies at once …
    A_COPIES, B_COPIES = np.uint32(-(-tile.bm // a_step)), np.uint32(-(-tile.bk // b_step))  # … this many times
    A_WHOLE, B_WHOLE = tile.bm % a_step == 0, tile.bk % b_step == 0  # else some threads have nothing to copy
    copy16, commit, wait = async_copy  # new: cp.async

    @device_function
    def outer_product(k, As, Bs, stage, m, n, acc):
        a = cuda.local.array(A_FRAGMENT, float32)  # (TM,)
        b = cuda.local.array(B_FRAGMENT, float32)  # (TN,)
        for i in range(TM):
            a[i] = As[stage, m + i, k]  # new: of one stage
        for j in range(TN):
            b[j] = Bs[stage, k, n + j]
        for i in range(TM):
            for j in range(TN):
                acc[i, j] += a[i] * b[j]

    tile_product = unroll(outer_product, tile.bk)

    @device_function
    def start_copies(k0, stage, A, B, As, Bs, row0, col0, a_row, a_col, b_row, b_col):  # new: a tile sets off
        for copy in range(A_COPIES):
            r = a_row + copy * A_STEP
            if A_WHOLE or r < BM:
                copy16(As, (stage, r, a_col), A, (row0 + r, k0 + a_col))
        for copy in range(B_COPIES):
            r = b_row + copy * B_STEP
            if B_WHOLE or r < BK:
                copy16(Bs, (stage, r, b_col), B, (k0 + r, col0 + b_col))

    @cuda.jit(**launch_bounds(tile.threads, tile.resident_blocks))
    def sgemm_v5(A, B, C):  # (M, K), (K, N), (M, N)
        # new: dynamic, as large as the launch says, so that it may pass 48 KB
        memory = cuda.shared.array(0, float32, 16)  # flat
        As = shared_view(memory, A_RING, 0)  # (STAGES, BM, BK)
        Bs = shared_view(memory, B_RING, B_OFFSET)  # (STAGES, BK, BN)
        acc = cuda.local.array(ACC, float32)  # (TM, TN)
        thread = uint32(cuda.threadIdx.x)
        m = thread // THREADS_N * TM
        n = thread % THREADS_N * TN
        row0 = uint32(cuda.blockIdx.y) * BM
        col0 = uint32(cuda.blockIdx.x) * BN
        a_row, a_col = thread // A_ROW, thread % A_ROW * VECTOR
        b_row, b_col = thread // B_ROW, thread % B_ROW * VECTOR

        K = uint32(A.shape[1])
        for t in range(STAGES - uint32(1)):  # new: prologue, S − 1 tiles under way
            if t * BK < K:
                start_copies(t * BK, t, A, B, As, Bs, row0, col0, a_row, a_col, b_row, b_col)
            commit()

        for i in range(TM):
            for j in range(TN):
                acc[i, j] = float32(0)

        ready, free = uint32(0), STAGES - uint32(1)  # new: the stage to compute, and the one to refill
        # `range` here, `while` in other rungs: with that, the compiler finds the 128 registers too few and loads two
        # values from local memory in each turn of the main loop (sm_90).
        for k_ahead in range(AHEAD, K + AHEAD, BK):  # new: K runs S − 1 tiles ahead of what is computed
            wait()  # new: my copies of this tile have arrived …
            cuda.syncthreads()  # … and everybody's; and everyone has read the tile before

            if k_ahead < K:
                start_copies(k_ahead, free, A, B, As, Bs, row0, col0, a_row, a_col, b_row, b_col)
            commit()  # new: even if empty: the wait counts groups

            tile_product(As, Bs, ready, m, n, acc)
            free = ready  # new: what has just been read is refilled next
            ready = ready + uint32(1) if ready < STAGES - uint32(1) else uint32(0)

        for i in range(TM):
            for j in range(uint32(0), TN, VECTOR):
                four = (acc[i, j], acc[i, j + uint32(1)], acc[i, j + uint32(2)], acc[i, j + uint32(3)])
                store4(C, (row0 + m + i, col0 + n + j), *four)

    return sgemm_v5


steps = plain_steps(make_kernel, TRAITS)
