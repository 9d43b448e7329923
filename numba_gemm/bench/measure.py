"""Measure versions and peers on shapes: verify, then time in turn. Both the command line and pytest-benchmark call it.

What one candidate does wrong costs its own figures and nobody else's.
"""

from __future__ import annotations

import math
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from numba import cuda

from numba_gemm.bench.candidates import AUTO, Requested, prepare_version
from numba_gemm.bench.cold import latencies
from numba_gemm.bench.limits import ffma_limit
from numba_gemm.bench.peers import Candidate, Peer, UnavailableError, peers_at
from numba_gemm.bench.product import Product
from numba_gemm.bench.progress import Report
from numba_gemm.bench.results import Row, ShapeResult, impossible, judged
from numba_gemm.bench.suite import Shape
from numba_gemm.calls.sgemm import sgemm
from numba_gemm.compiler.target import SIMULATOR
from numba_gemm.driver.timing import GpuTimer, Turns

#: Rounds of a shape, each of which times every candidate once.
ROUNDS = 30
#: Calls whose host time is taken: fewer than the driver's queue holds.
HOST_CALLS = 20


@dataclass(frozen=True)
class Harness:
    """A timer, and the limit of the device that it runs on."""

    timer: GpuTimer
    #: FLOP/s.
    ffma_limit: float


def harness() -> Harness:
    """For the current device, with a timer that has been found to flush the L2.

    Raises:
        RuntimeError: if there is no GPU, or the flush does not flush.
    """
    require_gpu("bench times kernels on a GPU")
    timer = GpuTimer()
    latencies(timer)
    return Harness(timer, ffma_limit(timer))


def require_gpu(purpose: str) -> None:
    """Raises RuntimeError, with the purpose, where there is none that CUDA can use."""
    if SIMULATOR:
        raise RuntimeError(f"{purpose}; unset NUMBA_ENABLE_CUDASIM")
    if not cuda.is_available():
        raise RuntimeError(
            f"{purpose}; there is none that CUDA can use here: `numba-gemm info` says why, and `numba-gemm explain` "
            "estimates times without one"
        )


def silent(what: str, further: int) -> None:
    """A report to nobody."""
    del what, further


