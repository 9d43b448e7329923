"""Few rows: products that are bound by memory, with each byte of the large operand read once. GEMV is one row.

    A, M ≤ 16 rows     ───────────── K ──────────────▶         a step: BK · BN floats of B, 16 bytes per load,
                       ┌────┬────┬─────────┬─────────┐         from memory straight into registers
                       ▼    ▼    slice 0   ▼ slice 1 ▼
    B, K × N     BN  ┌────┬────┬────┬────┬────┬────┬────┐      a thread has four of a block's columns, and
    or N × K,    ┌───│▓▓▓▓│next│    │    ┊    │    │    │      shares the k of each step with others that have
    by BN        │   ├────┼────┼────┼────┼────┼────┼────┤      the same four; the blocks of a row of this
    columns      │   │    │    │    │    ┊    │    │    │      drawing have a slice of K each
    per block    ▼   └────┴────┴────┴────┴────┴────┴────┘

M rows need 2·M FLOP for 4 bytes of B: less than the hardware can compute in the time it reads them. All that
counts is that enough loads are on their way: bandwidth · latency, about 26 KB per multiprocessor on an H200. So a
thread's loads for the next step start before it computes this one, and the slices of K give every
multiprocessor blocks even where C has few columns. A, which all blocks read again, comes through shared memory by
cp.async, a few steps ahead; every thread multiplies its 4 × 4 squares of B with four k of each row.

Sums are shared twice. In a block they meet in shared memory (`device.part_sums`). Between the slices they meet in the
workspace: the block that comes last adds up what all have left there, in the order of the slices, so that a result
does not depend on which one it was, and no block waits for another.

Lines of B may run along either axis: only `device.weights`, and which threads lie side by side, know. If N is smaller
than M the arrangement is the transposed one, and C is written by columns. More than 16 rows are groups of 16, each
of which reads B.

Cost per weight: 4 bytes and M FFMA, and M/BN · 4 bytes of A, from the L2. Per step: 8 loads of 16 bytes per thread,
and one barrier. What holds it back at 16 rows, by the machine code for an H200: at full bandwidth about 70 % of the
issue slots would be used, so that there is little time to spare; and at any M a few microseconds in which a block
starts, and adds up its parts.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
from numba import cuda, float32, int64, uint32

from numba_gemm.compiler.target import device_function, launch_bounds
from numba_gemm.compiler.unroll import unroll
from numba_gemm.device.arrival import arrives_last
from numba_gemm.device.async_copy import cp_async4_or_zero, cp_async_commit, cp_async_wait
from numba_gemm.device.batch import moved
from numba_gemm.device.epilogue import make_epilogue
from numba_gemm.device.integer import quotient
from numba_gemm.device.part_sums import PartsShape, make_part_sums
from numba_gemm.device.shared_memory import shared_view
from numba_gemm.device.vector import load4
from numba_gemm.device.weights import make_weights_load
from numba_gemm.kernels.interface import (
    TAKES_EVERYTHING,
    WITH_WORKSPACE,
    Kernel,
    Launches,
    Step,
    Structure,
    Variant,
    sums_and_flags,
    workspace_arguments,
)
from numba_gemm.problem import Problem
from numba_gemm.tile import FLOAT_BYTES, STATIC_SHARED_BYTES, LaunchConfig, Tile

#: For up to 16 rows: 8 threads share each column, 32 groups of four columns.
DEFAULT_TILE = Tile(bm=16, bn=128, bk=64, tm=16, tn=4, stages=3, tk=8)
#: For a single row: A is so small that narrow blocks cost nothing, and 128 blocks have 4096 columns.
GEMV_TILE = Tile(bm=1, bn=32, bk=512, tm=1, tn=4, stages=2, tk=8)
SMALL_TILE = Tile(bm=8, bn=16, bk=8, tm=8, tn=4, stages=2, tk=4)  # eight threads, for the simulator
STRUCTURE = Structure(a_in_lines=True, copy_a="async", copy_b="none", turns_a=False, prefetch=True)
SIGNATURE = WITH_WORKSPACE

#: Floats between the rows of A in shared memory, beyond the row: rows begin in different banks.
_PADDING = 4
#: Bytes that a block could read in the time that it takes to start and to end; see `slices`.
_OVERHEAD_BYTES = 64 * 1024
#: Fewest steps along K that are worth a block of their own.
_LEAST_STEPS = 4
_MOST_SLICES = 256
#: Registers of a multiprocessor.
_REGISTERS = 65536


def resident_blocks(tile: Tile, rows: int | None = None) -> int:
    """Blocks per SM that the launch bound asks for: as many as have room for the registers that a thread needs.

    Those are 4 sums per row, two buffers of 4 · tk weights, and 48 for the rest, as compiled.
    """
    registers = 4 * (rows or tile.bm) + 8 * tile.tk + 48
    return max(1, _REGISTERS // (registers * tile.threads))


TRAITS = replace(TAKES_EVERYTHING, dynamic_shared=False, few_rows=True, resident_blocks=resident_blocks)


def check(tile: Tile) -> None:
    """All rows, four columns and a multiple of four k per thread, threads that share K; else ValueError."""
    if tile.tm != tile.bm or tile.bm not in (1, 2, 4, 8, 16):
        raise ValueError(
            f"{tile}: bm = {tile.bm}, tm = {tile.tm}; this kernel takes tm = bm, a power of two of at most 16"
        )
    if tile.tn != 4:
        raise ValueError(f"{tile}: tn = {tile.tn}; this kernel takes tn = 4, the floats in a 16-byte access")
    if tile.tk == 0 or tile.tk % 4:
        raise ValueError(f"{tile}: tk = {tile.tk}; this kernel takes a multiple of 4, the floats in a 16-byte access")
    for name, extent in (("bm", tile.bm), ("bk", tile.bk)):
        if tile.threads % extent and extent % tile.threads:
            raise ValueError(
                f"{tile}: {tile.threads} threads do not copy A evenly; {name} = {extent} has to divide them or be a "
                "multiple of them"
            )
    tile.require_stages(2, 8)
    needed = shared_bytes(tile, Variant())
    if needed > STATIC_SHARED_BYTES:
        raise ValueError(
            f"{tile} needs {needed} bytes of shared memory for A and for the sums of a block; this kernel takes up to "
            f"{STATIC_SHARED_BYTES}"
        )


@cache
def make_kernel(tile: Tile, variant: Variant):
    rows = rows_of(tile, variant)
    PARTS_SHAPE = _parts(tile, rows)
    PARTS_IN_SHARED = PARTS_SHAPE.shape
    ROWS, BN, BK = np.uint32(rows), np.uint32(tile.bn), np.uint32(tile.bk)
    GROUPS, PARTS = np.uint32(tile.bn // tile.tn), np.uint32(tile.bk // tile.tk)
    SQUARES = np.uint32(tile.tk // 4)  # of 4 k × 4 columns, that a thread has of each step
    AHEAD, PENDING = np.uint32(tile.stages - 1), tile.stages - 2
    A_RING = (tile.stages, rows, tile.bk + _PADDING)
    ACC, WEIGHTS = (rows, 4), (tile.tk // 4, 4, 4)
    THREADS = np.uint32(tile.threads)
    C_TILE = np.uint32(rows * tile.bn)
    A_COPIES = -(-rows * tile.bk // tile.threads)
    EVERY_THREAD = rows * tile.bk % tile.threads == 0
    A_ALONG_K, B_ALONG_K, C_ALONG_N = variant.a_along_k, variant.b_along_k, variant.c_along_n
    ZERO, ONE, TWO, THREE, FOUR = (np.uint32(x) for x in range(5))
    NOTHING = np.float32(0)
    weights_start, load_whole, load_partial = make_weights_load(along_k=variant.b_along_k, vector=variant.vector)
    finish = make_epilogue(variant.epilogue)
    is_last = device_function(arrives_last)

    @device_function
    def a_start(row, k, lead):
        return int64(row) * int64(lead) + int64(k) if A_ALONG_K else int64(k) * int64(lead) + int64(row)

    @device_function
    def copy_part(copy, A, As, stage, k, row, k_of_thread, rows_left, k_left):
        """Copy one float of A: its place is that of the step before, but for k."""
        more_rows, more_k = (
            (copy * THREADS // BK, copy * THREADS % BK)
            if A_ALONG_K
            else (copy * THREADS % ROWS, copy * THREADS // ROWS)
        )
        if EVERY_THREAD or (row + more_rows < ROWS and k_of_thread + more_k < BK):
            count = ONE if more_rows < rows_left and more_k < k_left else ZERO
            source = (more_rows, k + more_k) if A_ALONG_K else (k + more_k, more_rows)
            cp_async4_or_zero(As, (stage, row + more_rows, k_of_thread + more_k), A, source, count)

    copy_parts = unroll(copy_part, A_COPIES)

    @device_function
    def copy_a(A, As, stage, k0, k_end, row, k_of_thread, rows_left):
        """A's part in the step from k0 on; A begins at the thread's first float in the first step of all."""
        first = uint32(k0 + k_of_thread)
        copy_parts(A, As, stage, k0, row, k_of_thread, rows_left, uint32(k_end - min(first, k_end)))

    @device_function
    def load_step(B, w, k0, k_mine, column, N, k_end):
        """Fill w with the weights of the step from k0 on, if K has any left."""
        if uint32(k0 + BK) <= k_end:
            for square in range(SQUARES):
                load_whole(B, w, square, uint32(k0 + square * FOUR * PARTS), k_mine, column, N, k_end)
        elif k0 < k_end:
            for square in range(SQUARES):
                load_partial(B, w, square, uint32(k0 + square * FOUR * PARTS), k_mine, column, N, k_end)

    @device_function
    def row_product(row, As, stage, k_mine, w, acc):
        a = cuda.local.array(4, float32)  # (4,)
        for square in range(SQUARES):
            for i in range(FOUR):
                a[i] = As[stage, row, k_mine + square * FOUR * PARTS + i]
            for i in range(FOUR):
                for j in range(FOUR):
                    acc[row, j] += a[i] * w[square, i, j]

    step_product = unroll(row_product, rows)

    @device_function
    def step(A, B, As, w, ahead, acc, k0, k_end, ready, of_thread, N):
        """One step along K, with what is in w; the weights of the next one go to `ahead`."""
        row, k_of_thread, rows_left, k_mine, column = of_thread
        load_step(B, ahead, uint32(k0 + BK), k_mine, column, N, k_end)  # on their way during all that follows
        cp_async_wait(PENDING)  # my copies of this step of A have arrived …
        cuda.syncthreads()  # … and everybody's; and everyone has used the step before
        k_ahead = uint32(k0 + BK * AHEAD)
        if k_ahead < k_end:
            free = uint32(ready - ONE) if ready > ZERO else AHEAD  # used in the step before
            copy_a(A, As, free, k_ahead, k_end, row, k_of_thread, rows_left)
        cp_async_commit()  # even if empty: the wait counts groups
        step_product(As, ready, k_mine, w, acc)

    @device_function
    def after(ready):
        return uint32(ready + ONE) if ready < AHEAD else ZERO

    @device_function
    def store(total, row, column, C, bias, M, N, alpha, beta):
        if row < M and column < N:
            at = (row, column) if C_ALONG_N else (column, row)
            old = float32(0)
            if beta != float32(0):
                old = C[at]
            C[at] = finish(total, old, row, column, bias, alpha, beta)

    @device_function
    def deliver(total, row, column, where):
        C, bias, M, N, alpha, beta, row0, column0, sums, place, slices = where
        if slices == ONE:
            store(total, row0 + row, column0 + column, C, bias, M, N, alpha, beta)
        else:
            sums[place + int64(row * BN + column)] = total

    add_parts = make_part_sums(PARTS_SHAPE, deliver)

    @device_function
    def of_slice(sums, place, slice_of_k, slices):
        """Four neighbouring sums of a slice, or zeros beyond the last one."""
        if slice_of_k < slices:
            return load4(sums, (place + int64(slice_of_k) * int64(C_TILE),))
        return NOTHING, NOTHING, NOTHING, NOTHING

    @device_function
    def finish_four(turn, sums, first, slices, thread, C, bias, M, N, alpha, beta, row0, column0):
        """Add up what the slices left of four outputs. Four loads are under way together, not one after the other."""
        at = uint32(FOUR * (thread + turn * THREADS))
        if at < C_TILE:
            place = first + int64(at)
            total0, total1, total2, total3 = NOTHING, NOTHING, NOTHING, NOTHING
            s = ZERO
            while s < slices:
                x = of_slice(sums, place, s, slices)
                y = of_slice(sums, place, uint32(s + ONE), slices)
                z = of_slice(sums, place, uint32(s + TWO), slices)
                w = of_slice(sums, place, uint32(s + THREE), slices)
                total0 = total0 + x[0] + y[0] + z[0] + w[0]
                total1 = total1 + x[1] + y[1] + z[1] + w[1]
                total2 = total2 + x[2] + y[2] + z[2] + w[2]
                total3 = total3 + x[3] + y[3] + z[3] + w[3]
                s = uint32(s + FOUR)
            row, column = row0 + at // BN, column0 + at % BN
            store(total0, row, column, C, bias, M, N, alpha, beta)
            store(total1, row, column + ONE, C, bias, M, N, alpha, beta)
            store(total2, row, column + TWO, C, bias, M, N, alpha, beta)
            store(total3, row, column + THREE, C, bias, M, N, alpha, beta)

    finish_slices = unroll(finish_four, -(-rows * tile.bn // (4 * tile.threads)))

    @cuda.jit(**launch_bounds(tile.threads, resident_blocks(tile, rows)))
    def sgemm_skinny(A, B, C, bias, M, N, K, alpha, beta, a_batch, b_batch, c_batch, sums, flags, matrices):
        memory = cuda.shared.array(0, float32, 16)  # flat
        As = shared_view(memory, A_RING, 0)  # (STAGES, ROWS, BK + 4)
        # In the same place, when A is no longer needed.
        parts = shared_view(memory, PARTS_IN_SHARED, 0)  # (PARTS, rows at a time · BN + 4)
        acc = cuda.local.array(ACC, float32)  # (ROWS, 4)
        w = cuda.local.array(WEIGHTS, float32)  # (SQUARES, 4, 4): of this step …
        ahead = cuda.local.array(WEIGHTS, float32)  # (SQUARES, 4, 4): … and of the next one
        thread = uint32(cuda.threadIdx.x)
        # Lanes go along the lines of B.
        part = thread % PARTS if B_ALONG_K else thread // GROUPS
        group = thread // PARTS if B_ALONG_K else thread % GROUPS
        k_mine = part * FOUR

        slices, slice_of_k = uint32(cuda.gridDim.y), uint32(cuda.blockIdx.y)
        blocks_n = (N + BN - ONE) // BN
        block_m = quotient(uint32(cuda.blockIdx.x), blocks_n)
        row0, column0 = uint32(block_m * ROWS), uint32((uint32(cuda.blockIdx.x) - block_m * blocks_n) * BN)
        column = uint32(column0 + group * FOUR)
        steps = quotient((K + BK - ONE) // BK + slices - ONE, slices)  # of a slice
        k0 = uint32(slice_of_k * steps * BK)
        k_end = min(K, uint32(k0 + steps * BK))
        batch = int64(cuda.blockIdx.z)
        C = moved(C, batch * c_batch)

        # Where this thread's floats of A and B begin. Lanes go along the lines of A, too.
        row = thread // BK if A_ALONG_K else thread % ROWS
        k_of_thread = thread % BK if A_ALONG_K else thread // ROWS
        rows_left = uint32(M - min(M, uint32(row0 + row)))
        of_thread = (row, k_of_thread, rows_left, k_mine, column)
        A = moved(A, batch * a_batch + a_start(row0 + row, k_of_thread, A.shape[1]))
        B = moved(B, batch * b_batch + weights_start(k_mine, column, N, B.shape[1]))

        for i in range(ROWS):
            for j in range(FOUR):
                acc[i, j] = float32(0)

        load_step(B, w, k0, k_mine, column, N, k_end)
        for t in range(AHEAD):
            copy_a(A, As, t, uint32(k0 + t * BK), k_end, row, k_of_thread, rows_left)
            cp_async_commit()

        ready = ZERO
        while k0 < k_end:
            # Twice, because what is loaded now is computed with next: a copy from one buffer to the other would wait.
            step(A, B, As, w, ahead, acc, k0, k_end, ready, of_thread, N)
            k0, ready = uint32(k0 + BK), after(ready)
            if k0 < k_end:
                step(A, B, As, ahead, w, acc, k0, k_end, ready, of_thread, N)
                k0, ready = uint32(k0 + BK), after(ready)

        cp_async_wait(0)
        index = int64(cuda.blockIdx.z) * int64(cuda.gridDim.x) + int64(cuda.blockIdx.x)
        first = index * int64(slices) * int64(C_TILE)
        place = first + int64(slice_of_k) * int64(C_TILE)
        where = (C, bias, M, N, alpha, beta, row0, column0, sums, place, slices)
        add_parts(parts, acc, part, group, thread, where)
        if slices > ONE and is_last(flags, index, slices, thread):
            finish_slices(sums, first, slices, thread, C, bias, M, N, alpha, beta, row0, column0)

    return sgemm_skinny


def rows_of(tile: Tile, variant: Variant) -> int:
    """Rows that a block computes: those that there are, rounded up to a power of two, and at most the tile's."""
    return min(tile.bm, variant.rows or tile.bm)


