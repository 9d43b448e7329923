"""Rung 4 with rows of As four floats longer, As[BK][BM+4]: the transposing stores meet no bank twice.

In rung 4 the lanes of a warp store two halves of 16 rows of A, for c = 0 and for c = 4 of a tile: As[c + q, r]. Rows of
As are 128 floats, so both halves begin in the same bank and each store takes two wavefronts. With 132 floats to a row
the halves are 4 · 132 mod 32 = 16 banks apart, and take one. Four, and not one, because rows then still
begin at multiples of 16 bytes, which the reads of fragments need.

What it brings: 32 wavefronts per tile for the stores of A instead of 64, beside 1280 for the reads of fragments, so
little. What it costs: 128 bytes of shared memory, and no instruction.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from numba_gemm.kernels import v4_vectorized
from numba_gemm.kernels.detours.layouts import Layout, make_kernel_with_layout, rung_4_layout
from numba_gemm.kernels.interface import PLAIN, Traits, plain_steps
from numba_gemm.kernels.v4_vectorized import DEFAULT_TILE
from numba_gemm.tile import Tile

__all__ = ["DEFAULT_TILE", "SIGNATURE", "SMALL_TILE", "STRUCTURE", "TRAITS", "check", "make_kernel", "steps"]

SMALL_TILE = Tile(bm=8, bn=8, bk=4, tm=4, tn=4)  # for the simulator, where each thread is a Python thread
TRAITS = Traits(alignment=16)
STRUCTURE = replace(v4_vectorized.STRUCTURE, a_padding=4)
SIGNATURE = PLAIN
#: Floats that a row of As is longer than the tile: four, so that rows still begin at multiples of 16 bytes.
PADDING = 4


def check(tile: Tile) -> None:
    """The constraints of rung 4, with room for four more floats per row of As; else ValueError."""
    tile.require_vector_copies()
    tile.require_stages(1, 1)
    tile.require_static_shared(padding=PADDING * tile.bk)


def layout(tile: Tile) -> Layout:
    """The layout of rung 4 with rows of BM + PADDING floats in As."""
    return rung_4_layout(tile)._replace(a_tile=(tile.bk, tile.bm + PADDING))


@cache
def make_kernel(tile: Tile):
    return make_kernel_with_layout(tile, layout(tile))


steps = plain_steps(make_kernel, TRAITS)
