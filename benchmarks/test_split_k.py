"""Eight rows: one tile after another of a long K, against several blocks a tile. All with the same tile.

What the two ways of adding up the parts cost is part of the time: a second kernel, or zeros before and atomic
additions.
"""

from __future__ import annotations

import pytest

from benchmarks.conftest import Measurement, clock
from numba_gemm import ladder
from numba_gemm.driver.compare import KnownProduct

TILE = ladder.find("split_k").default_tile


@pytest.mark.parametrize("shape", [(8, 4096, 4096)], ids=["8x4096x4096"])
@pytest.mark.parametrize("name", ["warp_tiled", "split_k", "split_k_atomic"])
@pytest.mark.benchmark(group="split-k", timer=clock)
def test_split_k(measurement: Measurement, problem: KnownProduct, name: str) -> None:
    measurement.version_against_cublas(ladder.find(name), TILE, problem)
