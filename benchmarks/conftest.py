"""pytest-benchmark with a clock that only runs while the GPU works on the candidate.

Each round launches the candidate and cuBLAS in turn, both with a cold L2, and verifies nothing: the
result was verified before the first round. The clock that pytest-benchmark reads advances by the
candidate's event time alone, so its statistics are GPU times; the ratio to cuBLAS, from the same rounds, is in
`extra_info`.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pytest
from numba import cuda

from numba_gemm import Tile, driver, ladder
from numba_gemm.comparison import Problem
from numba_gemm.device import SIMULATOR
from numba_gemm.operands import as_operand

ROUNDS, WARM_UPS = 50, 10


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if SIMULATOR or not cuda.is_available():
        for item in items:
            item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU"))


def pytest_benchmark_update_machine_info(machine_info: dict[str, Any]) -> None:
    """What was measured on, instead of the host's name and processor."""
    machine_info.clear()
    if not SIMULATOR and cuda.is_available():
        from numba_gemm.bench.environment import describe

        machine_info.update(describe())


@dataclass
class GpuClock:
    """Seconds of GPU time spent on the candidate so far."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


clock = GpuClock()


@dataclass
class Measurement:
    """Runs one version against cuBLAS inside pytest-benchmark."""

    benchmark: Any
    baseline: list[float] = field(default_factory=list)

    def run(self, version: ladder.Version, tile: Tile, problem: Problem) -> None:
        from numba_gemm.bench.cublas import Cublas
        from numba_gemm.bench.timing import GpuTimer

        m, n, _ = problem.shape
        c = cuda.to_device(np.full((m, n), np.nan, np.float32))
        operands = as_operand(problem.a, "a", 0), as_operand(problem.b, "b", 0), as_operand(c, "c", 0)
        timer, cublas = GpuTimer(), Cublas()

        (candidate,) = driver.prepare_gemm(version, tile, *operands, 0)

        def baseline() -> None:
            cublas.sgemm(*operands)

        for launch in (baseline, candidate):
            c.copy_to_device(np.full((m, n), np.nan, np.float32))
            launch()
            error = problem.reference.error(c.copy_to_host())
            assert error <= 1, f"{version} is wrong: error is {error} of its bound"
        for _ in range(WARM_UPS):
            baseline()
            candidate()

        def one_round() -> None:
            self.baseline.append(timer.time(baseline))
            clock.now += timer.time(candidate)

        self.benchmark.pedantic(one_round, rounds=ROUNDS, iterations=1, warmup_rounds=0)
        self._report(version, tile, problem.shape, candidate.loaded)

    def _report(self, version: ladder.Version, tile: Tile, shape: tuple[int, int, int], loaded: Any) -> None:
        m, n, k = shape
        seconds, baseline = self.benchmark.stats.stats.median, statistics.median(self.baseline)
        self.benchmark.extra_info.update(
            version=version.name,
            number=version.number,
            m=m,
            n=n,
            k=k,
            tile=str(tile),
            bk=tile.bk,
            stages=tile.stages,
            tflops=2 * m * n * k / seconds / 1e12,
            vs_cublas=baseline / seconds,
            cublas_seconds=baseline,
            cublas_tflops=2 * m * n * k / baseline / 1e12,
            registers=loaded.registers,
            local_bytes=loaded.local_bytes,
        )


@pytest.fixture
def measurement(benchmark: Any) -> Measurement:
    return Measurement(benchmark)


@cache
def cube(size: int) -> Problem:
    """Operands and reference, shared by the benchmarks of one size."""
    return Problem.random(size, size, size)


@pytest.fixture
def problem(size: int) -> Problem:
    return cube(size)
