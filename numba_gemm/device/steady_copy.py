"""The copies of `tile_copy` for a main loop that has no instructions to spare for addresses.

A thread's addresses differ from copy to copy by constants and multiples of the leading dimension, and from tile
to tile by one step. So its place is worked out once, as offsets from the start of the operand and of the
shared tile; arrays that begin there (`batch.moved`) make constants of all the rest:

    place: (from, to, step, left)      source = moved(source, from), tile = moved(tile, to)
    for each tile of K:                start_part(0, source, tile, stage, left), start_part(1, …), …
                                       source = moved(source, step)

A tile can be started in parts, so that copies need not all queue up for the memory pipeline at once, with what the
threads want to read behind them. (That this helps is an assumption carried over; it was not timed here.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import int64, uint32

from numba_gemm.compiler.target import device_function
from numba_gemm.device.async_copy import cp_async4, cp_async4_or_zero, cp_async16, cp_async16_or_zero
from numba_gemm.device.tile_copy import CopyShape
from numba_gemm.tile import TRANSPOSE_K


class SteadyCopy(NamedTuple):
    """Device functions that start the copies of one tile after another."""

    #: (source, line0, line_end, k0, thread) → (from, to, step, left): the thread's first element in the
    #: source and in the shared tile, the way to the next tile in the source, and how many lines
    #: there are from the thread's first one on.
    place: Any
    #: (part, source, tile, stage, left) starts part 0 … parts − 1 of a tile; all k of the tile have to exist.
    start_part: Any


def make_steady_copy(shape: CopyShape, parts: int) -> SteadyCopy:
    """The copy for one operand of one kernel; see `Tile.require_steady_copies` for the tiles it can copy."""
    if shape.along_k:
        count, place, copy = _transposing(shape)
    else:
        count, place, copy = _along_lines(shape)
    COUNT, SHARE, ONE = np.uint32(count), np.uint32(-(-count // parts)), np.uint32(1)

    @device_function
    def start_part(part, source, tile, stage, left):
        for i in range(part * SHARE, min((part + ONE) * SHARE, COUNT)):
            copy(i, source, tile, stage, left)

    return SteadyCopy(place, start_part)


def _transposing(shape: CopyShape) -> tuple[int, Any, Any]:
    line_step = shape.threads // TRANSPOSE_K
    COLUMNS, STEP = np.uint32(TRANSPOSE_K), np.uint32(line_step)
    K_COPIES = np.uint32(shape.bk // TRANSPOSE_K)
    ROW, BK = np.uint32(shape.row), np.uint32(shape.bk)
    WHOLE = shape.whole
    NONE, ONE = np.uint32(0), np.uint32(1)

    @device_function
    def place(source, line0, line_end, k0, thread):
        line, k = thread // COLUMNS, thread % COLUMNS
        first = line0 + line
        left = line_end - first if first < line_end else NONE
        return int64(first) * source.shape[1] + int64(k0 + k), k * ROW + line, int64(BK), uint32(left)

    @device_function
    def copy(i, source, tile, stage, left):
        line, k = i // K_COPIES * STEP, i % K_COPIES * COLUMNS
        if WHOLE:
            cp_async4(tile, (stage, k, line), source, (line, k))
        else:
            count = ONE if line < left else NONE
            cp_async4_or_zero(tile, (stage, k, line), source, (line, k), count)

    return shape.lines // line_step * (shape.bk // TRANSPOSE_K), place, copy


def _along_lines(shape: CopyShape) -> tuple[int, Any, Any]:
    width = 4 if shape.vector else 1
    k_step = shape.threads // (shape.lines // width)
    WIDTH, THREADS_PER_ROW, STEP = (np.uint32(x) for x in (width, shape.lines // width, k_step))
    ROW, BK = np.uint32(shape.row), np.uint32(shape.bk)
    VECTOR, WHOLE = shape.vector, shape.whole
    NONE = np.uint32(0)

    @device_function
    def place(source, line0, line_end, k0, thread):
        line, k = thread % THREADS_PER_ROW * WIDTH, thread // THREADS_PER_ROW
        first = line0 + line
        left = line_end - first if first < line_end else NONE
        lead = int64(source.shape[1])
        return int64(k0 + k) * lead + int64(first), k * ROW + line, int64(BK) * lead, uint32(min(left, WIDTH))

    @device_function
    def copy(i, source, tile, stage, left):
        k = i * STEP
        if VECTOR:
            if WHOLE:
                cp_async16(tile, (stage, k, NONE), source, (k, NONE))
            else:
                cp_async16_or_zero(tile, (stage, k, NONE), source, (k, NONE), left)
        elif WHOLE:
            cp_async4(tile, (stage, k, NONE), source, (k, NONE))
        else:
            cp_async4_or_zero(tile, (stage, k, NONE), source, (k, NONE), left)

    return shape.bk // k_step, place, copy
