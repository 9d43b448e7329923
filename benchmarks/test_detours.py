"""The detours at 4096³, cold L2, against cuBLAS in the same rounds: in the group of the rungs, whose variants they are.

Those for few rows are left out: 4096 rows would have them read B hundreds of times. `test_skinny.py` measures them.
"""

from __future__ import annotations

import pytest

from benchmarks.conftest import Measurement, clock
from numba_gemm import VERSIONS, Version
from numba_gemm.driver.compare import KnownProduct

DETOURS = [version for version in VERSIONS if version.number is None and not version.traits.few_rows]


@pytest.mark.parametrize("shape", [(4096, 4096, 4096)], ids=["4096"])
@pytest.mark.parametrize("version", DETOURS, ids=lambda version: version.name)
@pytest.mark.benchmark(group="ladder", timer=clock)
def test_version(measurement: Measurement, version: Version, problem: KnownProduct) -> None:
    measurement.version_against_cublas(version, version.default_tile, problem)
