"""Padding: whole tiles over a ragged shape, what it costs, and what writing C costs.

padded = ⌈M/BM⌉·BM, ⌈N/BN⌉·BN, ⌈K/BK⌉·BK        work = product of the padded over that of the true sizes
"""

from __future__ import annotations

from dataclasses import dataclass

from numba_gemm.hardware.devices import Hardware
from numba_gemm.hardware.quantity import Result, require
from numba_gemm.tile import FLOAT_BYTES, Tile


@dataclass(frozen=True)
class Padding(Result):
    """A shape in whole tiles: sizes in elements, grid in blocks along M and N, steps along K."""

    m: int
    n: int
    k: int
    grid_m: int
    grid_n: int
    segments: int
    #: Multiply-adds over those of the true shape, ≥ 1.
    work: float
    #: Rows of C that exist over rows of the tiles, 0 … 1.
    useful_rows: float


def padding(m: int, n: int, k: int, tile: Tile) -> Padding:
    """The whole tiles over C[M,N] and K. A shape without multiply-adds is all of its own work."""
    require(0, m=m, n=n, k=k)
    padded_m, padded_n, padded_k = tile.padded(m, n, k)
    grid_n, grid_m = tile.grid(m, n)
    true, padded = m * n * k, padded_m * padded_n * padded_k
    return Padding(
        m=padded_m,
        n=padded_n,
        k=padded_k,
        grid_m=grid_m,
        grid_n=grid_n,
        segments=padded_k // tile.bk,
        work=padded / true if true else 1.0,
        useful_rows=m / padded_m if padded_m else 1.0,
    )


def epilogue_seconds(m: int, n: int, device: Hardware) -> float:
    """Seconds to write C[M,N] once at the bandwidth of device memory."""
    require(0, m=m, n=n)
    return m * n * FLOAT_BYTES / device.memory_bandwidth
