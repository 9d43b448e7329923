"""pytest-benchmark with a clock that only runs while the GPU works on the candidate.

All timing is `numba_gemm.bench`'s, as for the command line: candidates in turn, each with a cold L2, verified before
the first round. The clock that pytest-benchmark reads advances by the candidate's event time alone, so its statistics
are GPU times; what the same rounds gave for the baseline, and the ratio, is in `extra_info`.

With `--benchmark-disable`, as in the parallel workers of `pytest -n`, everything is compiled and verified and nothing
is timed. Compilation is by far the longest part and stays on disk, so `make bench` does that first, on all processors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from numba import cuda

from numba_gemm import Tile, ladder
from numba_gemm.bench.measure import Harness
from numba_gemm.bench.measure import harness as make_harness
from numba_gemm.compiler.target import SIMULATOR
from numba_gemm.driver.compare import KnownProduct
from numba_gemm.driver.cublas import Cublas
from numba_gemm.driver.operands import as_operand
from numba_gemm.driver.product import Operands, in_layout, prepare_product
from numba_gemm.driver.timing import ROUNDS, WARM_UPS, GpuTimer, Launch, Turns

#: What takes longer than so many seconds is measured less often: every version has at least `FEWEST_ROUNDS`.
SLOW, FEWEST_ROUNDS, FEWEST_WARM_UPS = 20e-3, 30, 2


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Host time first, while the process is young: after all others, launches of ours took a quarter longer.
    items.sort(key=lambda item: item.path.name != "test_host_time.py")
    if SIMULATOR or not cuda.is_available():
        reason = "Numba's simulator has no clock" if SIMULATOR else "needs an NVIDIA GPU that CUDA can use"
        for item in items:
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_benchmark_update_machine_info(machine_info: dict[str, Any]) -> None:
    """What was measured on, instead of the host's name and processor."""
    machine_info.clear()
    if not SIMULATOR and cuda.is_available():
        from numba_gemm.bench.environment import describe

        machine_info.update(describe())


def pytest_benchmark_update_commit_info(commit_info: dict[str, Any]) -> None:
    """Without a repository (a copy of the tree on a GPU machine) there is no commit, which is no error."""
    commit_info.pop("error", None)


@cache
def shared_harness() -> Harness:
    """The timer, once it has been found to flush the L2; made once for all benchmarks."""
    return make_harness()


@pytest.fixture
def harness(benchmark: Any) -> Harness:
    # Side by side with other workers, a look at the flush would see what they do to the L2.
    return Harness(GpuTimer(), ffma_limit=math.inf) if benchmark.disabled else shared_harness()


def stop_unless_timed(benchmark: Any) -> None:
    """Skip what follows if this run does not time."""
    if benchmark.disabled:
        pytest.skip("verified, and not timed (--benchmark-disable, which pytest -n implies)")


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

    def compare(self, candidate: Launch, baseline: Launch, /, *, flops: int, **extra: Any) -> None:
        """`extra` goes to `extra_info`, besides the rates and the ratio of the medians."""
        stop_unless_timed(self.benchmark)
        shared = shared_harness()
        slow = max(shared.timer.time(launch) for launch in (baseline, candidate)) > SLOW
        turns = Turns(shared.timer, {"baseline": baseline, "candidate": candidate})
        turns.warm_up(FEWEST_WARM_UPS if slow else WARM_UPS)
        self.rounds(turns, "candidate", FEWEST_ROUNDS if slow else ROUNDS)
        seconds, baseline_seconds = turns.times["candidate"].median, turns.times["baseline"].median
        self.benchmark.extra_info.update(
            tflops=flops / seconds / 1e12,
            of_ffma_limit=flops / seconds / shared.ffma_limit,
            baseline_seconds=baseline_seconds,
            baseline_tflops=flops / baseline_seconds / 1e12,
            vs_baseline=baseline_seconds / seconds,
            **extra,
        )

    def rounds(self, turns: Turns, name: str, count: int) -> None:
        """So many rounds, of which pytest-benchmark sees the times of one of the candidates."""

        def one_round() -> None:
            clock.now += turns.round()[name]

        self.benchmark.pedantic(one_round, rounds=count, iterations=1, warmup_rounds=0)

    def against_cublas(self, candidate: Prepared, target: Target, name: str, **extra: Any) -> None:
        """Both are verified on a C full of NaN before they are timed."""
        cublas = Cublas()

        def baseline() -> None:
            cublas.sgemm(*target.operands[:3])

        target.verify(candidate, name)
        target.verify(baseline, "cuBLAS")
        m, n, k = target.problem.shape
        extra |= {"baseline": "cuBLAS", "m": m, "n": n, "k": k, "registers": candidate.loaded.registers}
        self.compare(candidate, baseline, flops=2 * m * n * k, **extra)

    def version_against_cublas(self, version: ladder.Version, tile: Tile, problem: KnownProduct) -> None:
        target = Target(problem)
        a, b, c, _ = target.operands
        prepared = Prepared(version, tile, Operands(in_layout(version, a), b, c))
        self.against_cublas(
            prepared,
            target,
            str(version),
            version=version.name,
            number=version.number,
            tile=str(tile),
            bk=tile.bk,
            stages=tile.stages,
            local_bytes=prepared.loaded.local_bytes,
        )


class Prepared:
    """A version's product of certain operands, with everything done but the launches."""

    def __init__(self, version: ladder.Version, tile: Tile, operands: Operands, **options: Any) -> None:
        product = prepare_product(version, tile, operands, **options)
        assert product.main is not None
        assert product.main.loaded is not None
        self.loaded, self.config = product.main.loaded, product.main.config
        self._run = product.bound(operands)

    def __call__(self) -> None:
        self._run()


class Target:
    """A C for a problem, and the three operands, row-major as the problem has them."""

    def __init__(self, problem: KnownProduct) -> None:
        m, n, _ = problem.shape
        self.problem = problem
        self.array = cuda.to_device(np.full((m, n), np.nan, np.float32))
        self.operands = Operands(*(as_operand(array, "operand", 0) for array in (problem.a, problem.b, self.array)))

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
def shared_problem(m: int, n: int, k: int) -> KnownProduct:
    """Operands and reference, made once for all benchmarks of a shape."""
    return KnownProduct.random(m, n, k)


@pytest.fixture
def problem(shape: tuple[int, int, int]) -> KnownProduct:
    return shared_problem(*shape)
