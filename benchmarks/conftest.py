"""pytest-benchmark with a clock that only runs while the GPU works on the candidate.

Each round launches a baseline and the candidate in turn, both with a cold L2, and verifies nothing: results
were verified before the first round. The clock that pytest-benchmark reads advances by the candidate's
event time alone, so its statistics are GPU times; the ratio to the baseline, from the same rounds, is in
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
from numba_gemm.bench.cublas import Cublas
from numba_gemm.bench.timing import GpuTimer, Launch
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


def pytest_benchmark_update_commit_info(commit_info: dict[str, Any]) -> None:
    """Without a repository (a copy of the tree on a GPU machine) there is no commit, which is no error."""
    commit_info.pop("error", None)


@dataclass
class GpuClock:
    """Seconds of GPU time spent on the candidate so far."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


clock = GpuClock()


@dataclass
class Measurement:
    """Times a candidate against a baseline, in turn, inside pytest-benchmark."""

    benchmark: Any
    _baseline_seconds: list[float] = field(default_factory=list)

    def compare(self, candidate: Launch, baseline: Launch, /, *, flops: int, **extra: Any) -> None:
        """`extra` goes to `extra_info`, besides the rates and the ratio of the medians."""
        timer = GpuTimer()
        for _ in range(WARM_UPS):
            baseline()
            candidate()

        def one_round() -> None:
            self._baseline_seconds.append(timer.time(baseline))
            clock.now += timer.time(candidate)

        self.benchmark.pedantic(one_round, rounds=ROUNDS, iterations=1, warmup_rounds=0)
        seconds, baseline_seconds = self.benchmark.stats.stats.median, statistics.median(self._baseline_seconds)
        self.benchmark.extra_info.update(
            tflops=flops / seconds / 1e12,
            baseline_seconds=baseline_seconds,
            baseline_tflops=flops / baseline_seconds / 1e12,
            vs_baseline=baseline_seconds / seconds,
            **extra,
        )

    def version_against_cublas(self, version: ladder.Version, tile: Tile, problem: Problem) -> None:
        """Both are verified on a C full of NaN before they are timed."""
        c = Target(problem)
        cublas = Cublas()
        (candidate,) = driver.prepare_gemm(version, tile, *c.operands, 0)
        loaded = candidate.loaded
        assert loaded is not None
        c.verify(candidate, str(version))
        c.verify(lambda: cublas.sgemm(*c.operands), "cuBLAS")
        m, n, k = problem.shape
        self.compare(
            candidate,
            lambda: cublas.sgemm(*c.operands),
            flops=2 * m * n * k,
            version=version.name,
            number=version.number,
            baseline="cuBLAS",
            m=m,
            n=n,
            k=k,
            tile=str(tile),
            bk=tile.bk,
            stages=tile.stages,
            registers=loaded.registers,
            local_bytes=loaded.local_bytes,
        )


class Target:
    """A C for a problem, and the three operands as the driver takes them."""

    def __init__(self, problem: Problem) -> None:
        m, n, _ = problem.shape
        self.problem = problem
        self.array = cuda.to_device(np.full((m, n), np.nan, np.float32))
        self.operands = tuple(as_operand(array, "operand", 0) for array in (problem.a, problem.b, self.array))

    def verify(self, launch: Launch, name: str) -> None:
        """Run it once on a C full of NaN, and compare with the float64 product."""
        self.array.copy_to_device(np.full(self.array.shape, np.nan, np.float32))
        launch()
        error = self.problem.reference.error(self.array.copy_to_host())
        assert error <= 1, f"{name} is wrong: its error is {error} times the bound"


@pytest.fixture
def measurement(benchmark: Any) -> Measurement:
    return Measurement(benchmark)


@cache
def shared_problem(m: int, n: int, k: int) -> Problem:
    """Operands and reference, made once for all benchmarks of a shape."""
    return Problem.random(m, n, k)


@pytest.fixture
def problem(shape: tuple[int, int, int]) -> Problem:
    return shared_problem(*shape)
