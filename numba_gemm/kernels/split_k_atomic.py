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
from numba_gemm.kernels.interface import (
    AMPERE,
    WITH_WORKSPACE,
    Array,
    Kernel,
    Launches,
    Step,
    Traits,
    Variant,
    Zeros,
    workspace_arguments,
)
from numba_gemm.kernels.split_k import (
    DEFAULT_TILE,
    SMALL_TILE,
    STRUCTURE,
    block_per_part,
    check,
    make_split_kernel,
    parts_of,
)
from numba_gemm.kernels.v7_warp_tiled import make_block_product
from numba_gemm.kernels.v8_stream_k import resident_blocks
from numba_gemm.problem import Problem
from numba_gemm.tile import Tile

__all__ = ["DEFAULT_TILE", "SIGNATURE", "SMALL_TILE", "STRUCTURE", "TRAITS", "check", "make_kernel", "steps"]

TRAITS = Traits(
    capabilities=frozenset({"transpose", "edges"}),
    min_cc=AMPERE,
    dynamic_shared=True,
    takes_variants=True,
    deterministic=False,
    resident_blocks=resident_blocks,
)
SIGNATURE = WITH_WORKSPACE


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


def steps(tile: Tile, variant: Variant, problem: Problem, multiprocessors: int) -> Launches:
    """C set to zero, and then all parts, which add to it. No workspace: partial sums meet in C."""
    c = Array("c", (problem.m, problem.n), (problem.c.lead, 1))
    config = block_per_part(tile, variant, problem, parts_of(tile, problem, multiprocessors))
    kernel = Kernel(make_kernel, (tile, variant), SIGNATURE)
    return Launches((Zeros(c), Step(kernel, config, workspace_arguments(problem, ()))), main_index=1)
