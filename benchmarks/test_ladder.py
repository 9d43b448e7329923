"""The rungs on cubes, cold L2, against cuBLAS in the same rounds."""

from __future__ import annotations

import pytest

from benchmarks.conftest import Measurement, clock
from numba_gemm import Version
from numba_gemm.driver.compare import KnownProduct
from numba_gemm.ladder import RUNGS

SIZES = (1024, 2048, 4096)


@pytest.mark.parametrize("shape", [(size, size, size) for size in SIZES], ids="{0[0]}".format)
@pytest.mark.parametrize("version", RUNGS, ids=lambda version: version.name)
@pytest.mark.benchmark(group="ladder", timer=clock)
def test_version(measurement: Measurement, version: Version, problem: KnownProduct) -> None:
    measurement.version_against_cublas(version, version.default_tile, problem)
