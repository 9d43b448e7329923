"""Where the numbers of the notes come from: stored results, stored machine code, and the models."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from notes.make.evidence import SIZE, read_json, stored_benchmarks
from numba_gemm import ladder
from numba_gemm.analysis.models.explain import Explanation, explain
from numba_gemm.hardware import devices
from numba_gemm.hardware.devices import Hardware
from numba_gemm.ladder import Version
from numba_gemm.plots.results import BENCHMARKS

#: From the root of a checkout.
NOTES = Path("notes")
MACHINE_CODE = NOTES / "machine_code.json"
MEASURED_ONCE = NOTES / "measured_once.json"
#: The pages tell the story of one architecture, that of the stored results.
ARCH = "sm_90"

Entry = dict[str, Any]


@dataclass(frozen=True)
class Facts:
    """Everything stored, as loaded from JSON."""

    results: Entry
    machine_code: Entry
    measured_once: Entry

    @classmethod
    def load(cls, root: Path) -> Facts:
        """From the files of a checkout."""
        return cls(stored_benchmarks(root), read_json(root / MACHINE_CODE), read_json(root / MEASURED_ONCE))

    @cached_property
    def device(self) -> Hardware:
        """What the stored results were measured on."""
        return devices.find_by_driver_name(self.results["machine_info"]["gpu"])

    @cached_property
    def sizes(self) -> list[int]:
        """M = N = K of the stored ladder, ascending."""
        return sorted({size for _, size in self._ladder})

    def measured(self, version: str, size: int = SIZE) -> Entry | None:
        """What was stored about a version at size³, with the median as `seconds`; None if nothing was."""
        return self._ladder.get((find(version).name, size))

    def seconds(self, version: str, size: int = SIZE) -> float:
        """The stored median of a version; ValueError if there is none."""
        found = self.measured(version, size)
        if found is None:
            raise ValueError(f"{BENCHMARKS} has nothing on version {version!r} at {size}³")
        return float(found["seconds"])

    def explanation(self, version: str, size: int = SIZE) -> Explanation:
        """The model of a version at size³ on the device of the results."""
        return explain(find(version).name, size, size, size, self.device)

    def inspection(self, version: str, arch: str = ARCH) -> Entry:
        """The stored figures of `inspect`."""
        name = find(version).name
        for entry in self.machine_code["inspections"]:
            if (entry["name"], entry["arch"]) == (name, arch):
                return dict(entry)
        raise ValueError(f"{MACHINE_CODE} has no {name!r} for {arch}: run python -m notes.make.machine_code")

    @cached_property
    def _ladder(self) -> dict[tuple[str, int], Entry]:
        return {
            (result["version"], result["m"]): {**result, "seconds": benchmark["stats"]["median"]}
            for benchmark in self.results["benchmarks"]
            if benchmark["group"] == "ladder" and (result := benchmark["extra_info"])
        }


def find(version: str) -> Version:
    """A version by its number or name, both as text."""
    return ladder.find(int(version) if version.isdigit() else version)
