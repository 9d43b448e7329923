"""`tune`: time the candidates for one product on this device, and remember the fastest."""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from numba import cuda

from numba_gemm.auto import database
from numba_gemm.auto.candidates import candidates
from numba_gemm.auto.entry import Choice, Entry, Timed
from numba_gemm.bench.progress import bar
from numba_gemm.bench.trial import Trial
from numba_gemm.calls import checks
from numba_gemm.compiler.target import SIMULATOR
from numba_gemm.driver import cuda_api
from numba_gemm.ladder import Version
from numba_gemm.problem import Problem
from numba_gemm.tile import Tile

ROUNDS, WARM_UPS = 20, 5
#: How many of those that were not the fastest are stored.
_OTHERS = 3

Launch = Callable[[], object]


class Measured(Protocol):
    """GPU times of one candidate."""

    @property
    def seconds(self) -> tuple[float, ...]:
        """In the order measured."""


class Timer(Protocol):
    """What `bench.timing.GpuTimer` does: time candidates in turn, each with a cold L2."""

    def compare(self, candidates: Mapping[str, Launch], *, rounds: int, warm_ups: int) -> Mapping[str, Measured]:
        """So many rounds that time each candidate once."""


@dataclass(frozen=True)
class Tuning:
    """What `tune` found for one product."""

    key: Problem
    #: All candidates, the fastest first.
    times: tuple[Timed, ...]
    #: Candidates whose result was wrong, and their error in units of the bound. Each is a bug; none is stored.
    wrong: tuple[tuple[Choice, float], ...]
    #: The file that remembers the fastest.
    path: Path

    @property
    def best(self) -> Timed:
        return self.times[0]

    @property
    def version(self) -> Version:
        return self.best.choice.version

    @property
    def tile(self) -> Tile:
        return self.best.choice.tile

    @property
    def seconds(self) -> float:
        """Median GPU time with a cold L2."""
        return self.best.seconds

    @property
    def tflops(self) -> float:
        return self.key.flops / self.seconds / 1e12

    def to_dict(self) -> dict[str, Any]:
        """The key, the fastest and all others with their times, for JSON."""
        return {
            **Entry(self.best, self.times[1:]).to_dict(self.key),
            "tflops": self.tflops,
            "wrong": [{**choice.to_dict(), "error": error} for choice, error in self.wrong],
            "path": str(self.path),
        }


def tune(
    m: int,
    n: int,
    k: int,
    *,
    batch: int | None = None,
    trans_a: bool = False,
    trans_b: bool = False,
    aligned: bool = True,
    rounds: int = ROUNDS,
    progress: bool = True,
) -> Tuning:
    """Time the versions and tiles that may be fastest for a product on the current device; `"auto"` then uses the best.

    Each candidate is verified before it is timed. All are timed in turn, with a cold L2. The fastest is stored in the
    user's cache folder, for this device model, driver and package version; this process uses it at once, others from
    their start. The first time may take minutes, because each candidate is compiled.

    A tuned tile may add in another order, so `"auto"` may give other bits than without. Who needs the same bits
    everywhere passes `version` and `tile`, or sets NUMBA_GEMM_TUNING=0: then "auto" looks at nothing that was measured.

    Args:
        m, n, k, batch, trans_a, trans_b: the product, as for `plan`.
        aligned: whether to measure operands at addresses that are multiples of 16 bytes. A shape or layout that does
            not allow 16-byte accesses is tuned for what it is.
        rounds: how often each candidate is timed; medians count.
        progress: whether to show a progress bar on standard error. There is one only if rich is installed (the
            extra `cli`) and standard error is a terminal.

    Raises:
        TypeError, ValueError: for an extent that is no int ≥ 1, or an option of the wrong type.
        RuntimeError: without a GPU, in the simulator, or if no candidate is right.
        OSError: if the result cannot be stored; if that can be known, before anything is timed.
    """
    for name, extent in (("m", m), ("n", n), ("k", k), ("rounds", rounds), ("batch", 1 if batch is None else batch)):
        checks.check_extent(name, extent)
        if extent == 0:
            raise ValueError(f"{name} is 0; there is nothing to time")
    for name, flag in (("trans_a", trans_a), ("trans_b", trans_b), ("aligned", aligned), ("progress", progress)):
        checks.check_flag(name, flag)
    timer = _gpu_timer()
    device = cuda_api.current_device()
    here = database.identity(device)
    if here is None:
        raise RuntimeError("tune times kernels on a GPU; unset NUMBA_ENABLE_CUDASIM")
    database.require_writable(here)
    trial = Trial(m, n, k, batch or 1, trans_a=bool(trans_a), trans_b=bool(trans_b), aligned=bool(aligned))
    found = candidates(trial.key, here.compute_capability)
    if not found:
        capability = ".".join(map(str, here.compute_capability))
        raise RuntimeError(f"no version that can be tuned runs on {here.device}, compute capability {capability}")
    times, wrong = measure(trial, found, timer, rounds=rounds, progress=bool(progress))
    for choice, error in wrong:
        warnings.warn(
            f"version {choice} is wrong for {trial.key}: its error is {error:.3g} times the bound; it is not used",
            RuntimeWarning,
            stacklevel=2,
        )
    if not times:
        raise RuntimeError(f"none of {len(found)} candidates for {trial.key} is right")
    database.remember(here, {trial.key: Entry(times[0], tuple(times[1 : 1 + _OTHERS]))})
    return Tuning(trial.key, tuple(times), tuple(wrong), here.path)


def measure(
    trial: Trial, choices: list[Choice], timer: Timer, *, rounds: int, progress: bool = False
) -> tuple[list[Timed], list[tuple[Choice, float]]]:
    """The right candidates with their median times, fastest first; and the wrong ones with their errors.

    A version that refuses the product (ValueError) is no candidate.
    """
    launches: dict[str, tuple[Choice, Launch]] = {}
    wrong: list[tuple[Choice, float]] = []
    with bar(str(trial.key), len(choices) + rounds, progress) as report:
        for choice in choices:
            report(f"compile and verify {choice}", 0)
            try:
                launch = trial.launch(choice)
            except ValueError:
                continue
            else:
                error = trial.error(launch)
                if error <= 1:
                    launches[str(choice)] = choice, launch
                else:
                    wrong.append((choice, error))
            finally:
                report("", 1)
        seconds: dict[str, list[float]] = {name: [] for name in launches}
        for index in range(rounds if launches else 0):
            report(f"time {len(launches)} candidates", 0)
            # One round at a time, so that the bar moves; in each, all candidates take turns.
            warm_ups = 0 if index else WARM_UPS
            measured = timer.compare(
                {name: launch for name, (_, launch) in launches.items()}, rounds=1, warm_ups=warm_ups
            )
            for name, times in measured.items():
                seconds[name].extend(times.seconds)
            report("", 1)
    timed = [Timed(choice, statistics.median(seconds[name])) for name, (choice, _) in launches.items()]
    return sorted(timed, key=lambda candidate: candidate.seconds), wrong


def _gpu_timer() -> Timer:
    if SIMULATOR or not cuda.is_available():
        raise RuntimeError(
            "tune times kernels on a GPU; "
            + ("unset NUMBA_ENABLE_CUDASIM" if SIMULATOR else "there is none that CUDA can use here")
        )
    from numba_gemm.driver.timing import GpuTimer  # measuring needs the GPU that it measures

    return GpuTimer()
