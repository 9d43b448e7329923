"""What has been stored of measurements, as `claims` asks for it: benchmark results, and counters of the hardware."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from numba_gemm.hardware import devices
from numba_gemm.plots.results import BENCHMARKS

#: Written by `python benchmarks/stalls.py`, from the root of a checkout; there may be none.
COUNTERS = Path("benchmarks/results/counters.json")
#: M, N and K of the product that the notes are about: predictions, rates and ratios are stated for it.
SIZE = 4096


class Row(NamedTuple):
    """One stored benchmark: what it says of itself, and its median in seconds."""

    extra: dict[str, Any]
    seconds: float

    @property
    def shape(self) -> str:
        return "×".join(str(self.extra[size]) for size in "mnk")

    @property
    def rate(self) -> float:
        """FLOP/s."""
        return 2 * float(self.extra["m"]) * float(self.extra["n"]) * float(self.extra["k"]) / self.seconds


class Evidence:
    """Stored benchmark results as pytest-benchmark writes them, and stored counters if there are any.

    Raises:
        ValueError: if they are of different devices.
    """

    def __init__(self, stored: dict[str, Any], counters: dict[str, Any] | None = None) -> None:
        self._benchmarks = stored["benchmarks"]
        self.gpu: str = stored["machine_info"]["gpu"]
        self.date: str = stored["datetime"][:10]
        #: Version → what was counted while it multiplied matrices of `SIZE`; the day when, None if nothing was.
        self.counters: dict[str, dict[str, float]] = counters["versions"] if counters else {}
        self.counters_date: str | None = counters["datetime"][:10] if counters else None
        if counters and counters["machine_info"]["gpu"] != self.gpu:
            raise ValueError(f"counted on {counters['machine_info']['gpu']}, but measured on {self.gpu}")

    def rows(self, group: str) -> list[Row]:
        """The benchmarks of a group, as stored."""
        return [
            Row(each["extra_info"], float(each["stats"]["median"]))
            for each in self._benchmarks
            if each["group"] == group
        ]

    def seconds(self, version: str) -> float | None:
        """Median time of a version on the cube of `SIZE`; None if it is not stored."""
        for extra, seconds in self.rows("ladder"):
            if (extra["version"], extra["m"]) == (version, SIZE):
                return seconds
        return None

    def cublas_seconds(self) -> float | None:
        """Median time of cuBLAS in the same rounds as the fastest version."""
        found = [float(extra["baseline_seconds"]) for extra, _ in self.rows("ladder") if extra["m"] == SIZE]
        return min(found, default=None)

    def against_baseline(self, group: str, candidate: str) -> dict[str, float]:
        """Shape → how many times as fast as its baseline a candidate of a group is."""
        return {
            row.shape: float(row.extra["vs_baseline"])
            for row in self.rows(group)
            if row.extra.get("candidate") == candidate
        }

    def pipeline(self) -> dict[tuple[int, int], float]:
        """(BK, S) → seconds of rung 5."""
        return {(extra["bk"], extra["stages"]): seconds for extra, seconds in self.rows("pipeline")}

    @property
    def device(self) -> devices.Hardware:
        """The model of what was measured on; a ValueError if there is none."""
        return devices.find_by_driver_name(self.gpu)


def stored_benchmarks(root: Path = Path()) -> dict[str, Any]:
    """What `make bench` has stored in a checkout."""
    return read_json(root / BENCHMARKS)


def stored_counters(root: Path = Path()) -> dict[str, Any] | None:
    """What `benchmarks/stalls.py` has stored in a checkout; None if it has not."""
    return read_json(root / COUNTERS) if (root / COUNTERS).is_file() else None


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found
