"""Rung 4 with double buffering as it was before cp.async: the next tile waits in registers.

    turn t:  load tile t+1 → registers │ compute tile t from buffer t mod 2 │ registers → other buffer │ barrier

The loads set off before the arithmetic and are needed after it, so a turn of 512 FFMA per thread hides their latency.
There are two buffers, so nobody overwrites what others still read, and one barrier per tile does where rung 4 has two.
The order has to be enforced: left alone, the compiler moves the loads down to the stores, behind all of the arithmetic,
and the kernel is right, but nothing is hidden. A barrier of the warp after the loads, one instruction, keeps them.

What it costs: 8 registers per thread for the floats on their way, where rung 4 fills 128 nearly by itself, and twice
the shared memory, 16 KB. The data still pass registers, and the stores that cp.async does without stay: 5 per tile.
Works on every GPU.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
from numba import cuda, float32, uint32

from numba_gemm.compiler.target import device_function, launch_bounds
from numba_gemm.compiler.unroll import unroll
from numba_gemm.device.order import keep_order
from numba_gemm.device.vector import load4, store4
from numba_gemm.kernels import v4_vectorized
from numba_gemm.kernels.interface import PLAIN, Traits, plain_steps
from numba_gemm.tile import Tile

DEFAULT_TILE = Tile(bm=128, bn=128, bk=8, tm=8, tn=8, stages=2)
SMALL_TILE = Tile(bm=8, bn=8, bk=4, tm=4, tn=4, stages=2)  # for the simulator, where each thread is a Python thread
TRAITS = Traits(alignment=16)
STRUCTURE = replace(v4_vectorized.STRUCTURE, prefetch=True)
SIGNATURE = PLAIN


def check(tile: Tile) -> None:
    """The constraints of rung 4, with two buffers in static shared memory; else ValueError."""
    tile.require_vector_copies()
    tile.require_stages(2, 2)
    tile.require_static_shared()


@cache
def make_kernel(tile: Tile):
    BM, BN, BK = np.uint32(tile.bm), np.uint32(tile.bn), np.uint32(tile.bk)
    TM, TN = np.uint32(tile.tm), np.uint32(tile.tn)
    THREADS_N = np.uint32(tile.bn // tile.tn)
    A_TILES = (tile.stages, tile.bk, tile.bm)  # new: two buffers
    B_TILES = (tile.stages, tile.bk, tile.bn)
    ACC = (tile.tm, tile.tn)
    A_FRAGMENT, B_FRAGMENT = tile.tm, tile.tn
    VECTOR = np.uint32(4)
    A_ROW, B_ROW = np.uint32(tile.bk // 4), np.uint32(tile.bn // 4)
    a_step, b_step = tile.threads // (tile.bk // 4), tile.threads // (tile.bn // 4)
    A_STEP, B_STEP = np.uint32(a_step), np.uint32(b_step)  # rows that the block copies at once …
    a_copies, b_copies = -(-tile.bm // a_step), -(-tile.bk // b_step)
    A_COPIES, B_COPIES = np.uint32(a_copies), np.uint32(b_copies)  # … this many times
    A_WHOLE, B_WHOLE = tile.bm % a_step == 0, tile.bk % b_step == 0  # else some threads have nothing to copy
    A_STAGED, B_STAGED = (a_copies, 4), (b_copies, 4)  # new: what waits in registers
    ZERO, ONE = np.uint32(0), np.uint32(1)

    @device_function
    def outer_product(k, As, Bs, buffer, m, n, acc):
        a = cuda.local.array(A_FRAGMENT, float32)  # (TM,)
        b = cuda.local.array(B_FRAGMENT, float32)  # (TN,)
        for i in range(TM):
            a[i] = As[buffer, k, m + i]
        for j in range(TN):
            b[j] = Bs[buffer, k, n + j]
        for i in range(TM):
            for j in range(TN):
                acc[i, j] += a[i] * b[j]

    tile_product = unroll(outer_product, tile.bk)

    @device_function
    def load_tile(k0, A, B, row0, col0, a_row, a_col, b_row, b_col, a_staged, b_staged):  # new: global → registers
        for copy in range(A_COPIES):
            r = a_row + copy * A_STEP
            if A_WHOLE or r < BM:
                four = load4(A, (row0 + r, k0 + a_col))
                for q in range(VECTOR):
                    a_staged[copy, q] = four[q]
        for copy in range(B_COPIES):
            r = b_row + copy * B_STEP
            if B_WHOLE or r < BK:
                four = load4(B, (k0 + r, col0 + b_col))
                for q in range(VECTOR):
                    b_staged[copy, q] = four[q]

    @device_function
    def store_tile(buffer, As, Bs, a_row, a_col, b_row, b_col, a_staged, b_staged):  # new: registers → shared
        for copy in range(A_COPIES):
            r = a_row + copy * A_STEP
            if A_WHOLE or r < BM:
                for q in range(VECTOR):
                    As[buffer, a_col + q, r] = a_staged[copy, q]
        for copy in range(B_COPIES):
            r = b_row + copy * B_STEP
            if B_WHOLE or r < BK:
                for q in range(VECTOR):
                    Bs[buffer, r, b_col + q] = b_staged[copy, q]

    @cuda.jit(**launch_bounds(tile.threads, tile.resident_blocks))
    def sgemm_register_prefetch(A, B, C):  # (M, K), (K, N), (M, N)
        As = cuda.shared.array(A_TILES, float32, 16)  # (2, BK, BM)
        Bs = cuda.shared.array(B_TILES, float32, 16)  # (2, BK, BN)
        acc = cuda.local.array(ACC, float32)  # (TM, TN)
        a_staged = cuda.local.array(A_STAGED, float32)  # (A_COPIES, 4)
        b_staged = cuda.local.array(B_STAGED, float32)  # (B_COPIES, 4)
        thread = uint32(cuda.threadIdx.x)
        m = thread // THREADS_N * TM
        n = thread % THREADS_N * TN
        row0 = uint32(cuda.blockIdx.y) * BM
        col0 = uint32(cuda.blockIdx.x) * BN
        a_row, a_col = thread // A_ROW, thread % A_ROW * VECTOR
        b_row, b_col = thread // B_ROW, thread % B_ROW * VECTOR

        for i in range(TM):
            for j in range(TN):
                acc[i, j] = float32(0)

        K = uint32(A.shape[1])
        if K > ZERO:  # new: the first tile has nothing to hide behind
            load_tile(ZERO, A, B, row0, col0, a_row, a_col, b_row, b_col, a_staged, b_staged)
            store_tile(ZERO, As, Bs, a_row, a_col, b_row, b_col, a_staged, b_staged)
        cuda.syncthreads()

        k_ahead, buffer = BK, ZERO
        while k_ahead < K + BK:
            if k_ahead < K:
                load_tile(k_ahead, A, B, row0, col0, a_row, a_col, b_row, b_col, a_staged, b_staged)
            keep_order()  # new: else the compiler moves the loads down to the stores
            tile_product(As, Bs, buffer, m, n, acc)  # while the loads are under way
            buffer = buffer ^ ONE
            if k_ahead < K:
                store_tile(buffer, As, Bs, a_row, a_col, b_row, b_col, a_staged, b_staged)
            cuda.syncthreads()  # this tile has been read by everyone, and the next one is complete
            k_ahead = uint32(k_ahead + BK)

        for i in range(TM):
            for j in range(uint32(0), TN, VECTOR):
                four = (acc[i, j], acc[i, j + uint32(1)], acc[i, j + uint32(2)], acc[i, j + uint32(3)])
                store4(C, (row0 + m + i, col0 + n + j), *four)

    return sgemm_register_prefetch


steps = plain_steps(make_kernel, TRAITS)
