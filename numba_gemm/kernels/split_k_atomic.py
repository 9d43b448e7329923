"""Split-K by atomic additions: the parts of a tile add their sums to C, in the order in which they come.

No workspace, no counters and nobody who adds up: C is set to zero, and each block adds to it. The price: float addition
is not associative, so the last bits of C depend on which block came first, and change from run to run. Nothing can
be done to finished sums either, as nobody knows when they are finished: no epilogue, no beta. And the hardware's
additions to global memory take subnormal numbers for zero (PTX ISA, `red`). For comparison with `split_k`; never chosen
for a caller who did not ask for it by name.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import cuda

from numba_gemm.compiler.target import device_function
from numba_gemm.kernels.signatures import WorkspaceSize
from numba_gemm.kernels.split_k import (
    DEFAULT_TILE,
    SMALL_TILE,
    check,
    launch_config,
    make_split_kernel,
    shared_bytes,
)
from numba_gemm.kernels.v7_warp_tiled import make_block_product
from numba_gemm.kernels.variant import Variant
from numba_gemm.tile import Tile

__all__ = ["DEFAULT_TILE", "SMALL_TILE", "check", "launch_config", "make_kernel", "shared_bytes", "workspace"]

#: The kernel adds to what is there: C has to be zero before.
ADDS_TO_C = True


@cache
def make_kernel(tile: Tile, variant: Variant):
    FOUR = np.uint32(4)

    @device_function
    def add_four(C, row, column, M, N, acc, i, j, bias, alpha, beta):
        for q in range(FOUR):
            if row < M and column + q < N:
                cuda.atomic.add(C, (row, column + q), acc[i, j + q])

    add_to_c = make_block_product(tile, variant, add_four).store

    @device_function
    def deliver(C, row, column, M, N, slot, part, parts, thread, acc, bias, alpha, beta, sums):
        add_to_c(C, row, column, M, N, acc, bias, alpha, beta)

    return make_split_kernel(tile, variant, deliver)


def workspace(tile: Tile, variant: Variant, m: int, n: int, k: int, batch: int, multiprocessors: int) -> WorkspaceSize:
    """Nothing: partial sums meet in C."""
    return WorkspaceSize(0, 0)
