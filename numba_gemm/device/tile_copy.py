"""Asynchronous copies of an operand's tile into shared memory, from any layout, with edges.

An operand is seen as lines along K: M lines of A, or N of B. In shared memory a tile is always
`tile[stage, k, line]`: what the threads read for one k lies side by side. In global memory

- lines may be neighbours (B as usual, or A transposed): `source[k, line]`. The copy runs along lines, by 16
  bytes where all addresses allow it, else by 4;
- or k may be (A as usual, or B transposed): `source[line, k]`. The copy transposes on the way, by 4
  bytes. Rows of the shared tile are 4 floats longer than the tile then, so that the 8 k × 4 lines that a warp
  writes fall into 32 different banks.

What lies outside the operand, lines ≥ `line_end` or k ≥ `k_end`, is not read and arrives as 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from numba_gemm.compiler.target import device_function
from numba_gemm.device.async_copy import cp_async4, cp_async4_or_zero, cp_async16, cp_async16_or_zero

#: Longer rows where the copy transposes, see above.
_TRANSPOSE_PADDING = 4


@dataclass(frozen=True)
class CopyShape:
    """What decides the code of a copy: the tile's lines (BM or BN) and bk, the block's threads, the source's layout."""

    lines: int
    bk: int
    threads: int
    #: Whether k is the contiguous index of the source.
    along_k: bool
    #: Whether 16-byte accesses are allowed: addresses, leading dimension and batch stride.
    vector: bool
    #: Whether every tile lies inside the operand, so that nothing has to be checked.
    whole: bool

    @property
    def row(self) -> int:
        """Floats in a row of the shared tile."""
        return self.lines + (_TRANSPOSE_PADDING if self.along_k else 0)


class TileCopy(NamedTuple):
    """Device functions that start the copies of one tile; the caller commits and waits.

    Both take (source, tile, stage, line0, line_end, k0, thread, …): the tile's first line and first k in the
    source, the end of the lines, the thread's number in the block.
    """

    #: A tile whose k all exist.
    start: Any
    #: The one tile that may end early, with one more argument: k_end.
    start_partial: Any


def make_tile_copy(shape: CopyShape) -> TileCopy:
    """The functions that copy tiles of one operand into tile[stage, k, line], for one kernel."""
    if shape.along_k:
        return _transposing_copy(shape)
    return _vector_copy(shape) if shape.vector else _scalar_copy(shape)


def _transposing_copy(shape: CopyShape) -> TileCopy:
    BK = np.uint32(shape.bk)
    line_step = shape.threads // shape.bk
    STEP, COPIES = np.uint32(line_step), np.uint32(shape.lines // line_step)
    WHOLE = shape.whole
    NONE, ONE = np.uint32(0), np.uint32(1)

    @device_function
    def start(source, tile, stage, line0, line_end, k0, thread):
        line, k = thread // BK, thread % BK
        for copy in range(COPIES):
            at = line + copy * STEP
            if WHOLE:
                cp_async4(tile, (stage, k, at), source, (line0 + at, k0 + k))
            else:
                count = ONE if line0 + at < line_end else NONE
                cp_async4_or_zero(tile, (stage, k, at), source, (line0 + at, k0 + k), count)

    @device_function
    def start_partial(source, tile, stage, line0, line_end, k0, thread, k_end):
        line, k = thread // BK, thread % BK
        for copy in range(COPIES):
            at = line + copy * STEP
            count = ONE if line0 + at < line_end and k0 + k < k_end else NONE
            cp_async4_or_zero(tile, (stage, k, at), source, (line0 + at, k0 + k), count)

    return TileCopy(start, start_partial)


def _vector_copy(shape: CopyShape) -> TileCopy:
    VECTOR = np.uint32(4)
    ROW, BK = np.uint32(shape.lines // 4), np.uint32(shape.bk)
    k_step = shape.threads // (shape.lines // 4)
    STEP, COPIES = np.uint32(k_step), np.uint32(-(-shape.bk // k_step))
    EVERY_THREAD = shape.bk % k_step == 0  # else a tile has fewer vectors than the block has threads
    WHOLE = shape.whole
    NONE = np.uint32(0)

    @device_function
    def inside(line, line_end):
        """How many of the four lines from `line` on exist: all or none, as `CopyShape.vector` says."""
        return VECTOR if line < line_end else NONE

    @device_function
    def start(source, tile, stage, line0, line_end, k0, thread):
        line, k = thread % ROW * VECTOR, thread // ROW
        for copy in range(COPIES):
            at = k + copy * STEP
            if EVERY_THREAD or at < BK:
                if WHOLE:
                    cp_async16(tile, (stage, at, line), source, (k0 + at, line0 + line))
                else:
                    count = inside(line0 + line, line_end)
                    cp_async16_or_zero(tile, (stage, at, line), source, (k0 + at, line0 + line), count)

    @device_function
    def start_partial(source, tile, stage, line0, line_end, k0, thread, k_end):
        line, k = thread % ROW * VECTOR, thread // ROW
        for copy in range(COPIES):
            at = k + copy * STEP
            if EVERY_THREAD or at < BK:
                count = inside(line0 + line, line_end) if k0 + at < k_end else NONE
                cp_async16_or_zero(tile, (stage, at, line), source, (k0 + at, line0 + line), count)

    return TileCopy(start, start_partial)


def _scalar_copy(shape: CopyShape) -> TileCopy:
    LINES, BK = np.uint32(shape.lines), np.uint32(shape.bk)
    k_step = shape.threads // shape.lines
    STEP, COPIES = np.uint32(k_step), np.uint32(-(-shape.bk // k_step))
    EVERY_THREAD = shape.bk % k_step == 0
    WHOLE = shape.whole
    NONE, ONE = np.uint32(0), np.uint32(1)

    @device_function
    def start(source, tile, stage, line0, line_end, k0, thread):
        line, k = thread % LINES, thread // LINES
        for copy in range(COPIES):
            at = k + copy * STEP
            if EVERY_THREAD or at < BK:
                if WHOLE:
                    cp_async4(tile, (stage, at, line), source, (k0 + at, line0 + line))
                else:
                    count = ONE if line0 + line < line_end else NONE
                    cp_async4_or_zero(tile, (stage, at, line), source, (k0 + at, line0 + line), count)

    @device_function
    def start_partial(source, tile, stage, line0, line_end, k0, thread, k_end):
        line, k = thread % LINES, thread // LINES
        for copy in range(COPIES):
            at = k + copy * STEP
            if EVERY_THREAD or at < BK:
                count = ONE if line0 + line < line_end and k0 + at < k_end else NONE
                cp_async4_or_zero(tile, (stage, at, line), source, (k0 + at, line0 + line), count)

    return TileCopy(start, start_partial)
