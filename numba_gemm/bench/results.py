"""What measuring a shape gave: a row a candidate, and the figures that follow from its times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from numba_gemm.analysis.models.roofline import flops, minimum_bytes
from numba_gemm.bench.peers import CUBLAS
from numba_gemm.bench.suite import Shape
from numba_gemm.bench.summary import Summary, summarise

#: A measured rate may pass a measured limit by so much, for the clocks of the two were not quite the same.
_TOLERANCE = 1.05


@dataclass(frozen=True)
class Row:
    """One candidate at one shape. Times are medians, in seconds; None: not measured."""

    name: str
    #: Whether it is another implementation, not a version of the ladder.
    peer: bool
    #: What "auto" stood for, or the peer's version.
    version: str | None = None
    tile: str | None = None
    registers: int | None = None
    local_bytes: int | None = None
    #: The largest error in units of its bound; None if it is not a number, or there is no result.
    error: float | None = None
    cold: float | None = None
    warm: float | None = None
    #: Of one call of `sgemm` on the host.
    host: float | None = None
    #: Why it has no times, or what is wrong with them.
    problem: str | None = None
    #: Whether it computed something wrong, or cannot have computed what was timed.
    wrong: bool = False


@dataclass(frozen=True)
class ShapeResult:
    """All candidates at one shape, in turn in the same rounds."""

    shape: Shape
    rows: tuple[Row, ...]
    rounds: int
    #: Measured in the same run, in FLOP/s.
    ffma_limit: float | None = None

    @property
    def flops(self) -> int:
        return flops(*self.shape)

    @property
    def least_bytes(self) -> int:
        """A and B read once, C written once."""
        return minimum_bytes(*self.shape)

    @property
    def baseline(self) -> Row | None:
        """cuBLAS, if it ran and was right."""
        return next((row for row in self.rows if row.name == CUBLAS and not row.wrong), None)

    def speedup(self, row: Row, cache: str) -> float | None:
        """How many times as fast as cuBLAS, with a "cold" or a "warm" L2."""
        mine, baseline = getattr(row, cache), self.baseline
        theirs = getattr(baseline, cache) if baseline else None
        return theirs / mine if mine and theirs and not row.wrong else None

    def tflops(self, row: Row) -> float | None:
        """With a cold L2; with a warm one if nothing else was measured."""
        seconds = row.cold or row.warm
        return self.flops / seconds / 1e12 if seconds else None

    def share_of_limit(self, row: Row) -> float | None:
        """Of the multiply-adds that the device can do."""
        tflops = self.tflops(row)
        return tflops * 1e12 / self.ffma_limit if tflops and self.ffma_limit else None

    def gigabytes_per_second(self, row: Row) -> float | None:
        """Of the least bytes, with a cold L2, or a warm one."""
        seconds = row.cold or row.warm
        return self.least_bytes / seconds / 1e9 if seconds else None

    @property
    def failed(self) -> bool:
        """Whether something was wrong, or a version that was asked for has no times."""
        return any(row.wrong or (row.problem is not None and not row.peer) for row in self.rows)

    def figures(self, row: Row) -> dict[str, Any]:
        """A row with what follows from it, for JSON."""
        return {
            **asdict(row),
            "tflops": self.tflops(row),
            "share_of_ffma_limit": self.share_of_limit(row),
            "gigabytes_per_second": self.gigabytes_per_second(row),
            "vs_cublas_cold": self.speedup(row, "cold"),
            "vs_cublas_warm": self.speedup(row, "warm"),
        }

    def to_dict(self) -> dict[str, Any]:
        m, n, k = self.shape
        return {
            "m": m,
            "n": n,
            "k": k,
            "flops": self.flops,
            "least_bytes": self.least_bytes,
            "rounds": self.rounds,
            "ffma_limit": self.ffma_limit,
            "candidates": [self.figures(row) for row in self.rows],
        }

    def extra_info(self, name: str) -> dict[str, Any]:
        """One row as the subject of a stored benchmark, whose statistics are its cold times; and the others."""
        (row,) = (row for row in self.rows if row.name == name)
        facts = {key: value for key, value in self.figures(row).items() if key not in ("name", "peer", "cold")}
        m, n, k = self.shape
        return {
            "m": m,
            "n": n,
            "k": k,
            "candidate": name,
            "cache": "cold",
            "ffma_limit": self.ffma_limit,
            **facts,
            "baseline": CUBLAS,
            "baseline_seconds": self.baseline.cold if self.baseline else None,
            "vs_baseline": facts["vs_cublas_cold"],
            "others": [self.figures(other) for other in self.rows if other is not row],
        }


def impossible(flops: int, seconds: float, ffma_limit: float) -> str | None:
    """Why work cannot have been done in a time: it would take more multiply-adds than the device has."""
    rate = flops / seconds
    if rate <= _TOLERANCE * ffma_limit:
        return None
    return (
        f"{rate / 1e12:.1f} TFLOP/s is impossible: float32 multiply-adds reach {ffma_limit / 1e12:.1f} here. It did "
        "something else, or was not waited for"
    )


def judged(error: float) -> str | None:
    """What is wrong with a result of that error, in units of its bound."""
    if error <= 1:
        return None
    if math.isnan(error):
        return "wrong: it left elements of C unwritten, or wrote NaN"
    return f"wrong: its error is {error:.3g} times the bound"


def summaries(results: Sequence[ShapeResult], cache: str) -> dict[str, Summary[Shape]]:
    """Over all shapes, how many times as fast as cuBLAS each version is, by name."""
    names = dict.fromkeys(row.name for result in results for row in result.rows if not row.peer)
    found = {}
    for name in names:
        ratios = {}
        for result in results:
            for row in result.rows:
                speedup = result.speedup(row, cache) if row.name == name else None
                if speedup is not None:
                    ratios[result.shape] = speedup
        summary = summarise(ratios)
        if summary is not None:
            found[name] = summary
    return found
