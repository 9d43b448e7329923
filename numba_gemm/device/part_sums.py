"""Sums of which several threads of a block hold parts, added in an order that never changes.

`PARTS` threads have parts of the same four columns. A few rows at a time, every thread writes its parts to shared
memory; after a barrier the sums, one per thread and side by side, each add up their parts. Parts lie four floats
further than their size, so that the lanes of a warp that hold parts of the same columns write to different banks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import cuda, float32, uint32

from numba_gemm.compiler.target import device_function
from numba_gemm.compiler.unroll import unroll

#: Rows that are added up together: more would need more shared memory, fewer more barriers.
_ROWS_TOGETHER = 4
_PADDING = 4


@dataclass(frozen=True)
class PartsShape:
    """Rows and columns of the sums of a block, and among how many threads each is shared."""

    rows: int
    columns: int
    parts: int

    @property
    def rows_together(self) -> int:
        """Rows whose parts are in shared memory at a time."""
        return min(self.rows, _ROWS_TOGETHER)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the array in shared memory, in floats: a row per part."""
        return self.parts, self.rows_together * self.columns + _PADDING

    @property
    def threads(self) -> int:
        """Threads per block: one per part of four columns."""
        return self.parts * self.columns // 4


def make_part_sums(shape: PartsShape, deliver: Any) -> Any:
    """Device function (shared, acc, part, group, thread, *where) that calls deliver(sum, row, column, *where).

    `shared` is an array of `shape.shape`, which all threads have finished using for anything else after the first
    barrier in here; acc[row, 0 … 3] are a thread's parts of columns 4·group … 4·group + 3; rows and columns count
    from the block's first.
    """
    COLUMNS, PARTS, THREADS = (np.uint32(x) for x in (shape.columns, shape.parts, shape.threads))
    TOGETHER, SUMS = np.uint32(shape.rows_together), np.uint32(shape.rows_together * shape.columns)
    TURNS = -(-shape.rows_together * shape.columns // shape.threads)
    EVERY_THREAD = shape.rows_together * shape.columns % shape.threads == 0
    FOUR = np.uint32(4)

    @device_function
    def one_sum(turn, shared, thread, row, where):
        at = uint32(thread + turn * THREADS)
        if EVERY_THREAD or at < SUMS:
            total = float32(0)
            for part in range(PARTS):
                total += shared[part, at]
            deliver(total, row + at // COLUMNS, at % COLUMNS, where)

    sums_of_thread = unroll(one_sum, TURNS)

    @device_function
    def some_rows(turn, shared, acc, part, group, thread, where):
        row = turn * TOGETHER
        cuda.syncthreads()  # nobody reads shared memory any more …
        for i in range(TOGETHER):
            for j in range(FOUR):
                shared[part, i * COLUMNS + FOUR * group + j] = acc[row + i, j]
        cuda.syncthreads()  # … and all parts of these rows are there
        sums_of_thread(shared, thread, row, where)

    return unroll(some_rows, shape.rows // shape.rows_together)
