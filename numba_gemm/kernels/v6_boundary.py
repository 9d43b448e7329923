"""Rung 6, edges: the pipeline of rung 5 for every shape and layout, and the whole of the BLAS contract.

                 N                  whole blocks: nothing to check
        ┌─────┬─────┬──┐            edge blocks: what lies outside A and B
      M │  ·  │  ·  │··│            is not read and arrives as 0; what
        ├─────┼─────┼──┤            lies outside C is not written
        │·····│·····│··│
        └─────┴─────┴──┘            K = 0 … K₁ ┊ BK ┊ BK ┊ BK: the odd tile first,
                                    so that the main loop never checks k

Six ideas, and where each of them is in this file:

    edges       `copy_a`, `copy_b`: cp.async takes the number of bytes to read and zeroes the rest, so an edge costs a
                compare and a select per copy, no branch; `store`: outputs beyond M and N are not written
    odd tile    `odd`, `copy_a_partial`, `copy_b_partial`: the first tile of K takes what is left of K by BK
    layouts     `copy_shapes`: `device.tile_copy` brings A and B of any layout into the same shared tile[k, line], which
                also makes both fragments contiguous again, as in rung 4
    variants    `variant.whole`, `variant.vector`: a kernel of its own for whole shapes (no checks at all), and for
                addresses that allow 16-byte accesses
    batch       `batch`, `moved`: a matrix per layer of grid z; grid x has all tiles of it, `tile_m`
    epilogue    `store`: C = epilogue(activation(alpha · A·B + beta · C + bias)), by `device.tile_store`

Cost: bytes and intensity are those of rung 5; a copy that transposes moves 4 bytes where others move 16. What is left:
of 100 instructions in the main loop 15 are not multiply-adds, and a warp's lanes stand in two rows of 16.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import cuda, float32, int64, uint32

from numba_gemm.compiler.target import device_function, launch_bounds
from numba_gemm.compiler.unroll import unroll
from numba_gemm.device.async_copy import cp_async_commit, cp_async_wait
from numba_gemm.device.batch import moved
from numba_gemm.device.integer import quotient
from numba_gemm.device.shared_memory import shared_view
from numba_gemm.device.shared_store import make_shared_store
from numba_gemm.device.tile_copy import CopyShape, make_tile_copy
from numba_gemm.device.tile_store import make_store
from numba_gemm.kernels.interface import GENERAL, TAKES_EVERYTHING, Launches, Structure, Variant, general_launch
from numba_gemm.problem import Problem
from numba_gemm.tile import FLOAT_BYTES, Tile

DEFAULT_TILE = Tile(bm=128, bn=128, bk=8, tm=8, tn=8, stages=3)
SMALL_TILE = Tile(bm=16, bn=16, bk=4, tm=4, tn=4, stages=3)  # for the simulator, where each thread is a Python thread
TRAITS = TAKES_EVERYTHING
STRUCTURE = Structure(a_in_lines=False, copy_a="async", copy_b="async", turns_a=True, prefetch=True)
SIGNATURE = GENERAL


def check(tile: Tile) -> None:
    """Lines that the block copies together, and a ring of 2 … 8 stages; else ValueError."""
    tile.require_line_copies()
    tile.require_stages(2, 8)


@cache
def make_kernel(tile: Tile, variant: Variant, through_shared: bool = False):
    BM, BN, BK = np.uint32(tile.bm), np.uint32(tile.bn), np.uint32(tile.bk)
    TM, TN = np.uint32(tile.tm), np.uint32(tile.tn)
    THREADS_N = np.uint32(tile.bn // tile.tn)
    STAGES = np.uint32(tile.stages)
    A_COPY, B_COPY = copy_shapes(tile, variant)  # new: for each layout a copy of its own
    A_RING = (tile.stages, tile.bk, A_COPY.row)  # new: [k, line], whatever the layout; longer rows if transposed
    B_RING = (tile.stages, tile.bk, B_COPY.row)
    B_OFFSET = tile.stages * tile.bk * A_COPY.row
    ACC = (tile.tm, tile.tn)
    A_FRAGMENT, B_FRAGMENT = tile.tm, tile.tn
    VECTOR = np.uint32(4)
    WHOLE = variant.whole  # new: a constant, so that whole shapes have no code for edges
    PENDING = tile.stages - 2
    copy_a, copy_a_partial = make_tile_copy(A_COPY)  # new: what lies outside arrives as 0
    copy_b, copy_b_partial = make_tile_copy(B_COPY)
    store = make_store(variant.epilogue, vector=variant.vector, whole=variant.whole)  # new: epilogue, edges

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
    def store_row(i, C, row, column, M, N, acc, bias, alpha, beta):
        for j in range(uint32(0), TN, VECTOR):
            store(C, row + i, column + j, M, N, acc, i, j, bias, alpha, beta)

    store_rows = unroll(store_row, tile.tm)
    THROUGH_SHARED = through_shared  # for the detour of that name
    store_through_shared = make_shared_store(tile, store)

    @cuda.jit(**launch_bounds(tile.threads, tile.resident_blocks))
    # A: (M, lead), transposed (K, lead). B: (K, lead), transposed (N, lead). C: (M, lead). bias: (N, stride) or (0, 1).
    def sgemm_v6(A, B, C, bias, M, N, K, alpha, beta, a_batch, b_batch, c_batch):
        memory = cuda.shared.array(0, float32, 16)  # flat
        As = shared_view(memory, A_RING, 0)  # (STAGES, BK, BM or BM + 4)
        Bs = shared_view(memory, B_RING, B_OFFSET)  # (STAGES, BK, BN or BN + 4)
        acc = cuda.local.array(ACC, float32)  # (TM, TN)
        thread = uint32(cuda.threadIdx.x)
        m = thread // THREADS_N * TM
        n = thread % THREADS_N * TN
        tiles_n = (N + BN - uint32(1)) // BN
        tile_m = quotient(uint32(cuda.blockIdx.x), tiles_n)  # new: grid x alone may exceed 65535 blocks
        row0 = tile_m * BM
        col0 = (uint32(cuda.blockIdx.x) - tile_m * tiles_n) * BN
        batch = int64(cuda.blockIdx.z)  # new: one matrix of a batch per layer of the grid
        A, B, C = moved(A, batch * a_batch), moved(B, batch * b_batch), moved(C, batch * c_batch)

        for i in range(TM):
            for j in range(TN):
                acc[i, j] = float32(0)

        # new: the odd tile comes first and covers K₁ = 1 … BK of K; all others are whole.
        odd = uint32((K + BK - uint32(1)) % BK + uint32(1))
        if WHOLE:
            copy_a(A, As, uint32(0), row0, M, uint32(0), thread)
            copy_b(B, Bs, uint32(0), col0, N, uint32(0), thread)
        else:
            copy_a_partial(A, As, uint32(0), row0, M, uint32(0), thread, min(odd, K))
            copy_b_partial(B, Bs, uint32(0), col0, N, uint32(0), thread, min(odd, K))
        cp_async_commit()
        k_ahead = odd
        for t in range(uint32(1), STAGES - uint32(1)):
            if k_ahead < K:
                copy_a(A, As, t, row0, M, k_ahead, thread)
                copy_b(B, Bs, t, col0, N, k_ahead, thread)
            cp_async_commit()
            k_ahead = uint32(k_ahead + BK)

        last = uint32(K + (STAGES - uint32(1)) * BK)
        ready, free = uint32(0), uint32(STAGES - uint32(1))
        while k_ahead < last:
            cp_async_wait(PENDING)  # my copies of this tile have arrived …
            cuda.syncthreads()  # … and everybody's; and everyone has read the tile before

            if k_ahead < K:
                copy_a(A, As, free, row0, M, k_ahead, thread)
                copy_b(B, Bs, free, col0, N, k_ahead, thread)
            cp_async_commit()  # even if empty: the wait counts groups
            k_ahead = uint32(k_ahead + BK)

            tile_product(As, Bs, ready, m, n, acc)
            free = ready  # what has just been read is refilled next
            ready = uint32(ready + uint32(1)) if ready < STAGES - uint32(1) else uint32(0)

        if THROUGH_SHARED:
            cp_async_wait(0)  # without any k nobody has waited for the zeros of the first tile
            store_through_shared(memory, C, row0, col0, M, N, acc, thread, bias, alpha, beta)
        else:
            store_rows(C, row0 + m, col0 + n, M, N, acc, bias, alpha, beta)

    return sgemm_v6


def steps(tile: Tile, variant: Variant, problem: Problem, multiprocessors: int) -> Launches:
    """One launch: a block per tile along grid x, a matrix per layer of grid z; no workspace."""
    return general_launch(make_kernel, tile, variant, problem, shared_bytes(tile, variant))


def copy_shapes(tile: Tile, variant: Variant) -> tuple[CopyShape, CopyShape]:
    """How tiles of A and of B are copied, for the layouts and alignment of a variant."""
    return (
        CopyShape(tile.bm, tile.bk, tile.threads, variant.a_along_k, variant.vector, variant.whole),
        CopyShape(tile.bn, tile.bk, tile.threads, variant.b_along_k, variant.vector, variant.whole),
    )


def shared_bytes(tile: Tile, variant: Variant) -> int:
    """Bytes of dynamic shared memory per block: the rings of A and B, with longer rows where the copy transposes."""
    return tile.stages * tile.bk * sum(copy.row for copy in copy_shapes(tile, variant)) * FLOAT_BYTES
