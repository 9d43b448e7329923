"""Prediction and measurement side by side: what `explain` says of the stored results of the ladder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numba_gemm import ladder
from numba_gemm.analysis.models.explain import Explanation, explain
from numba_gemm.hardware import devices


@dataclass(frozen=True)
class Comparison:
    """One version on one shape: what was predicted, and what was measured."""

    explanation: Explanation
    measured_s: float

    @property
    def inside(self) -> bool:
        """Whether the measured time lies in the predicted range."""
        range_of = self.explanation.prediction
        return range_of.optimistic_s <= self.measured_s <= range_of.pessimistic_s

    @property
    def ratio(self) -> float:
        """Measured over predicted time."""
        return self.measured_s / self.explanation.prediction.predicted_s


def comparisons(stored: dict[str, Any]) -> list[Comparison]:
    """The cubes of the stored ladder, the largest first, each in ladder order.

    Args:
        stored: what pytest-benchmark has written of `benchmarks/`.

    Raises:
        ValueError: if they were measured on a device that the models do not have.
    """
    device = devices.find_by_driver_name(stored["machine_info"]["gpu"])
    measured = {
        (result["m"], result["version"]): benchmark["stats"]["median"]
        for benchmark in stored["benchmarks"]
        if benchmark["group"] == "ladder" and (result := benchmark["extra_info"])
    }
    return [
        Comparison(explain(version.name, size, size, size, device), measured[size, version.name])
        for size in sorted({size for size, _ in measured}, reverse=True)
        for version in ladder.VERSIONS
        if (size, version.name) in measured
    ]
