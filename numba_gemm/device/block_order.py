"""The order in which blocks take the tiles of C, so that those that run together share operands in the L2.

Blocks start in the order of their numbers, as many at a time as fit on the GPU. If they took the tiles row by
row, a wave of 132 blocks would read few rows of A and all of B, again for each wave. Taken by groups of
rows, and down the columns of a group, the tiles of a wave form a compact part of C:

    group = 2      0  2  4  6  8      a wave reads `group` tile rows of A
                   1  3  5  7  9      and as many tile columns of B as it reaches
                  10 11 12 13 14      the last group may have fewer rows
"""

from __future__ import annotations

from numba import uint32

from numba_gemm.device.integer import quotient


def tile_of_block(block, tiles_m, tiles_n, group):
    """(tile_m, tile_n) of the block with that number, 0 … tiles_m·tiles_n − 1; each tile has exactly one."""
    first = uint32(quotient(block, group * tiles_n) * group)  # rows in the groups before
    rows = uint32(min(group, tiles_m - first))
    within = uint32(block - first * tiles_n)
    tile_n = quotient(within, rows)
    return uint32(first + within - tile_n * rows), tile_n
