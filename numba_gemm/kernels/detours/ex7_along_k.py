"""ex7 of the ladder for the RTX 5080: register tiles whose fragments are read along k, for A and for B.

    As[m][k], Bs[n][k]     a thread reads 4 k of each of its 4 rows and 4 columns: 8 accesses of 16 bytes
                           for 4 · 16 multiply-adds, a quarter of what single floats would take

The source writes the inner loop this way, four k at a time; here the compiler does, and the main loop reads 128 times
16 bytes for 1024 FFMA. Since B comes with its rows along n, the copy transposes it, by four scalar stores.

It has a price that the source's listing does not show. Rows of 64 floats all begin in bank 0: the 16 columns that a
warp reads at once meet in four banks, and so do the stores that transpose B. A tile takes 17408 wavefronts of
reads for 8192 FFMA of the block's warps, 11 times what their data would need and 5 times what the layout of `ex6`
takes. An SM has one wavefront and up to four FFMA per cycle, so shared memory bounds this kernel at an eighth of the
FP32 peak on 128 lanes. The source reports this step as faster than the one before; whatever it ran had another layout
or other threads.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from numba_gemm.compiler.target import device_function
from numba_gemm.kernels import v4_vectorized
from numba_gemm.kernels.detours.layouts import Layout, a_by_row, check, make_kernel_with_layout, rung_4_layout
from numba_gemm.kernels.interface import PLAIN, Traits, plain_steps
from numba_gemm.tile import Tile

__all__ = ["DEFAULT_TILE", "SIGNATURE", "SMALL_TILE", "STRUCTURE", "TRAITS", "check", "make_kernel", "steps"]

DEFAULT_TILE = Tile(bm=64, bn=64, bk=64, tm=4, tn=4)
SMALL_TILE = Tile(bm=8, bn=8, bk=4, tm=4, tn=4)  # for the simulator, where each thread is a Python thread
TRAITS = Traits(alignment=16)
STRUCTURE = replace(v4_vectorized.STRUCTURE, a_in_lines=True, b_in_lines=True, turns_a=False)
SIGNATURE = PLAIN


def layout(tile: Tile) -> Layout:
    """Both tiles with the k of a line side by side."""

    @device_function
    def b_by_column(k, n, q):
        return n + q, k

    return rung_4_layout(tile)._replace(
        a_tile=(tile.bm, tile.bk), a_place=a_by_row, b_tile=(tile.bn, tile.bk), b_place=b_by_column
    )


@cache
def make_kernel(tile: Tile):
    return make_kernel_with_layout(tile, layout(tile))


steps = plain_steps(make_kernel, TRAITS)
