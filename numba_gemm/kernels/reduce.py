"""What follows a split-K kernel: the parts of each output are added up, by threads of the whole device.

    workspace   ┌─ slot 0 ─┐┌─ slot 1 ─┐┌─ slot 2 ─┐┌─ slot 3 ─┐     parts 0 … 3 of a tile
    a four          x           x           x           x            the same 16 bytes of each slot
    threads         └─ share 0 ─┘           └─ share 1 ─┘            each adds its parts in order
    C                     └─────────── + ─────────┘                  the shares in order, epilogue, 4 outputs

A thread reads the same 16 bytes of several slots, one after another, with all loads under way at a time. Neighbouring
threads read neighbouring 16 bytes. Where a tile has many parts, which means that there are few tiles and few outputs,
several threads share the parts of four outputs and meet in shared memory: each then has about as many as it can load
at once. The order of the additions follows from the shape and the device alone: the results are the same in every run.

Cost: parts · BM · BN floats are read once, mostly from the L2, where they have just been written, and a launch.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import cuda, float32, int64, types, uint32

from numba_gemm.compiler.target import device_function, launch_bounds
from numba_gemm.compiler.unroll import unroll
from numba_gemm.device.batch import moved
from numba_gemm.device.integer import quotient
from numba_gemm.device.slots import make_owner
from numba_gemm.device.tile_store import make_store
from numba_gemm.device.vector import load4
from numba_gemm.device.warp_tile import make_places
from numba_gemm.kernels.interface import WITH_WORKSPACE, Argument, Kernel, Step, Variant
from numba_gemm.problem import Problem
from numba_gemm.tile import LaunchConfig, Tile

#: The arguments of the kernel that came before · how many parts a tile has.
SIGNATURE = types.void(*WITH_WORKSPACE.args, uint32)

#: Slots that a thread reads at a time: 40 of its 64 registers hold what it has read.
LOADS = 10
#: Fewest fours that lie side by side in a block: a cache line.
_LEAST_FOURS = 8
#: Threads per multiprocessor that the launch bound asks for, with 64 registers each.
_RESIDENT_THREADS = 1024


def variant_of(variant: Variant) -> Variant:
    """The variant without what only A and B have: one reduction serves all their layouts."""
    return Variant(vector=variant.vector, whole=variant.whole, epilogue=variant.epilogue)


@cache
def make_kernel(tile: Tile, variant: Variant):
    BM, BN = np.uint32(tile.bm), np.uint32(tile.bn)
    SLOT, LOADED = np.int64(tile.bm * tile.bn), np.uint32(LOADS)
    ACC, READ, SHARED = (1, 4), (LOADS, 4), (tile.threads, 4)
    WHOLE = variant.whole
    ZERO, ONE, FOUR = (np.uint32(x) for x in (0, 1, 4))
    place, row_of, column_of = make_places(tile)
    owner = make_owner(tile)
    store = make_store(variant.epilogue, vector=variant.vector, whole=variant.whole)

    @device_function
    def load_part(at, mine, part, end, read):
        for q in range(FOUR):
            read[at, q] = float32(0)
        if uint32(part + at) < end:
            x, y, z, w = load4(mine, (int64(at) * SLOT,))
            read[at, 0] = x
            read[at, 1] = y
            read[at, 2] = z
            read[at, 3] = w

    load_parts = unroll(load_part, LOADS)

    @cuda.jit(**launch_bounds(tile.threads, max(1, _RESIDENT_THREADS // tile.threads)))
    def sgemm_reduce(A, B, C, bias, M, N, K, alpha, beta, a_batch, b_batch, c_batch, sums, flags, matrices, parts):
        shared = cuda.shared.array(SHARED, float32, 16)  # (threads, 4)
        acc = cuda.local.array(ACC, float32)  # (1, 4)
        read = cuda.local.array(READ, float32)  # (LOADS, 4): 16 bytes of each slot
        share, shares = uint32(cuda.threadIdx.y), uint32(cuda.blockDim.y)
        x, width = uint32(cuda.threadIdx.x), uint32(cuda.blockDim.x)
        tile_of_c = uint32(cuda.blockIdx.y)
        tiles_n = (N + BN - ONE) // BN
        tile_m = quotient(tile_of_c, tiles_n)
        row0, col0 = tile_m * BM, (tile_of_c - tile_m * tiles_n) * BN
        batch = int64(cuda.blockIdx.z)

        # Which four outputs this thread's sums are parts of.
        four = uint32(cuda.blockIdx.x * width + x)
        thread, i, j = owner(four)
        m, n = place(thread)
        row, column = row_of(row0 + m, i), column_of(col0 + n, j)
        inside = WHOLE or (row < M and column < N)

        each = quotient(parts + shares - ONE, shares)
        part = min(uint32(share * each), parts)
        end = min(uint32(part + each), parts)
        first_slot = int64(cuda.blockIdx.z * cuda.gridDim.y + tile_of_c) * int64(parts)
        for q in range(FOUR):
            acc[0, q] = float32(0)
        while inside and part < end:
            mine = moved(sums, (first_slot + int64(part)) * SLOT + int64(four * FOUR))
            load_parts(mine, part, end, read)
            for at in range(LOADED):
                for q in range(FOUR):
                    acc[0, q] += read[at, q]
            part = uint32(part + LOADED)

        if shares > ONE:
            for q in range(FOUR):
                shared[share * width + x, q] = acc[0, q]
            cuda.syncthreads()
            if share == ZERO:
                for other in range(ONE, shares):
                    for q in range(FOUR):
                        acc[0, q] += shared[other * width + x, q]
        if share == ZERO:
            store(moved(C, batch * c_batch), row, column, M, N, acc, ZERO, ZERO, bias, alpha, beta)

    return sgemm_reduce


def shares_of(tile: Tile, parts: int) -> int:
    """Among how many threads, a power of two, the parts are shared: each is to load its own all at once."""
    shares = 1
    while parts > shares * LOADS and tile.threads >= 2 * shares * _LEAST_FOURS:
        shares *= 2
    return shares


def step(tile: Tile, variant: Variant, problem: Problem, parts: int, arguments_before: tuple[Argument, ...]) -> Step:
    """The launch that follows one with these arguments.

    Grid: blocks of a tile, tiles, matrices. A tile that has parts is one of few: there are not 65536 of them.
    """
    tiles_n, tiles_m = tile.grid(problem.m, problem.n)
    shares = shares_of(tile, parts)
    width = tile.threads // shares
    blocks = tile.bm * tile.bn // (4 * width)
    config = LaunchConfig((blocks, tiles_m * tiles_n, problem.batch), (width, shares))
    kernel = Kernel(make_kernel, (tile, variant_of(variant)), SIGNATURE)
    return Step(kernel, config, (*arguments_before, parts))
