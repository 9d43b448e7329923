"""The cp.async pipeline over its depth S and the tile's BK, at 4096³."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.conftest import Measurement, clock
from numba_gemm import ladder
from numba_gemm.driver.compare import KnownProduct

VERSION = ladder.find("cp_async")


@pytest.mark.parametrize("shape", [(4096, 4096, 4096)], ids=["4096"])
@pytest.mark.parametrize("bk", [8, 16, 32])
@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.benchmark(group="pipeline", timer=clock)
def test_stages_and_bk(measurement: Measurement, stages: int, bk: int, problem: KnownProduct) -> None:
    measurement.version_against_cublas(VERSION, replace(VERSION.default_tile, bk=bk, stages=stages), problem)
