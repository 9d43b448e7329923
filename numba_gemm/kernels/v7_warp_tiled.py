"""Rung 7, warp tiles: a level between block and thread, arranged so that nothing but FFMA takes issue slots.

    block 128 × 256            warp 64 × 64: 4 × 8 lanes       thread 16 × 8: 4 · 2 groups of 4 × 4
    ┌─────┬─────┬─────┬─────┐   0  1  8  9 16 17 24 25         ┌─┬───────┬─┬───────┐
    │warp │  1  │  2  │  3  │   2  3 10 11 18 19 26 27         │▒│       │▒│       │  a group stands where its
    │  0  │     │     │     │   4  5 12 13 20 21 28 29         ├─┘       └─┘       │  lane stands in the map; the
    ├─────┼─────┼─────┼─────┤   6  7 14 15 22 23 30 31         ├─┐       ┌─┐       │  map is repeated 4 times down
    │  4  │  5  │  6  │  7  │                                  │▒│       │▒│       │  and 2 times across
    └─────┴─────┴─────┴─────┘   a group of 4 × 4 each          └─┴───────┴─┴───────┘

A warp reads 4 groups of A or 8 of B at a time, next to each other, by 16 bytes per lane. The hardware serves such a
load in two halves, and merges lanes that read the same address where their numbers differ in bit 0 or in
bit 1. So lanes beside each other, with the same rows of A, differ in bit 0, and lanes below each other, with the
same columns of B, in bits 1 and 2: each load takes two wavefronts.

Each fragment is a pair: the one of step k + 1 is loaded while the one of step k is used. Two buffers then suffice
for the tiles of K, and one barrier per tile: at its last step everybody has read all of one buffer, and what was
copied into the other has arrived. The copies themselves are spread over the first two steps.

Cost per output and k: 0.19 shared floats (rung 6: 0.25), 0.09 shared wavefronts per warp, and 0.047 bytes of A and B
(0.063): 42.7 FLOP per byte. Of 100 instructions in the main loop 93 are FFMA (85), and none of these reads three
registers of one bank. It takes 206 registers per thread, so an SM has 8 warps, few to hide a latency: the order of a
thread's own instructions has to. What still limits it, by the profiler (notes/tuning.md): the other 7 instructions,
fetching the 35 KB of code of an unrolled tile anew after each jump back, and the last, partial wave of blocks.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import cuda, float32, int64, uint32

from numba_gemm.compiler.target import device_function, launch_bounds
from numba_gemm.compiler.unroll import unroll
from numba_gemm.device.async_copy import cp_async_commit, cp_async_wait
from numba_gemm.device.batch import moved
from numba_gemm.device.integer import quotient
from numba_gemm.device.shared_memory import shared_view
from numba_gemm.device.steady_copy import make_steady_copy
from numba_gemm.device.tile_copy import make_tile_copy
from numba_gemm.device.tile_store import make_store
from numba_gemm.device.warp_tile import make_places
from numba_gemm.kernels.interface import GENERAL, TAKES_EVERYTHING, Launches, Structure, Variant, general_launch
from numba_gemm.kernels.v6_boundary import copy_shapes, shared_bytes
from numba_gemm.problem import Problem
from numba_gemm.tile import Tile

DEFAULT_TILE = Tile(bm=128, bn=256, bk=16, tm=16, tn=8, stages=2, wm=64, wn=64)
SMALL_TILE = Tile(bm=16, bn=32, bk=8, tm=4, tn=4, stages=2, wm=16, wn=32)  # one warp, for the simulator
TRAITS = TAKES_EVERYTHING
STRUCTURE = Structure(
    lanes="warp tile",
    a_in_lines=False,
    copy_a="async",
    copy_b="async",
    turns_a=True,
    prefetch=True,
    paired_fragments=True,
)
SIGNATURE = GENERAL

#: Steps of a tile over which the copies for the next one are spread.
COPY_STEPS = 2


def check(tile: Tile) -> None:
    """Warp tiles, two buffers, and as many copies for each thread; else ValueError."""
    tile.require_warps()
    tile.require_steady_copies()
    tile.require_stages(2, 2)


class BlockProduct(NamedTuple):
    """Device functions for one block and one of its tiles, which rung 8 and split-K share with this rung."""

    #: thread → (m, n): row and column, in the block's tile, of the thread's first group.
    place: Any
    #: (A, B, As, Bs, row0, col0, M, N, first, second, end, thread, m, n, acc): the sums over k = first … end − 1 of the
    #: tile at row0, col0. A first tile of K goes up to `second`, 1 … BK of them; all others are whole.
    accumulate: Any
    #: (C, row, column, M, N, acc, bias, alpha, beta): the outputs of the thread whose first one is at row, column.
    store: Any


def make_block_product(tile: Tile, variant: Variant, store_four: Any = None) -> BlockProduct:
    """The three functions for a tile and a variant.

    `store_four` (C, row, column, M, N, acc, i, j, bias, alpha, beta) takes acc[i, j … j + 3], four neighbouring outputs
    of a thread, instead of the function of `device.tile_store`, which takes them through the epilogue to C.
    """
    BK = np.uint32(tile.bk)
    TM, TN = np.uint32(tile.tm), np.uint32(tile.tn)
    A_COPY, B_COPY = copy_shapes(tile, variant)
    A_FRAGMENTS, B_FRAGMENTS = (2, tile.tm), (2, tile.tn)  # new: one in use, one on its way
    VECTOR = np.uint32(4)
    WHOLE = variant.whole
    LAST, PARTS = np.uint32(tile.bk - 1), np.uint32(COPY_STEPS)
    ZERO, ONE, TWO = (np.uint32(x) for x in (0, 1, 2))
    place, row_of, column_of = make_places(tile)  # new: which outputs of the block's tile a thread has
    copy_a, copy_a_partial = make_tile_copy(A_COPY)
    copy_b, copy_b_partial = make_tile_copy(B_COPY)
    place_a, copy_a_part = make_steady_copy(A_COPY, COPY_STEPS)  # new: in parts, with addresses worked out once
    place_b, copy_b_part = make_steady_copy(B_COPY, COPY_STEPS)
    store = store_four or make_store(variant.epilogue, vector=variant.vector, whole=variant.whole)

    @device_function
    def load_fragments(k, As, Bs, buffer, m, n, a, b, half):  # new: of step k + 1, while those of step k are used
        for i in range(TM):
            a[half, i] = As[buffer, k, row_of(m, i)]
        for j in range(TN):
            b[half, j] = Bs[buffer, k, column_of(n, j)]

    @device_function
    def outer_product(a, b, half, acc):
        # new: there and back, so that at a turn, too, the next FFMA has an operand of the one before.
        for i in range(ZERO, TM, TWO):
            for j in range(TN):
                acc[i, j] += a[half, i] * b[half, j]
            for j in range(TN - ONE, -1, -1):
                acc[i + ONE, j] += a[half, i + ONE] * b[half, j]

    @device_function
    def step(k, A, B, As, Bs, As_mine, Bs_mine, ready, free, lines_a, lines_b, m, n, a, b, acc):
        # new: a step has its part of the next tile's copies, and the last one of a tile the barrier.
        if k < LAST:
            load_fragments(k + ONE, As, Bs, ready, m, n, a, b, (k + ONE) % TWO)
            if k < PARTS:
                copy_a_part(k, A, As_mine, free, lines_a)
                copy_b_part(k, B, Bs_mine, free, lines_b)
        else:
            cp_async_commit()
            cp_async_wait(0)  # my copies of the next tile have arrived …
            cuda.syncthreads()  # … and everybody's; and everyone has read all of this one
            load_fragments(ZERO, As, Bs, free, m, n, a, b, ZERO)
        outer_product(a, b, k % TWO, acc)

    @device_function
    def step_of_last(k, As, Bs, ready, m, n, a, b, acc):
        if k < LAST:
            load_fragments(k + ONE, As, Bs, ready, m, n, a, b, (k + ONE) % TWO)
        outer_product(a, b, k % TWO, acc)

    tile_product = unroll(step, tile.bk)
    last_tile_product = unroll(step_of_last, tile.bk)

    @device_function
    def accumulate(A, B, As, Bs, row0, col0, M, N, first, second, end, thread, m, n, acc):
        a = cuda.local.array(A_FRAGMENTS, float32)  # (2, TM)
        b = cuda.local.array(B_FRAGMENTS, float32)  # (2, TN)
        if WHOLE:
            copy_a(A, As, ZERO, row0, M, first, thread)
            copy_b(B, Bs, ZERO, col0, N, first, thread)
        else:
            copy_a_partial(A, As, ZERO, row0, M, first, thread, min(second, end))
            copy_b_partial(B, Bs, ZERO, col0, N, first, thread, min(second, end))
        cp_async_commit()

        # new: from here on, a copy's addresses move on by a step from tile to tile.
        from_a, to_a, step_a, lines_a = place_a(A, row0, M, second, thread)
        from_b, to_b, step_b, lines_b = place_b(B, col0, N, second, thread)
        A, As_mine = moved(A, from_a), moved(As, to_a)
        B, Bs_mine = moved(B, from_b), moved(Bs, to_b)
        for i in range(TM):
            for j in range(TN):
                acc[i, j] = float32(0)

        cp_async_wait(0)
        cuda.syncthreads()
        load_fragments(ZERO, As, Bs, ZERO, m, n, a, b, ZERO)
        ready, k_ahead = ZERO, second
        while k_ahead < end:
            free = ready ^ ONE  # new: two buffers, the number of the other one by xor
            tile_product(A, B, As, Bs, As_mine, Bs_mine, ready, free, lines_a, lines_b, m, n, a, b, acc)
            ready = free
            A, B = moved(A, step_a), moved(B, step_b)
            k_ahead = uint32(k_ahead + BK)
        last_tile_product(As, Bs, ready, m, n, a, b, acc)  # new: of its own, so that copies need no condition

    @device_function
    def store_row(i, C, row, column, M, N, acc, bias, alpha, beta):
        for j in range(ZERO, TN, VECTOR):
            store(C, row_of(row, i), column_of(column, j), M, N, acc, i, j, bias, alpha, beta)

    store_rows = unroll(store_row, tile.tm)

    @device_function
    def store_tile(C, row, column, M, N, acc, bias, alpha, beta):
        # new: decided once, because loads of C amid all stores would take the registers of the main loop.
        if beta == float32(0):
            store_rows(C, row, column, M, N, acc, bias, alpha, float32(0))
        else:
            store_rows(C, row, column, M, N, acc, bias, alpha, beta)

    return BlockProduct(place, accumulate, store_tile)


@cache
def make_kernel(tile: Tile, variant: Variant):
    BM, BN, BK = np.uint32(tile.bm), np.uint32(tile.bn), np.uint32(tile.bk)
    A_COPY, B_COPY = copy_shapes(tile, variant)
    A_BUFFERS = (tile.stages, tile.bk, A_COPY.row)
    B_BUFFERS = (tile.stages, tile.bk, B_COPY.row)
    B_OFFSET = tile.stages * tile.bk * A_COPY.row
    ACC = (tile.tm, tile.tn)
    ZERO, ONE = np.uint32(0), np.uint32(1)
    place, accumulate, store = make_block_product(tile, variant)

    @cuda.jit(**launch_bounds(tile.threads, tile.resident_blocks))
    def sgemm_v7(A, B, C, bias, M, N, K, alpha, beta, a_batch, b_batch, c_batch):
        memory = cuda.shared.array(0, float32, 16)  # flat
        As = shared_view(memory, A_BUFFERS, 0)  # (2, BK, BM or BM + 4)
        Bs = shared_view(memory, B_BUFFERS, B_OFFSET)  # (2, BK, BN or BN + 4)
        acc = cuda.local.array(ACC, float32)  # (TM, TN)
        thread = uint32(cuda.threadIdx.x)
        m, n = place(thread)  # new: by warps
        tiles_n = (N + BN - ONE) // BN
        row0 = quotient(uint32(cuda.blockIdx.x), tiles_n) * BM
        col0 = uint32(cuda.blockIdx.x) % tiles_n * BN
        batch = int64(cuda.blockIdx.z)
        A, B, C = moved(A, batch * a_batch), moved(B, batch * b_batch), moved(C, batch * c_batch)

        # The odd tile comes first and covers K₁ = 1 … BK of K; all others are whole.
        odd = uint32((K + BK - ONE) % BK + ONE)
        accumulate(A, B, As, Bs, row0, col0, M, N, ZERO, odd, K, thread, m, n, acc)
        store(C, row0 + m, col0 + n, M, N, acc, bias, alpha, beta)

    return sgemm_v7


def steps(tile: Tile, variant: Variant, problem: Problem, multiprocessors: int) -> Launches:
    """One launch: a block per tile along grid x, a matrix per layer of grid z; no workspace."""
    return general_launch(make_kernel, tile, variant, problem, shared_bytes(tile, variant))
