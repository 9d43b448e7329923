"""Copies between layouts: pad with zeros, crop, make contiguous. One element per thread and turn.

Rungs 2 to 5 take whole tiles of contiguous memory. Anything else is brought into that form by this
kernel and brought back by it: `target[i, j] = source[i, j]`, and 0 where the source has no such element.
Padding with zeros is exact: they add nothing to any sum of products.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import cuda, float32, uint32

from numba_gemm.kernels.interface import STAGING, Array, Kernel, Step
from numba_gemm.tile import LaunchConfig

BLOCK_ROWS, BLOCK_COLUMNS = 8, 32
MAX_GRID_Y = 65535


@cache
def make_kernel():
    ROWS, COLUMNS = np.uint32(BLOCK_ROWS), np.uint32(BLOCK_COLUMNS)

    @cuda.jit
    def copy_matrix(source, target):  # both with any strides; the target's shape decides
        col = uint32(cuda.blockIdx.x) * COLUMNS + uint32(cuda.threadIdx.x)
        first_row = uint32(cuda.blockIdx.y) * ROWS + uint32(cuda.threadIdx.y)
        if col < target.shape[1]:
            # A grid has at most 65535 rows of blocks; a tall matrix takes several turns.
            for row in range(first_row, uint32(target.shape[0]), uint32(cuda.gridDim.y) * ROWS):
                if row < source.shape[0] and col < source.shape[1]:
                    target[row, col] = source[row, col]
                else:
                    target[row, col] = float32(0)

    return copy_matrix


def step(source: Array, target: Array) -> Step:
    """The launch that copies `source` into `target`, matrices of any shapes and strides; the target is not empty."""
    rows, columns = target.shape
    grid = (-(-columns // BLOCK_COLUMNS), min(-(-rows // BLOCK_ROWS), MAX_GRID_Y))
    return Step(Kernel(make_kernel, (), STAGING), LaunchConfig(grid, (BLOCK_COLUMNS, BLOCK_ROWS)), (source, target))
