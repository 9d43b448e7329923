"""Slots of a workspace: a block's sums over a part of K, put down for another block to add.

The workspace has a slot of BM · BN floats for each block. In it, the first four sums of all threads come first, then
the next four: neighbouring threads write and read neighbouring 16 bytes. A block that has dealt its outputs to its
threads in the same way need not know which output a sum belongs to; any other asks `make_owner`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import cuda, int64

from numba_gemm.compiler.target import device_function
from numba_gemm.compiler.unroll import unroll
from numba_gemm.device.batch import moved
from numba_gemm.device.vector import load4, store4
from numba_gemm.tile import Tile

#: Loads per thread under way at a time: without a limit, the compiler starts as many as there are registers, and more.
_LOADS = 8


class Slots(NamedTuple):
    """Device functions (sums, slot, thread, acc), of which each thread handles its own TM × TN sums."""

    #: Write acc[TM, TN] to a slot.
    write: Any
    #: Add what a slot holds to acc[TM, TN].
    add: Any


def make_slots(tile: Tile) -> Slots:
    """The functions for a tile; the workspace has BM · BN floats per slot."""
    SLOT, STEP = np.int64(tile.bm * tile.bn), np.uint32(4 * tile.threads)
    FOURS, FOUR = np.uint32(tile.tn // 4), np.uint32(4)
    LOADS = np.uint32(_LOADS)
    ZERO, ONE, TWO, THREE = (np.uint32(x) for x in (0, 1, 2, 3))

    @device_function
    def write_four(q, mine, acc):
        i, j = q // FOURS, q % FOURS * FOUR
        store4(mine, (q * STEP,), acc[i, j], acc[i, j + ONE], acc[i, j + TWO], acc[i, j + THREE])

    @device_function
    def add_four(q, mine, acc):
        i, j = q // FOURS, q % FOURS * FOUR
        if q % LOADS == ZERO:
            cuda.threadfence_block()  # no load is moved across
        x, y, z, w = load4(mine, (q * STEP,))
        acc[i, j] += x
        acc[i, j + ONE] += y
        acc[i, j + TWO] += z
        acc[i, j + THREE] += w

    write_fours = unroll(write_four, tile.tm * tile.tn // 4)
    add_fours = unroll(add_four, tile.tm * tile.tn // 4)

    @device_function
    def write(sums, slot, thread, acc):
        write_fours(moved(sums, int64(slot) * SLOT + int64(thread * FOUR)), acc)

    @device_function
    def add(sums, slot, thread, acc):
        add_fours(moved(sums, int64(slot) * SLOT + int64(thread * FOUR)), acc)

    return Slots(write, add)


def make_owner(tile: Tile) -> Any:
    """Device function: number of a four in a slot → (thread, i, j). It holds acc[i, j … j + 3] of that thread."""
    THREADS = np.uint32(tile.threads)
    FOURS, FOUR = np.uint32(tile.tn // 4), np.uint32(4)

    @device_function
    def owner(four):
        q = four // THREADS
        return four % THREADS, q // FOURS, q % FOURS * FOUR

    return owner
