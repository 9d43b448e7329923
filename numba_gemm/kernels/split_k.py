"""Split-K: several blocks share a tile, each with a part of K; a second kernel adds up the parts.

    K      part 0 │ part 1 │ part 2        grid x: tiles, grid y: parts, grid z: matrices
    tile 0  sums  │  sums  │  sums    →  workspace  →  sum 0 + sum 1 + sum 2, epilogue: `kernels.reduce`
    tile 1  sums  │  sums  │  sums    →  workspace  →  …

For a small C and a long K: with less tiles than multiprocessors, rung 7 leaves the rest of them idle. Here there
are as many parts as fill the GPU, all of them as long, give or take one segment. Each block writes its sums to the
workspace and is done. Nobody waits, counts or signals: the second launch begins when the first has ended, and has all
threads of the device for the additions, in an order that is fixed; the results are the same in every run. A tile
that is not split goes straight to C, and no second launch follows.
(Rung 8 splits the same work more evenly, and adds up less; a block may have to wait there, and adds alone.)

Tiles are smaller than rung 7's, with two blocks per multiprocessor: one computes while the other begins or ends, and
there is less to add. Cost besides rung 7's: each block writes BM · BN floats, which are read once; and a launch.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numba import cuda, float32, int64, uint32

from numba_gemm.compiler.target import device_function, launch_bounds
from numba_gemm.device.batch import moved
from numba_gemm.device.integer import quotient
from numba_gemm.device.shared_memory import shared_view
from numba_gemm.device.slots import make_slots
from numba_gemm.kernels import reduce
from numba_gemm.kernels.interface import (
    WITH_WORKSPACE,
    Kernel,
    Launches,
    Step,
    Variant,
    sums_and_flags,
    workspace_arguments,
)
from numba_gemm.kernels.v6_boundary import copy_shapes, shared_bytes
from numba_gemm.kernels.v7_warp_tiled import SMALL_TILE, STRUCTURE, check, make_block_product
from numba_gemm.kernels.v8_stream_k import TRAITS, resident_blocks
from numba_gemm.problem import Problem
from numba_gemm.tile import LaunchConfig, Tile

__all__ = ["DEFAULT_TILE", "SIGNATURE", "SMALL_TILE", "STRUCTURE", "TRAITS", "check", "make_kernel", "steps"]

DEFAULT_TILE = Tile(bm=128, bn=128, bk=16, tm=8, tn=8, stages=2, wm=64, wn=32)

SIGNATURE = WITH_WORKSPACE

#: Fewest segments of K that are worth a block of their own: to write and read again 128 × 128 sums takes about as long
#: as one of 16 k (128 KB at some 48 bytes per cycle, against 128 · 128 · 16 multiply-adds at 128), and so do the first
#: copies, which nothing hides.
_LEAST_SEGMENTS = 4


@cache
def make_kernel(tile: Tile, variant: Variant):
    store = make_block_product(tile, variant).store
    write_sums, _ = make_slots(tile)

    @device_function
    def deliver(C, row, column, M, N, slot, part, parts, thread, acc, bias, alpha, beta, sums):
        if parts > uint32(1):
            write_sums(sums, slot * parts + part, thread, acc)
        else:
            store(C, row, column, M, N, acc, bias, alpha, beta)

    return make_split_kernel(tile, variant, deliver)


def make_split_kernel(tile: Tile, variant: Variant, deliver: Any):
    """The kernel whose blocks each sum a part of K, and give it to `deliver`, with arguments as in `make_kernel`."""
    BM, BN, BK = np.uint32(tile.bm), np.uint32(tile.bn), np.uint32(tile.bk)
    A_COPY, B_COPY = copy_shapes(tile, variant)
    A_BUFFERS = (tile.stages, tile.bk, A_COPY.row)
    B_BUFFERS = (tile.stages, tile.bk, B_COPY.row)
    B_OFFSET = tile.stages * tile.bk * A_COPY.row
    ACC = (tile.tm, tile.tn)
    ZERO, ONE = np.uint32(0), np.uint32(1)
    place, accumulate, _ = make_block_product(tile, variant)

    @cuda.jit(**launch_bounds(tile.threads, resident_blocks(tile)))
    def sgemm_split_k(A, B, C, bias, M, N, K, alpha, beta, a_batch, b_batch, c_batch, sums, flags, matrices):
        memory = cuda.shared.array(0, float32, 16)  # flat
        As = shared_view(memory, A_BUFFERS, 0)  # (2, BK, BM or BM + 4)
        Bs = shared_view(memory, B_BUFFERS, B_OFFSET)  # (2, BK, BN or BN + 4)
        acc = cuda.local.array(ACC, float32)  # (TM, TN)
        thread = uint32(cuda.threadIdx.x)
        m, n = place(thread)
        tiles_n = (N + BN - ONE) // BN
        tile_m = quotient(uint32(cuda.blockIdx.x), tiles_n)
        row0, col0 = tile_m * BM, (uint32(cuda.blockIdx.x) - tile_m * tiles_n) * BN
        batch = int64(cuda.blockIdx.z)
        A, B, C = moved(A, batch * a_batch), moved(B, batch * b_batch), moved(C, batch * c_batch)

        # new: this block's segments of K, as many as the others', or one more.
        part, parts = uint32(cuda.blockIdx.y), uint32(cuda.gridDim.y)
        segments = max(uint32((K + BK - ONE) // BK), ONE)
        each = quotient(segments, parts)
        longer = uint32(segments - each * parts)
        first = uint32(part * each + min(part, longer))
        end = uint32(first + each + (ONE if part < longer else ZERO))

        # Segment 0 is the odd one and covers K₁ = 1 … BK of K; segment s starts at K₁ + (s − 1) · BK.
        odd = uint32((K + BK - ONE) % BK + ONE)
        k_second = uint32(odd + first * BK)
        k_first = uint32(k_second - BK) if first > ZERO else ZERO
        k_end = min(uint32(odd + (end - ONE) * BK), K)
        accumulate(A, B, As, Bs, row0, col0, M, N, k_first, k_second, k_end, thread, m, n, acc)
        slot = uint32(cuda.blockIdx.z * cuda.gridDim.x + cuda.blockIdx.x)
        deliver(C, row0 + m, col0 + n, M, N, slot, part, parts, thread, acc, bias, alpha, beta, sums)

    return sgemm_split_k


def parts_of(tile: Tile, problem: Problem, multiprocessors: int) -> int:
    """Parts of each tile: as many as the device has room for at a time, and K has work for.

    A block's time is that of its segments, and a constant for its sums, however many parts there are: they are
    written and read again by all multiprocessors together. So a part more always saves time while there is room.
    """
    tiles_n, tiles_m = tile.grid(problem.m, problem.n)
    room = multiprocessors * resident_blocks(tile) // (problem.batch * tiles_m * tiles_n)
    return max(1, min(room, -(-problem.k // tile.bk) // _LEAST_SEGMENTS))


def block_per_part(tile: Tile, variant: Variant, problem: Problem, parts: int) -> LaunchConfig:
    """The launch of a block for each part of each tile. Grid: tiles, parts, matrices."""
    tiles_n, tiles_m = tile.grid(problem.m, problem.n)
    return LaunchConfig((tiles_m * tiles_n, parts, problem.batch), (tile.threads, 1), shared_bytes(tile, variant))


def steps(tile: Tile, variant: Variant, problem: Problem, multiprocessors: int) -> Launches:
    """The parts, each into a slot of its own, and then what adds them up; tiles of one part go straight to C."""
    parts = parts_of(tile, problem, multiprocessors)
    config = block_per_part(tile, variant, problem, parts)
    kernel = Kernel(make_kernel, (tile, variant), SIGNATURE)
    if parts == 1:
        return Launches((Step(kernel, config, workspace_arguments(problem, ())),))
    workspace = sums_and_flags(math.prod(config.grid) * tile.bm * tile.bn)
    arguments = workspace_arguments(problem, workspace)
    return Launches((Step(kernel, config, arguments), reduce.step(tile, variant, problem, parts, arguments)), workspace)
