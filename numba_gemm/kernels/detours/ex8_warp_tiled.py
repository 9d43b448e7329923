"""ex8 and ex9 of the ladder for the RTX 5080: warp tiles, prefetch into registers, fragments in pairs.

    global ──(tile t+1, over the arithmetic of tile t)──→ registers ──→ shared ──(step k+1, over step k)──→ registers

Two latencies, hidden the same way. The next tile is loaded into 4 + 4 registers before the arithmetic and stored after
it; the fragments of the next k are read while those of this one are used. `ex8` has one buffer in shared memory, so
two barriers per tile: all have read, and all have written. `ex9` has two, so one barrier, and 16 KB instead of 8. It is
one file: `Tile.stages` says which.

A warp computes 64 × 32 outputs, its lanes 8 × 4; a thread's rows are 8 apart and its columns 4, so that lanes
beside each other read lines beside each other. Both tiles lie with k side by side, As[m][k] and Bs[n][k], the
latter transposed by the copy; the compiler reads four k at once. The source says that no conflicts are left. Of this
layout that is not true: a tile takes 256 wavefronts for reads of A and 512 for B, where full ones would be 128
each, and the transposing stores are 4-way. (Threads 16 columns to a warp would take 1024 for B, as in rung 4.)

Reading four k at once also holds four k of both fragments in registers: 154 per thread, where the source counts
8·8 + 8 + 8 = 80. So one block per SM, not three. Two blocks, with 128 registers, spilled 148 bytes.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import cuda, float32, uint32

from numba_gemm.compiler.target import device_function, launch_bounds
from numba_gemm.compiler.unroll import unroll
from numba_gemm.device.order import keep_order
from numba_gemm.device.vector import load4
from numba_gemm.kernels.interface import PLAIN, Structure, Traits, plain_steps
from numba_gemm.tile import WARP, Tile

DEFAULT_TILE = Tile(bm=128, bn=128, bk=8, tm=8, tn=8, stages=1, wm=64, wn=32)
TILE_EX9 = Tile(bm=128, bn=128, bk=8, tm=8, tn=8, stages=2, wm=64, wn=32)
SMALL_TILE = Tile(bm=32, bn=16, bk=8, tm=4, tn=4, stages=1, wm=32, wn=16)  # one warp, for the simulator
TRAITS = Traits(alignment=16)
STRUCTURE = Structure(
    lanes="warp lines",
    a_in_lines=True,
    b_in_lines=True,
    copy_a="vectors",
    copy_b="vectors",
    turns_a=False,
    prefetch=True,
    paired_fragments=True,
)
SIGNATURE = PLAIN
SMALL_TILE_EX9 = Tile(bm=32, bn=16, bk=8, tm=4, tn=4, stages=2, wm=32, wn=16)


def check(tile: Tile) -> None:
    """Warp tiles, as many copies for each thread, one buffer or two in static shared memory; else ValueError."""
    tile.require_warps()
    tile.require_prefetch_copies()
    tile.require_stages(1, 2)
    tile.require_static_shared()


@cache
def make_kernel(tile: Tile):
    BM, BN, BK = np.uint32(tile.bm), np.uint32(tile.bn), np.uint32(tile.bk)
    TM, TN = np.uint32(tile.tm), np.uint32(tile.tn)
    WM, WN = np.uint32(tile.wm), np.uint32(tile.wn)
    LANES, WARPS_N = np.uint32(WARP), np.uint32(tile.bn // tile.wn)
    LANES_M, LANES_N = np.uint32(tile.wm // tile.tm), np.uint32(tile.wn // tile.tn)
    A_TILES = (tile.stages, tile.bm, tile.bk)  # both with the k of a line side by side
    B_TILES = (tile.stages, tile.bn, tile.bk)
    ACC = (tile.tm, tile.tn)
    A_FRAGMENTS, B_FRAGMENTS = (2, tile.tm), (2, tile.tn)  # one in use, one on its way
    VECTOR = np.uint32(4)
    A_ROW = np.uint32(tile.bk // 4)
    a_step, b_step = tile.threads // (tile.bk // 4), tile.threads // tile.bk * 4
    A_STEP, B_STEP = np.uint32(a_step), np.uint32(b_step)  # rows of A, columns of B that the block copies at once …
    A_COPIES, B_COPIES = np.uint32(tile.bm // a_step), np.uint32(tile.bn // b_step)  # … this many times
    A_STAGED, B_STAGED = (tile.bm // a_step, 4), (tile.bn // b_step, 4)
    ONE_BUFFER = tile.stages == 1
    LAST = np.uint32(tile.bk - 1)
    ZERO, ONE, TWO = np.uint32(0), np.uint32(1), np.uint32(2)

    @device_function
    def load_fragments(k, As, Bs, buffer, m, n, a, b):
        for i in range(TM):
            a[k % TWO, i] = As[buffer, m + i * LANES_M, k]
        for j in range(TN):
            b[k % TWO, j] = Bs[buffer, n + j * LANES_N, k]

    @device_function
    def step(k, As, Bs, buffer, m, n, a, b, acc):
        if k < LAST:
            load_fragments(k + ONE, As, Bs, buffer, m, n, a, b)  # shared → registers, for the next step
        for i in range(TM):
            for j in range(TN):
                acc[i, j] += a[k % TWO, i] * b[k % TWO, j]

    steps = unroll(step, tile.bk)

    @device_function
    def load_tile(k0, A, B, row0, col0, a_row, a_col, b_row, b_col, a_staged, b_staged):  # global → registers
        for copy in range(A_COPIES):
            four = load4(A, (row0 + a_row + copy * A_STEP, k0 + a_col))
            for q in range(VECTOR):
                a_staged[copy, q] = four[q]
        for copy in range(B_COPIES):
            four = load4(B, (k0 + b_row, col0 + b_col + copy * B_STEP))
            for q in range(VECTOR):
                b_staged[copy, q] = four[q]

    @device_function
    def store_tile(buffer, As, Bs, a_row, a_col, b_row, b_col, a_staged, b_staged):  # registers → shared
        for copy in range(A_COPIES):
            for q in range(VECTOR):
                As[buffer, a_row + copy * A_STEP, a_col + q] = a_staged[copy, q]
        for copy in range(B_COPIES):
            for q in range(VECTOR):
                Bs[buffer, b_col + copy * B_STEP + q, b_row] = b_staged[copy, q]  # transposed

    # One block per SM: two would leave 128 registers per thread, and this kernel needs more.
    @cuda.jit(**launch_bounds(tile.threads, blocks_per_sm=1))
    def sgemm_ex8(A, B, C):  # (M, K), (K, N), (M, N)
        As = cuda.shared.array(A_TILES, float32, 16)  # (STAGES, BM, BK)
        Bs = cuda.shared.array(B_TILES, float32, 16)  # (STAGES, BN, BK)
        acc = cuda.local.array(ACC, float32)  # (TM, TN)
        a = cuda.local.array(A_FRAGMENTS, float32)  # (2, TM)
        b = cuda.local.array(B_FRAGMENTS, float32)  # (2, TN)
        a_staged = cuda.local.array(A_STAGED, float32)  # (A_COPIES, 4)
        b_staged = cuda.local.array(B_STAGED, float32)  # (B_COPIES, 4)
        thread = uint32(cuda.threadIdx.x)
        warp, lane = thread // LANES, thread % LANES
        m = warp // WARPS_N * WM + lane // LANES_N  # the thread's first row; the next is LANES_M further
        n = warp % WARPS_N * WN + lane % LANES_N
        row0 = uint32(cuda.blockIdx.y) * BM
        col0 = uint32(cuda.blockIdx.x) * BN
        a_row, a_col = thread // A_ROW, thread % A_ROW * VECTOR
        b_row, b_col = thread % BK, thread // BK * VECTOR

        for i in range(TM):
            for j in range(TN):
                acc[i, j] = float32(0)

        K = uint32(A.shape[1])
        if K > ZERO:
            load_tile(ZERO, A, B, row0, col0, a_row, a_col, b_row, b_col, a_staged, b_staged)
            store_tile(ZERO, As, Bs, a_row, a_col, b_row, b_col, a_staged, b_staged)
        cuda.syncthreads()

        k_ahead, buffer = BK, ZERO
        while k_ahead < K + BK:
            if k_ahead < K:
                load_tile(k_ahead, A, B, row0, col0, a_row, a_col, b_row, b_col, a_staged, b_staged)
            keep_order()  # the loads set off before the arithmetic that hides them
            load_fragments(ZERO, As, Bs, buffer, m, n, a, b)
            steps(As, Bs, buffer, m, n, a, b, acc)
            if ONE_BUFFER:
                cuda.syncthreads()  # ex8: everyone has read the tile before anyone overwrites it
            else:
                buffer = buffer ^ ONE  # ex9: the other one is free already
            if k_ahead < K:
                store_tile(buffer, As, Bs, a_row, a_col, b_row, b_col, a_staged, b_staged)
            cuda.syncthreads()  # the next tile is complete before anyone reads it
            k_ahead = uint32(k_ahead + BK)

        for i in range(TM):
            for j in range(TN):
                C[row0 + m + i * LANES_M, col0 + n + j * LANES_N] = acc[i, j]

    return sgemm_ex8


steps = plain_steps(make_kernel, TRAITS)