def _parts(tile: Tile, rows: int) -> PartsShape:
    return PartsShape(rows, tile.bn, tile.bk // tile.tk)


def slices(tile: Tile, rows: int, blocks: int, k: int, multiprocessors: int) -> int:
    """Into how many slices K is best cut where C alone has `blocks` blocks of `rows` rows.

    Blocks run in waves. Each takes as long as the bytes of B in a slice, and a constant to start and to end.
    """
    steps = -(-k // tile.bk)
    slots = multiprocessors * resident_blocks(tile, rows)
    step_bytes = tile.bk * tile.bn * FLOAT_BYTES

    def time(count: int) -> int:
        return -(-blocks * count // slots) * (-(-steps // count) * step_bytes + _OVERHEAD_BYTES)

    return min(range(1, max(1, min(steps // _LEAST_STEPS, _MOST_SLICES)) + 1), key=time)


def steps(tile: Tile, variant: Variant, problem: Problem, multiprocessors: int) -> Launches:
    """One launch. Grid: blocks, slices of K, matrices. Workspace, if K is cut: sums per slice, a counter per block."""
    rows = rows_of(tile, variant)
    blocks = -(-problem.n // tile.bn) * -(-problem.m // rows)
    of_batch = blocks * problem.batch
    cut = slices(tile, rows, of_batch, problem.k, multiprocessors)
    workspace = sums_and_flags(of_batch * cut * rows * tile.bn, of_batch) if cut > 1 else ()
    config = LaunchConfig((blocks, cut, problem.batch), (tile.threads, 1), shared_bytes(tile, variant))
    kernel = Kernel(make_kernel, (tile, variant), SIGNATURE)
    return Launches((Step(kernel, config, workspace_arguments(problem, workspace)),), workspace)


def shared_bytes(tile: Tile, variant: Variant) -> int:
    """Bytes of shared memory per block: the ring of A, or the parts of the sums that take its place."""
    rows = rows_of(tile, variant)
    return max(tile.stages * rows * (tile.bk + _PADDING), math.prod(_parts(tile, rows).shape)) * FLOAT_BYTES
