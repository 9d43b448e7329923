"""What clearing the L2 before each launch changes, at a size whose operands fit into it and at one whose do not.

In each round every candidate is timed once with a cleared L2, and once right after itself. Both times are of a single
launch: a warm time of several in a row, as the suite has it, is shorter for another reason as well, because one launch
begins while the one before ends.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping

import pytest

from benchmarks.conftest import Measurement, Prepared, Target, clock, stop_unless_timed
from numba_gemm import Version, ladder
from numba_gemm.bench.measure import Harness
from numba_gemm.driver.compare import KnownProduct
from numba_gemm.driver.cublas import Cublas
from numba_gemm.driver.timing import ROUNDS, GpuTimer, Launch, Turns

SIZES = (1024, 4096)
VERSIONS = [ladder.find("cp_async"), ladder.find("stream_k")]


class ColdAndWarm(Turns):
    """Rounds in which each candidate is timed cold, as ever, and then warm."""

    def __init__(self, timer: GpuTimer, candidates: Mapping[str, Launch]) -> None:
        super().__init__(timer, candidates)
        self.warm: dict[str, list[float]] = {name: [] for name in candidates}

    def round(self) -> dict[str, float]:
        found = super().round()
        for name, launch in self._candidates.items():
            self.warm[name].append(self._timer.time_warm(launch, launches=1))
        return found


@pytest.mark.parametrize("shape", [(size, size, size) for size in SIZES], ids="{0[0]}".format)
@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
@pytest.mark.benchmark(group="L2", timer=clock)
def test_cold_and_warm(measurement: Measurement, harness: Harness, version: Version, problem: KnownProduct) -> None:
    target, cublas = Target(problem), Cublas()
    candidate = Prepared(version, version.default_tile, target.operands)
    launches: dict[str, Launch] = {version.name: candidate, "cuBLAS": lambda: cublas.sgemm(*target.operands[:3])}
    for name, launch in launches.items():
        target.verify(launch, name)
    stop_unless_timed(measurement.benchmark)
    turns = ColdAndWarm(harness.timer, launches)
    turns.warm_up()
    measurement.rounds(turns, version.name, ROUNDS)
    m, n, k = problem.shape
    measurement.benchmark.extra_info.update(
        version=version.name,
        baseline="cuBLAS",
        m=m,
        n=n,
        k=k,
        tile=str(version.default_tile),
        cold_seconds={name: times.median for name, times in turns.times.items()},
        warm_seconds={name: statistics.median(seconds) for name, seconds in turns.warm.items()},
    )
