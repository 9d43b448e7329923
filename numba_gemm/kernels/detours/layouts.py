"""Rung 4 with the places in shared memory left open: its variants differ in a `Layout`, and in nothing else.

A layout says where the block puts the elements of its tiles, and which columns of C a thread has. With the layout of
rung 4, `Layout` (BK, BM) by (k, m), (BK, BN) by (k, n) and TN neighbouring columns, this is rung 4, instruction by
instruction; a test compares the machine code.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import cuda, float32, uint32

from numba_gemm.compiler.target import device_function, launch_bounds
from numba_gemm.compiler.unroll import unroll
from numba_gemm.device.vector import load4, store4
from numba_gemm.tile import Tile


class Layout(NamedTuple):
    """Shapes of the shared tiles, and index maps as device functions. Numbers are uint32."""

    #: Shape of As, and (k, m) → where A[m, k] of the tile lies in it.
    a_tile: tuple[int, int]
    a_place: Any
    #: Shape of Bs, and (k, n, q) → where B[k, n + q] of the tile lies in it; n is a multiple of 4, q is 0 … 3.
    b_tile: tuple[int, int]
    b_place: Any
    #: (t, j) → column j = 0, 4, 8 … of the t-th thread along N, inside the block; three neighbours follow each.
    column: Any


def rung_4_layout(tile: Tile) -> Layout:
    """A transposed, B as it lies in memory, TN neighbouring columns per thread."""
    TN = np.uint32(tile.tn)

    @device_function
    def a_by_k(k, m):
        return k, m

    @device_function
    def b_by_k(k, n, q):
        return k, n + q

    @device_function
    def neighbours(t, j):
        return t * TN + j

    return Layout((tile.bk, tile.bm), a_by_k, (tile.bk, tile.bn), b_by_k, neighbours)


@device_function
def a_by_row(k, m):
    """A as it lies in memory: the k of a row are neighbours."""
    return m, k


def check(tile: Tile) -> None:
    """The constraints of rung 4, for layouts that take as much shared memory; else ValueError."""
    tile.require_vector_copies()
    tile.require_stages(1, 1)
    tile.require_static_shared()


def make_kernel_with_layout(tile: Tile, layout: Layout) -> Any:
    """The kernel of rung 4, with the places in shared memory and the columns of a thread as `layout` says."""
    BM, BN, BK = np.uint32(tile.bm), np.uint32(tile.bn), np.uint32(tile.bk)
    TM, TN = np.uint32(tile.tm), np.uint32(tile.tn)
    THREADS_N = np.uint32(tile.bn // tile.tn)
    A_TILE, a_place, B_TILE, b_place, column = layout
    ACC = (tile.tm, tile.tn)
    A_FRAGMENT, B_FRAGMENT = tile.tm, tile.tn
    VECTOR = np.uint32(4)
    A_ROW, B_ROW = np.uint32(tile.bk // 4), np.uint32(tile.bn // 4)
    a_step, b_step = tile.threads // (tile.bk // 4), tile.threads // (tile.bn // 4)
    A_STEP, B_STEP = np.uint32(a_step), np.uint32(b_step)  # rows that the block copies at once …
    A_COPIES, B_COPIES = np.uint32(-(-tile.bm // a_step)), np.uint32(-(-tile.bk // b_step))  # … this many times
    A_WHOLE, B_WHOLE = tile.bm % a_step == 0, tile.bk % b_step == 0  # else some threads have nothing to copy

    @device_function
    def outer_product(k, As, Bs, m, t, acc):
        a = cuda.local.array(A_FRAGMENT, float32)  # (TM,)
        b = cuda.local.array(B_FRAGMENT, float32)  # (TN,)
        for i in range(TM):
            a[i] = As[a_place(k, m + i)]
        for j in range(uint32(0), TN, VECTOR):
            for q in range(VECTOR):
                b[j + q] = Bs[b_place(k, column(t, j), q)]
        for i in range(TM):
            for j in range(TN):
                acc[i, j] += a[i] * b[j]

    tile_product = unroll(outer_product, tile.bk)

    @cuda.jit(**launch_bounds(tile.threads, tile.resident_blocks))
    def sgemm_with_layout(A, B, C):  # (M, K), (K, N), (M, N)
        As = cuda.shared.array(A_TILE, float32, 16)  # (BK, BM), or as the layout says
        Bs = cuda.shared.array(B_TILE, float32, 16)  # (BK, BN), or as the layout says
        acc = cuda.local.array(ACC, float32)  # (TM, TN)
        thread = uint32(cuda.threadIdx.x)
        m = thread // THREADS_N * TM
        t = thread % THREADS_N
        row0 = uint32(cuda.blockIdx.y) * BM
        col0 = uint32(cuda.blockIdx.x) * BN
        a_row, a_col = thread // A_ROW, thread % A_ROW * VECTOR
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
                    four = load4(A, (row0 + r, k0 + a_col))
                    for q in range(VECTOR):
                        As[a_place(a_col + q, r)] = four[q]
            for copy in range(B_COPIES):
                r = b_row + copy * B_STEP
                if B_WHOLE or r < BK:
                    four = load4(B, (k0 + r, col0 + b_col))
                    for q in range(VECTOR):
                        Bs[b_place(r, b_col, q)] = four[q]
            cuda.syncthreads()  # the tiles are complete before anyone reads them

            tile_product(As, Bs, m, t, acc)
            cuda.syncthreads()  # everyone has read them before anyone overwrites them
            k0 = uint32(k0 + BK)

        for i in range(TM):
            for j in range(uint32(0), TN, VECTOR):
                four = (acc[i, j], acc[i, j + uint32(1)], acc[i, j + uint32(2)], acc[i, j + uint32(3)])
                store4(C, (row0 + m + i, col0 + column(t, j)), *four)

    return sgemm_with_layout