class ShapeRun:
    """One shape: prepare, then so many rounds, then the result."""

    def __init__(
        self, shape: Shape, requested: Sequence[Requested], harness: Harness, peers: Sequence[Peer] | None = None
    ) -> None:
        self.shape = shape
        self._requested = {str(version): version for version in requested}
        self._peers = {peer.name: peer for peer in (peers_at(shape) if peers is None else peers)}
        self._harness = harness
        self._rows: dict[str, Row] = {}
        self._candidates: dict[str, Candidate] = {}

    @property
    def steps(self) -> int:
        """How often `prepare` reports: once a candidate, and once for the operands."""
        return 1 + len(self._peers) + len(self._requested)

    def prepare(self, report: Report) -> None:
        """Compile, load and verify all candidates, and make them ready to be timed."""
        report("operands, and a float64 reference", 0)
        product = Product(self.shape)
        report("", 1)
        # Peers first: the first right result is what all of C is held against, and cuBLAS's is not ours.
        for name, peer in self._peers.items():
            report(f"verify {name}", 0)
            self._try(name, True, product, partial(peer.prepare, product, self._harness.timer))
            report("", 1)
        for name, version in self._requested.items():
            report(f"compile and verify {name}", 0)
            self._try(name, False, product, partial(prepare_version, version, product))
            report("", 1)
        launches = {name: candidate.launch for name, candidate in self._candidates.items()}
        self.cold = Turns(self._harness.timer, launches)
        self.warm = Turns(self._harness.timer, launches, warm=True)
        self._product = product

    def _try(self, name: str, peer: bool, product: Product, prepare: Callable[[], Candidate]) -> None:
        row = Row(name, peer)
        try:
            with warnings.catch_warnings():
                if peer:  # what another library says to its users does not concern the measurement
                    warnings.simplefilter("ignore")
                candidate = prepare()
                error = product.error(candidate.launch)
        except Exception as problem:  # of a library that is not ours, or a bug: the others have to go on
            self._rows[name] = replace(row, problem=_in_one_line(problem))
            return
        problem_of_result = judged(error)
        self._rows[name] = replace(
            row,
            version=candidate.version,
            tile=candidate.tile,
            registers=candidate.registers,
            local_bytes=candidate.local_bytes,
            error=error if math.isfinite(error) else None,  # JSON knows no other numbers
            problem=problem_of_result,
            wrong=problem_of_result is not None,
        )
        if problem_of_result is None:
            self._candidates[name] = candidate

    def measure_host(self) -> None:
        """The host time of a call of `sgemm` with the product's arrays, for each version that was right."""
        for name in self._candidates:
            if name in self._requested:
                version = self._requested[name]
                try:
                    host = _host_seconds(self._product, AUTO if isinstance(version, str) else version.name)
                except (RuntimeError, ValueError, TypeError) as problem:
                    self._rows[name] = replace(self._rows[name], problem=f"sgemm: {_in_one_line(problem)}")
                else:
                    self._rows[name] = replace(self._rows[name], host=host)

    def result(self) -> ShapeResult:
        """After as many rounds as the caller has had."""
        limit, flops = self._harness.ffma_limit, self._product.flops
        rows = dict(self._rows)
        for turns, cache in ((self.cold, "cold"), (self.warm, "warm")):
            for name, times in turns.times.items():
                if not times.seconds:
                    continue
                problem = impossible(flops, times.median, limit)
                row = rows[name]
                row = replace(row, cold=times.median) if cache == "cold" else replace(row, warm=times.median)
                rows[name] = replace(row, problem=problem, wrong=True) if problem else row
        rounds = max(
            (len(times.seconds) for turns in (self.cold, self.warm) for times in turns.times.values()), default=0
        )
        ordered = [*self._requested, *self._peers]
        return ShapeResult(self.shape, tuple(rows[name] for name in ordered), rounds, limit)


def run(
    shapes: Sequence[Shape],
    requested: Sequence[Requested],
    harness: Harness,
    report: Report,
    *,
    cold: bool = True,
    warm: bool = True,
    rounds: int = ROUNDS,
) -> Iterator[ShapeResult]:
    """Shape after shape, each when it is done. `report` is told `steps` steps."""
    for shape in shapes:
        shape_run = ShapeRun(shape, requested, harness)
        shape_run.prepare(report)
        for turns, wanted, what in ((shape_run.cold, cold, "cold"), (shape_run.warm, warm, "warm")):
            if not wanted:
                continue
            report(f"time, {what} L2", 0)
            turns.warm_up()
            for _ in range(rounds):
                turns.round()
                report("", 1)
        shape_run.measure_host()
        yield shape_run.result()


def steps(shapes: Sequence[Shape], requested: Sequence[Requested], *, cold: bool, warm: bool, rounds: int) -> int:
    """How many steps `run` reports."""
    versions = len(dict.fromkeys(map(str, requested)))
    return sum(1 + versions + len(peers_at(shape)) + rounds * (cold + warm) for shape in shapes)


def _host_seconds(product: Product, version: str) -> float:
    """Median of calls that are not waited for."""
    a, b, c = product.arrays

    def once() -> float:
        start = time.perf_counter()
        sgemm(a, b, c, version=version)
        return time.perf_counter() - start

    once()  # what a call of this layout prepares at its first time
    seconds = statistics.median(once() for _ in range(HOST_CALLS))
    cuda.synchronize()
    return seconds


def _in_one_line(problem: Exception) -> str:
    text = " ".join(str(problem).split())
    return text if isinstance(problem, UnavailableError) else f"{type(problem).__name__}: {text}"
