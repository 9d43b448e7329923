"""Rung 4 with the columns of Bs exchanged by XOR, in chunks of 16 bytes: chunk c lies where c xor (c >> 3) says.

    threads 0 … 7 read chunks    0  2  4  6  8 10 12 14    of banks 0 8 16 24 0 8 16 24: two in each
    which lie in places          0  2  4  6  9 11 13 15    of banks 0 8 16 24 4 12 20 28: one in each

A swizzle does what padding does without its memory: within a row it is a permutation, made of bits of the place, so
that a reader computes it as easily as a writer. It has to move whole chunks. On single floats, x xor (x >> 3), it is a
permutation too, but tears the four floats of a 16-byte access apart.

It takes the conflicts of B that `split_columns` takes: 512 wavefronts per tile instead of 1024. The address arithmetic
that it is said to cost is done once, before the main loop, which has the instructions of rung 4, one by one.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
from numba import uint32

from numba_gemm.compiler.target import device_function
from numba_gemm.kernels import v4_vectorized
from numba_gemm.kernels.detours import layouts
from numba_gemm.kernels.detours.layouts import Layout, make_kernel_with_layout, rung_4_layout
from numba_gemm.kernels.interface import PLAIN, Traits, plain_steps
from numba_gemm.kernels.v4_vectorized import DEFAULT_TILE
from numba_gemm.tile import Tile

__all__ = ["DEFAULT_TILE", "SIGNATURE", "SMALL_TILE", "STRUCTURE", "TRAITS", "check", "make_kernel", "steps"]

SMALL_TILE = Tile(bm=8, bn=64, bk=4, tm=4, tn=8)  # 16 chunks per row: with 8 or fewer nothing would move
TRAITS = Traits(alignment=16)
STRUCTURE = replace(v4_vectorized.STRUCTURE, swizzled=True)
SIGNATURE = PLAIN


def check(tile: Tile) -> None:
    """The constraints of rung 4, and rows of Bs of a power of two, inside which XOR stays; else ValueError."""
    layouts.check(tile)
    if tile.bn & (tile.bn - 1):
        raise ValueError(f"{tile}: bn = {tile.bn} is not a power of two; the swizzle would leave the row")


def layout(tile: Tile) -> Layout:
    """Chunks of four columns of Bs in exchanged places."""
    VECTOR, BITS = np.uint32(4), np.uint32(3)

    @device_function
    def by_chunk(k, n, q):
        chunk = n // VECTOR
        return k, uint32((chunk ^ (chunk >> BITS)) * VECTOR) + q

    return rung_4_layout(tile)._replace(b_place=by_chunk)


@cache
def make_kernel(tile: Tile):
    return make_kernel_with_layout(tile, layout(tile))


steps = plain_steps(make_kernel, TRAITS)
