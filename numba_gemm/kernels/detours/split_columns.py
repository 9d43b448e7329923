"""Rung 4 with a thread's columns in two groups of four, half a tile apart, instead of eight neighbours.

    thread t, rung 4:   8t 8t+1 8t+2 8t+3 8t+4 8t+5 8t+6 8t+7
    here:               4t 4t+1 4t+2 4t+3             64+4t 64+4t+1 64+4t+2 64+4t+3

A 16-byte read of B by neighbouring threads then takes neighbouring 16 bytes: the starts 0, 4, 8 … go through all 32
banks, where 0, 8, 16, 24, 0 … use only half of them. The reads of B fall from 1024 wavefronts per tile to 512, all
reads from 1280 to 768, and a warp stores C in pieces of 256 bytes in a row without gaps. It costs nothing: the same
instructions, shared memory and registers within a few.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from numba_gemm.compiler.target import device_function
from numba_gemm.kernels import v4_vectorized
from numba_gemm.kernels.detours.layouts import Layout, check, make_kernel_with_layout, rung_4_layout
from numba_gemm.kernels.interface import PLAIN, Traits, plain_steps
from numba_gemm.kernels.v4_vectorized import DEFAULT_TILE
from numba_gemm.tile import Tile

__all__ = ["DEFAULT_TILE", "SIGNATURE", "SMALL_TILE", "STRUCTURE", "TRAITS", "check", "make_kernel", "steps"]

SMALL_TILE = Tile(bm=8, bn=16, bk=4, tm=4, tn=8)  # for the simulator, where each thread is a Python thread
TRAITS = Traits(alignment=16)
STRUCTURE = replace(v4_vectorized.STRUCTURE, split_columns=True)
SIGNATURE = PLAIN


def layout(tile: Tile) -> Layout:
    """A thread's groups of four columns, spread over the tile."""
    VECTOR = np.uint32(4)
    GROUP = np.uint32(tile.bn // (tile.tn // 4))  # columns from a thread's group of four to its next one

    @device_function
    def in_groups(t, j):
        return j // VECTOR * GROUP + t * VECTOR

    return rung_4_layout(tile)._replace(column=in_groups)


@cache
def make_kernel(tile: Tile):
    return make_kernel_with_layout(tile, layout(tile))


steps = plain_steps(make_kernel, TRAITS)
