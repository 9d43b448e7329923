"""How good the choices of the model behind "auto" are: against every candidate, and against PyTorch.

From the times that `benchmarks/candidates.py` stores. What `tune` has measured is left out of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numba_gemm.auto.choose import choose_by_model
from numba_gemm.auto.entry import KEY, Choice
from numba_gemm.hardware.devices import find_by_driver_name
from numba_gemm.problem import Problem

RESULTS = Path("benchmarks/results/candidates.json")


@dataclass(frozen=True)
class Judged:
    """One product: what the model takes for it, and GPU times in seconds."""

    key: Problem
    choice: Choice
    seconds: float
    fastest: float
    pytorch: float

    @property
    def vs_fastest(self) -> float:
        """How many times as fast as the fastest candidate it is: at most 1."""
        return self.fastest / self.seconds

    @property
    def vs_pytorch(self) -> float:
        """How many times as fast as PyTorch's product, which is cuBLAS's, it is."""
        return self.pytorch / self.seconds


def judge(stored: Mapping[str, Any]) -> list[Judged]:
    """The products of one set, in the order stored.

    Raises:
        KeyError: if the model takes a candidate that was not timed: then measure again.
    """
    hardware = find_by_driver_name(stored["machine_info"]["gpu"])
    found = []
    for product in stored["products"]:
        key, times = Problem.of_key(**{name: product[name] for name in KEY}), product["candidates"]
        choice = choose_by_model(hardware, key)
        found.append(Judged(key, choice, times[str(choice)], min(times.values()), product["torch"]))
    return found
