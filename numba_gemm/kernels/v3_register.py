"""Rung 3, register tiles: each thread computes 8×8 outputs, so that a value read serves eight times.

                     b: 8 floats of row k of Bs
                   ┌────────────────┐
                   └────────────────┘
    a: 8 floats  ┌┐┌────────────────┐
    of column k  ││ │ acc += a ⊗ b  │   64 multiply-adds for 16 values read:
    of As        ││ │ in registers  │   an outer product
                 └┘└────────────────┘

Cost: 128×128 outputs per block give I = 128·128 / (2·(128+128)) = 32 FLOP/B of global memory, and
8·8 / (2·(8+8)) = 2 FLOP/B of shared memory, eight times rung 2. The price is registers: 64 accumulators,
16 fragment values and the addresses, within the 128 that two blocks of 256 threads leave each thread.
What is left: elements are still copied one by one, and computing waits for copying.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import cuda, float32, uint32

from numba_gemm.compiler.target import device_function, launch_bounds
from numba_gemm.compiler.unroll import unroll
from numba_gemm.kernels.interface import PLAIN, Structure, Traits, plain_steps
from numba_gemm.tile import Tile

DEFAULT_TILE = Tile(bm=128, bn=128, bk=8, tm=8, tn=8)
SMALL_TILE = Tile(bm=16, bn=16, bk=4, tm=4, tn=4)  # for the simulator, where each thread is a Python thread
TRAITS = Traits()
STRUCTURE = Structure(a_in_lines=True, copy_a="floats", copy_b="floats", turns_a=False, prefetch=False)
SIGNATURE = PLAIN


def check(tile: Tile) -> None:
    """Copies of whole rows, one float per thread at a time, static shared memory; else ValueError."""
    tile.require_scalar_copies()
    tile.require_stages(1, 1)
    tile.require_static_shared()


@cache
def make_kernel(tile: Tile):
    return make_register_kernel(tile, a_stride=tile.bk)


def make_register_kernel(tile: Tile, a_stride: int) -> Any:
    """The kernel whose As[BM][a_stride] has rows of `a_stride` floats: BK, or more than the tile fills."""
    BM, BN, BK = np.uint32(tile.bm), np.uint32(tile.bn), np.uint32(tile.bk)
    TM, TN = np.uint32(tile.tm), np.uint32(tile.tn)  # new: outputs per thread
    THREADS_N = np.uint32(tile.bn // tile.tn)  # new: threads beside each other along N
    A_TILE = (tile.bm, a_stride)
    B_TILE = (tile.bk, tile.bn)
    ACC = (tile.tm, tile.tn)
    A_FRAGMENT, B_FRAGMENT = tile.tm, tile.tn
    # new: a block has fewer threads than a tile has elements, and copies some rows at a time.
    a_step, b_step = tile.threads // tile.bk, tile.threads // tile.bn
    A_STEP, B_STEP = np.uint32(a_step), np.uint32(b_step)  # rows that the block copies at once …
    A_COPIES, B_COPIES = np.uint32(tile.bm // a_step), np.uint32(tile.bk // b_step)  # … this many times

    @device_function
    def outer_product(k, As, Bs, m, n, acc):  # new: one step of k, a function so that `unroll` can write out all BK
        # new: fragments, values that wait in registers
        a = cuda.local.array(A_FRAGMENT, float32)  # (TM,)
        b = cuda.local.array(B_FRAGMENT, float32)  # (TN,)
        for i in range(TM):
            a[i] = As[m + i, k]
        for j in range(TN):
            b[j] = Bs[k, n + j]
        for i in range(TM):
            for j in range(TN):
                acc[i, j] += a[i] * b[j]  # new: each with each

    tile_product = unroll(outer_product, tile.bk)  # new: straight-line code, in which each k is a constant

    @cuda.jit(**launch_bounds(tile.threads, tile.resident_blocks))
    def sgemm_v3(A, B, C):  # (M, K), (K, N), (M, N)
        As = cuda.shared.array(A_TILE, float32, 16)  # (BM, a_stride)
        Bs = cuda.shared.array(B_TILE, float32, 16)  # (BK, BN)
        # new: the thread's outputs, all in registers
        acc = cuda.local.array(ACC, float32)  # (TM, TN)
        thread = uint32(cuda.threadIdx.x)  # new: numbered along one axis, since copying and computing divide them anew
        m = thread // THREADS_N * TM  # new: the corner of its outputs
        n = thread % THREADS_N * TN
        row0 = uint32(cuda.blockIdx.y) * BM
        col0 = uint32(cuda.blockIdx.x) * BN
        a_row, a_col = thread // BK, thread % BK  # new: the element that it copies first
        b_row, b_col = thread // BN, thread % BN

        for i in range(TM):
            for j in range(TN):
                acc[i, j] = float32(0)

        K = uint32(A.shape[1])
        k0 = uint32(0)
        while k0 < K:
            for copy in range(A_COPIES):  # new: several elements per thread
                r = a_row + copy * A_STEP
                As[r, a_col] = A[row0 + r, k0 + a_col]
            for copy in range(B_COPIES):
                r = b_row + copy * B_STEP
                Bs[r, b_col] = B[k0 + r, col0 + b_col]
            cuda.syncthreads()  # the tiles are complete before anyone reads them

            tile_product(As, Bs, m, n, acc)  # new: TM · TN multiply-adds for each k
            cuda.syncthreads()  # everyone has read them before anyone overwrites them
            k0 = uint32(k0 + BK)

        for i in range(TM):
            for j in range(TN):
                C[row0 + m + i, col0 + n + j] = acc[i, j]  # new: all outputs of the thread

    return sgemm_v3


steps = plain_steps(make_kernel, TRAITS)
