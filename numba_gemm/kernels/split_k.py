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

Tiles are smaller than rung 7's, with two blocks a multiprocessor: one computes while the other begins or ends, and
there is less to add. Cost besides rung 7's: each block writes BM · BN floats, which are read once; and a launch.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import cuda, float32, int64, uint32

from numba_gemm.compiler.target import device_function, launch_bounds
from numba_gemm.device.batch import moved
from numba_gemm.device.integer import quotient
from numba_gemm.device.shared_memory import shared_view
from numba_gemm.device.slots import make_slots
from numba_gemm.kernels.signatures import WorkspaceSize
from numba_gemm.kernels.v6_boundary import copy_shapes, shared_bytes
from numba_gemm.kernels.v7_warp_tiled import SMALL_TILE, check, make_block_product
from numba_gemm.kernels.v8_stream_k import resident_blocks
from numba_gemm.kernels.variant import Variant
from numba_gemm.tile import LaunchConfig, Tile

__all__ = [
    "DEFAULT_TILE",
    "SMALL_TILE",
    "check",
    "launch_config",
    "make_kernel",
    "parts_of",
    "shared_bytes",
    "workspace",
]

DEFAULT_TILE = Tile(bm=128, bn=128, bk=16, tm=8, tn=8, stages=2, wm=64, wn=32)

#: Its blocks leave `parts_of` parts of each tile in the workspace, if there is more than one.
LEAVES_PARTS = True

#: Fewest segments of K that are worth a block of their own: to write and read again 128 × 128 sums takes about as long
#: as one of 16 k (128 KB at some 48 bytes a cycle, against 128 · 128 · 16 multiply-adds at 128), and so do the first
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
    """The kernel whose blocks each sum a part of K, and give it to `deliver`."""
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
        memory = cuda.shared.array(0, float32, 16)
        As = shared_view(memory, A_BUFFERS, 0)
        Bs = shared_view(memory, B_BUFFERS, B_OFFSET)
        acc = cuda.local.array(ACC, float32)
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


def parts_of(tile: Tile, m: int, n: int, k: int, batch: int, multiprocessors: int) -> int:
    """Parts of each tile: as many as the device has room for at a time, and K has work for.

    A block's time is that of its segments, and a constant for its sums, however many parts there are: they are
    written and read again by all multiprocessors together. So a part more always saves time while there is room.
    """
    tiles_n, tiles_m = tile.grid(m, n)
    room = multiprocessors * resident_blocks(tile) // (batch * tiles_m * tiles_n)
    return max(1, min(room, -(-k // tile.bk) // _LEAST_SEGMENTS))


def launch_config(
    tile: Tile, variant: Variant, m: int, n: int, k: int, batch: int, multiprocessors: int
) -> LaunchConfig:
    tiles_n, tiles_m = tile.grid(m, n)
    parts = parts_of(tile, m, n, k, batch, multiprocessors)
    return LaunchConfig((tiles_m * tiles_n, parts, batch), (tile.threads, 1), shared_bytes(tile, variant))


def workspace(tile: Tile, variant: Variant, m: int, n: int, k: int, batch: int, multiprocessors: int) -> WorkspaceSize:
    """A slot of partial sums for each block, unless tiles have one part."""
    tiles_n, tiles_m = tile.grid(m, n)
    parts = parts_of(tile, m, n, k, batch, multiprocessors)
    return WorkspaceSize(batch * tiles_m * tiles_n * parts * tile.bm * tile.bn if parts > 1 else 0, 0)
