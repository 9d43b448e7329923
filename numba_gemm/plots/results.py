"""Stored results, as pytest-benchmark writes them: the one place where pictures read measurements."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from numba_gemm.hardware import devices
from numba_gemm.hardware.devices import Hardware

Result = dict[str, Any]

#: Where `make bench` stores its results, from the root of a checkout.
BENCHMARKS = Path("benchmarks/results/benchmarks.json")


@dataclass(frozen=True)
class Results:
    """The contents of a file of results, and its path."""

    path: Path
    stored: dict[str, Any]

    def group(self, name: str) -> list[Result]:
        """The `extra_info` of the results of a group, and the median time as `seconds`."""
        return [
            {**benchmark["extra_info"], "seconds": benchmark["stats"]["median"]}
            for benchmark in self.stored["benchmarks"]
            if benchmark["group"] == name
        ]

    @property
    def gpu(self) -> str:
        """What the driver calls the device."""
        return str(self.stored["machine_info"]["gpu"])

    @property
    def device(self) -> Hardware:
        """The model of that device.

        Raises:
            ValueError: if the models do not have it.
        """
        return devices.find_by_driver_name(self.gpu)

    @property
    def provenance(self) -> str:
        """Device and date, for the foot of a picture."""
        return f"Measured: {self.gpu}, {self.stored['datetime'][:10]}; medians with a cold L2."


def stored_results() -> Path:
    """The file of results to show where none is named.

    Those of the current folder come first: who measures wants to see what he measured. Where it has none, there are
    those that the repository keeps: a wheel holds a copy, and an editable installation lies beside them.
    """
    installed = Path(str(resources.files("numba_gemm"))) / "results" / BENCHMARKS.name
    checkout = installed.parents[2] / BENCHMARKS
    return next((path for path in (BENCHMARKS, installed, checkout) if path.is_file()), BENCHMARKS)


def load(path: Path) -> Results | None:
    """The results in a file; None if there is no such file.

    Raises:
        ValueError: for a file that pytest-benchmark did not write.
    """
    if not path.is_file():
        return None
    stored = json.loads(path.read_text(encoding="utf-8"))
    if not {"benchmarks", "machine_info", "datetime"} <= set(stored):
        raise ValueError(f"{path} is not a file of pytest-benchmark's results")
    return Results(path, stored)
