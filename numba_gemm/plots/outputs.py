"""Which thread computes which outputs of a block, as its own stores to C say when the kernel is traced."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from numba_gemm import ladder
from numba_gemm.analysis.code.accesses import one_block
from numba_gemm.analysis.code.tracing import NOT_ACCESSED
from numba_gemm.kernels.interface import Variant
from numba_gemm.tile import WARP, Tile


@dataclass(frozen=True)
class Outputs:
    """The outputs of one block.

    Attributes:
        tile: its tile.
        thread: for each of the BM × BN outputs, the thread that stores it.

    """

    tile: Tile
    thread: npt.NDArray[np.int64]

    @property
    def warp(self) -> npt.NDArray[np.int64]:
        """For each output, the warp."""
        return self.thread // WARP

    @property
    def lane(self) -> npt.NDArray[np.int64]:
        """For each output, the number of the thread in its warp."""
        return self.thread % WARP

    def rows_and_columns(self, mine: npt.NDArray[np.bool_]) -> tuple[int, int]:
        """How many different rows and columns these outputs lie in: floats of A and of B that each k needs."""
        return int(mine.any(axis=1).sum()), int(mine.any(axis=0).sum())


@cache
def outputs(name: str) -> Outputs:
    """The outputs of a block of a version with its default tile."""
    version = ladder.find(name)
    tile = version.default_tile
    launch = one_block(version, tile, Variant(), tile.stages)
    row = launch.arguments["C"].strides[0] // launch.arguments["C"].itemsize
    thread = np.full((tile.bm, tile.bn), NOT_ACCESSED)
    for access in launch.trace().accesses:
        if access.array == "C" and access.kind == "write":
            storing = np.flatnonzero(access.starts != NOT_ACCESSED)
            for offset in range(access.floats):
                rows, columns = np.divmod(access.starts[storing] + offset, row)
                thread[rows, columns] = storing
    return Outputs(tile, thread)
