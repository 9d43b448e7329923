"""Rung 4 with A as it lies in memory, As[BM][BK], unpadded: only the layout differs.

    rung 4: As[k][m]   four scalar stores per copy, 8 neighbouring m of one k are two 16-byte reads
    here:   As[m][k]   one 16-byte store per copy, 8 rows of one k lie BK floats apart

Read by the letter, a fragment is now eight scalar reads for each k, in which the two rows of threads of a warp hit the
same bank: 8 rows · 8 floats = 64 floats apart, a 2-way conflict. The compiler does not read by the letter. It
takes four k of a row at once, so the main loop has the same 32 reads of 16 bytes as rung 4, with as many
wavefronts, and the copies of A take 32 wavefronts per tile instead of 64. What it costs are registers: the fragments
of four k wait in 32 of them instead of 8, and with 128 to a thread 12 bytes are spilled. (Machine code for sm_90,
wavefronts by `numba_gemm.analysis.code.banks`.)

`ex6` of the ladder for the RTX 5080 is this file with its own tile: 64×64×64, 4×4 per thread, 32 KB of shared memory.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from numba_gemm.kernels import v4_vectorized
from numba_gemm.kernels.detours.layouts import Layout, a_by_row, check, make_kernel_with_layout, rung_4_layout
from numba_gemm.kernels.interface import PLAIN, Traits, plain_steps
from numba_gemm.kernels.v4_vectorized import DEFAULT_TILE
from numba_gemm.tile import Tile

__all__ = ["DEFAULT_TILE", "SIGNATURE", "SMALL_TILE", "STRUCTURE", "TRAITS", "check", "make_kernel", "steps"]

TILE_EX6 = Tile(bm=64, bn=64, bk=64, tm=4, tn=4)
SMALL_TILE = Tile(bm=8, bn=8, bk=4, tm=4, tn=4)  # for the simulator, where each thread is a Python thread
TRAITS = Traits(alignment=16)
STRUCTURE = replace(v4_vectorized.STRUCTURE, a_in_lines=True, turns_a=False)
SIGNATURE = PLAIN


def layout(tile: Tile) -> Layout:
    """The layout of rung 4 with A as it lies in memory: As[m, k]."""
    return rung_4_layout(tile)._replace(a_tile=(tile.bm, tile.bk), a_place=a_by_row)


@cache
def make_kernel(tile: Tile):
    return make_kernel_with_layout(tile, layout(tile))


steps = plain_steps(make_kernel, TRAITS)
