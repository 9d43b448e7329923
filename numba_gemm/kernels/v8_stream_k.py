"""Rung 8, stream-K: as many blocks as the GPU runs at a time, and the same number of multiply-adds for each.

    5 tiles of 6 segments of K on 4 multiprocessors, in time from left to right:

        rung 7                          stream-K
        0 0 0 0 0 0 4 4 4 4 4 4         1 1·0 0 0 0 0 0         · puts partial sums into the workspace,
        1 1 1 1 1 1                     2 2 2 2·1 1 1 1         where the next block, which has the rest of
        2 2 2 2 2 2                     3 3 3 3 3·2 2           the tile, takes them
        3 3 3 3 3 3                     4 4 4 4 4 4 3

A grid with a block per tile runs in waves, and the last wave takes as long as all others, however few tiles are left
for it. Here the segments of the tiles that are left stand in a line, which is cut into equal runs. A run that ends
inside a tile leaves its sums in the workspace; the block with the next run adds them to its own, and so on, until one
has the tile's last segment, and does the epilogue. The order of the additions is fixed: results do not change from
run to run. Full waves are done as in rung 7, except for one that is split with what is left: so everyone has at
least a tile's worth to do, and a tile has two parts at most. (Of less than a wave of tiles, each has more parts.)

A block does the last tile of its run first: what the next one waits for is ready early. It waits only for the
block before it, see `device.flags`.

Cost besides rung 7's: a block writes BM · BN floats and reads as many (128 KB each), through the L2.
The main loop is that of rung 7; of the waves, one segment remains. On an H200 it gains an eighth over rung 7 where the
last wave is nearly empty (512×14336×4096: 224 tiles on 132 multiprocessors), and loses a per cent where it is nearly
full (4096³: 512 tiles).
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
from numba import cuda, float32, int64, uint32

from numba_gemm.compiler.target import device_function, launch_bounds
from numba_gemm.device.batch import moved
from numba_gemm.device.flags import raise_flag, take_flag
from numba_gemm.device.integer import quotient
from numba_gemm.device.opaque import opaque
from numba_gemm.device.shared_memory import shared_view
from numba_gemm.device.slots import make_slots
from numba_gemm.device.work import EXCHANGE, part_of_block, whole_tiles
from numba_gemm.kernels.interface import (
    TAKES_EVERYTHING,
    WITH_WORKSPACE,
    Kernel,
    Launches,
    Step,
    Variant,
    sums_and_flags,
    workspace_arguments,
)
from numba_gemm.kernels.v6_boundary import copy_shapes, shared_bytes
from numba_gemm.kernels.v7_warp_tiled import DEFAULT_TILE, SMALL_TILE, STRUCTURE, check, make_block_product
from numba_gemm.problem import Problem
from numba_gemm.tile import LaunchConfig, Tile

__all__ = ["DEFAULT_TILE", "SIGNATURE", "SMALL_TILE", "STRUCTURE", "TRAITS", "check", "make_kernel", "steps"]


#: Threads per block for which `Tile.resident_blocks` is meant: of smaller blocks a multiprocessor takes more.
_BLOCK_THREADS = 256


def resident_blocks(tile: Tile) -> int:
    """Blocks per multiprocessor: as many threads as the launch bound of 256-thread blocks asks for."""
    return tile.resident_blocks * max(1, _BLOCK_THREADS // tile.threads)


TRAITS = replace(TAKES_EVERYTHING, resident_blocks=resident_blocks)
SIGNATURE = WITH_WORKSPACE


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
    write_sums, add_sums = make_slots(tile)  # new: partial sums, in the workspace
    # new: which segments of which tiles a block does; the host computes with the same functions.
    whole_of, part_of = device_function(whole_tiles), device_function(part_of_block)

    @cuda.jit(**launch_bounds(tile.threads, resident_blocks(tile)))
    def sgemm_v8(A, B, C, bias, M, N, K, alpha, beta, a_batch, b_batch, c_batch, sums, flags, matrices):
        memory = cuda.shared.array(0, float32, 16)  # flat
        As = shared_view(memory, A_BUFFERS, 0)  # (2, BK, BM or BM + 4)
        Bs = shared_view(memory, B_BUFFERS, B_OFFSET)  # (2, BK, BN or BN + 4)
        acc = cuda.local.array(ACC, float32)  # (TM, TN)
        # new: blocks are numbered along one axis, whatever tiles there are.
        block, blocks = uint32(cuda.blockIdx.x), uint32(cuda.gridDim.x)
        part = ZERO
        while True:  # new: a block takes part after part, of any tile
            # new: opaque, so that what follows from it is not kept in registers over the whole loop.
            thread = opaque(uint32(cuda.threadIdx.x))
            m, n = place(thread)
            tiles_m, tiles_n = (M + BM - ONE) // BM, (N + BN - ONE) // BN
            tiles, segments = uint32(matrices * tiles_m * tiles_n), max(uint32((K + BK - ONE) // BK), ONE)
            whole = whole_of(tiles, blocks, segments)
            tile, first, end = part_of(part, block, blocks, tiles, whole, segments)
            if end == ZERO:
                break
            part = uint32(part + ONE)
            matrix = quotient(tile, tiles_m * tiles_n)
            within = uint32(tile - matrix * tiles_m * tiles_n)
            tile_m = quotient(within, tiles_n)
            tile_n = uint32(within - tile_m * tiles_n)
            row0, col0 = tile_m * BM, tile_n * BN
            batch = int64(matrix)
            A_, B_, C_ = moved(A, batch * a_batch), moved(B, batch * b_batch), moved(C, batch * c_batch)

            # Segment 0 is the odd one and covers K₁ = 1 … BK of K; segment s starts at K₁ + (s − 1) · BK.
            odd = uint32((K + BK - ONE) % BK + ONE)
            k_second = uint32(odd + first * BK)
            k_first = uint32(k_second - BK) if first > ZERO else ZERO
            k_end = min(uint32(odd + (end - ONE) * BK), K)
            cuda.syncthreads()  # everyone has read the shared tiles of the part before
            accumulate(A_, B_, As, Bs, row0, col0, M, N, k_first, k_second, k_end, thread, m, n, acc)

            if first > ZERO:  # new: the block before has the tile's segments up to here …
                take_flag(flags, block - ONE, thread)
                add_sums(sums, block - ONE, thread, acc)
            if end < segments:  # new: … and the next one goes on with it
                write_sums(sums, block, thread, acc)
                raise_flag(flags, block, thread)
            else:
                store(C_, row0 + m, col0 + n, M, N, acc, bias, alpha, beta)

    return sgemm_v8


def _blocks(tile: Tile, problem: Problem, multiprocessors: int) -> tuple[int, int, int]:
    """(blocks, tiles, segments per tile). There are never more blocks than segments."""
    tiles_n, tiles_m = tile.grid(problem.m, problem.n)
    tiles, segments = problem.batch * tiles_m * tiles_n, max(1, -(-problem.k // tile.bk))
    resident = multiprocessors * resident_blocks(tile)
    if tiles >= resident:
        return resident, tiles, segments
    # In p parts, one handed on to the next, a tile takes about segments/p + EXCHANGE · p, least at
    # p = √(segments/EXCHANGE).
    blocks = min(resident, tiles * max(1, math.isqrt(segments // EXCHANGE)))
    return (tiles if whole_tiles(tiles, blocks, segments) == tiles else blocks), tiles, segments


def steps(tile: Tile, variant: Variant, problem: Problem, multiprocessors: int) -> Launches:
    """One launch; workspace: BM · BN partial sums and a flag per block, unless no tile is split."""
    blocks, tiles, segments = _blocks(tile, problem, multiprocessors)
    split = whole_tiles(tiles, blocks, segments) != tiles
    workspace = sums_and_flags(blocks * tile.bm * tile.bn, blocks) if split else ()
    config = LaunchConfig((blocks, 1, 1), (tile.threads, 1), shared_bytes(tile, variant))
    kernel = Kernel(make_kernel, (tile, variant), SIGNATURE)
    return Launches((Step(kernel, config, workspace_arguments(problem, workspace)),), workspace)
