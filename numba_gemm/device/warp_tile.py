"""Which outputs of a block's tile a thread has where warps have tiles: groups of 4 × 4, spread over the warp tile.

The lanes of a warp are laid out as 4 × 8 or 8 × 4, a group each, and that map is repeated down and across until the
warp tile is full. Rung 7 draws it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from numba_gemm.compiler.target import device_function
from numba_gemm.tile import WARP, Tile


class Places(NamedTuple):
    """Device functions: where, in the block's tile, acc[i, j] of a thread stands."""

    #: thread → (m, n): row and column of the thread's first group.
    first: Any
    #: (m, i) → row.
    row: Any
    #: (n, j) → column.
    column: Any


def make_places(tile: Tile) -> Places:
    """The functions for a tile with warp tiles; rows and columns count from the block's first."""
    WM, WN = np.uint32(tile.wm), np.uint32(tile.wn)
    LANES, WARPS_N = np.uint32(WARP), np.uint32(tile.bn // tile.wn)
    FOUR_LANES_M = tile.wm // tile.tm == 4  # and eight along n, or the other way round
    NEXT_M, NEXT_N = np.uint32(4 * tile.wm // tile.tm), np.uint32(4 * tile.wn // tile.tn)  # a thread's next group
    TWO, FOUR, EIGHT = (np.uint32(x) for x in (2, 4, 8))

    @device_function
    def first(thread):
        """Lanes lie by bits 1 and 2 where there are four of them, by bits 0, 3 and 4 where there are eight."""
        warp, lane = thread // LANES, thread % LANES
        of_four = lane // TWO % FOUR
        of_eight = lane % TWO + lane // EIGHT * TWO
        lane_m, lane_n = (of_four, of_eight) if FOUR_LANES_M else (of_eight, of_four)
        return warp // WARPS_N * WM + lane_m * FOUR, warp % WARPS_N * WN + lane_n * FOUR

    @device_function
    def row(m, i):
        return m + i // FOUR * NEXT_M + i % FOUR

    @device_function
    def column(n, j):
        return n + j // FOUR * NEXT_N + j % FOUR

    return Places(first, row, column)
