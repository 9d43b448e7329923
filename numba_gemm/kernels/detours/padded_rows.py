"""Rung 3 with rows of As one float longer, As[BM][BK+1]: the classical cure for a conflict that is not there.

A column of As is what a thread reads for one k. With rows of 8 floats the two rows of threads of a warp are 64
floats apart, in the same bank; with 9 they are 72 apart, 8 banks. So says the rule for reads of one float, and it adds
what the cure costs: rows of 9 floats do not begin at multiples of 16 bytes, so no 16-byte reads.

The machine code has it otherwise. A thread's 8 rows of 9 floats are 72 floats in one piece, which begins at a multiple
of 16 bytes: the compiler reads all of it, padding included, by 18 accesses of 16 bytes per tile where rung 3 has 16. A
16-byte read of two addresses per warp takes two wavefronts with and without padding, so there is no conflict to
cure. But the stores of A, free of conflicts in rung 3, now take 64 wavefronts per tile instead of 32: rows of
9 floats meet in a bank after 32. All in all 96 + 1312 wavefronts instead of 64 + 1280.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from numba_gemm.kernels import v3_register
from numba_gemm.kernels.interface import PLAIN, Traits, plain_steps
from numba_gemm.kernels.v3_register import DEFAULT_TILE, make_register_kernel
from numba_gemm.tile import Tile

__all__ = ["DEFAULT_TILE", "SIGNATURE", "SMALL_TILE", "STRUCTURE", "TRAITS", "check", "make_kernel", "steps"]

SMALL_TILE = Tile(bm=8, bn=8, bk=4, tm=2, tn=4)  # for the simulator, where each thread is a Python thread
TRAITS = Traits()
STRUCTURE = replace(v3_register.STRUCTURE, a_padding=1)
SIGNATURE = PLAIN


def check(tile: Tile) -> None:
    """The constraints of rung 3, with room for one more float per row of As; else ValueError."""
    tile.require_scalar_copies()
    tile.require_stages(1, 1)
    tile.require_static_shared(padding=tile.bm)


@cache
def make_kernel(tile: Tile):
    return make_register_kernel(tile, a_stride=tile.bk + 1)


steps = plain_steps(make_kernel, TRAITS)
