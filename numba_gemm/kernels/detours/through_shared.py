"""Rung 6 with outputs that go to C through shared memory, whole rows of the tile at a time.

A thread's outputs are TN neighbours in each of TM rows. Stored from registers, 16 bytes per thread, the threads of a
warp reach every TN-th float of a row at a time: with TN = 8, half of each 32-byte sector. Here what a warp stores at
once is whole lines of 128 bytes, see `device.shared_store`. The price: two barriers for each of a thread's rows, and
each output passes shared memory once.

It pays where there is little else: a few per cent at K = 64, and at 4096³ it costs a tenth (benchmarks/README.md has
the figures). The L2 collects the halves of a sector before they go to memory, and rung 6 leaves it at that.
"""

from __future__ import annotations

from functools import cache

from numba_gemm.device.shared_store import band_floats
from numba_gemm.kernels import v6_boundary
from numba_gemm.kernels.interface import Launches, Variant, general_launch
from numba_gemm.kernels.v6_boundary import (
    DEFAULT_TILE,
    SIGNATURE,
    SMALL_TILE,
    STRUCTURE,
    TRAITS,
    check,
)
from numba_gemm.problem import Problem
from numba_gemm.tile import FLOAT_BYTES, Tile

__all__ = ["DEFAULT_TILE", "SIGNATURE", "SMALL_TILE", "STRUCTURE", "TRAITS", "check", "make_kernel", "steps"]


@cache
def make_kernel(tile: Tile, variant: Variant):
    return v6_boundary.make_kernel(tile, variant, through_shared=True)


def steps(tile: Tile, variant: Variant, problem: Problem, multiprocessors: int) -> Launches:
    return general_launch(make_kernel, tile, variant, problem, shared_bytes(tile, variant))


def shared_bytes(tile: Tile, variant: Variant) -> int:
    """Bytes of the rings of A and B, or of the band of outputs that takes their place."""
    return max(v6_boundary.shared_bytes(tile, variant), band_floats(tile) * FLOAT_BYTES)
