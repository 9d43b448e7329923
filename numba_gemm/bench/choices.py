"""How good the choices of the model behind "auto" are: against every candidate, and against PyTorch.

From the times that `benchmarks/candidates.py` stores. What `tune` has measured is left out of it.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numba_gemm.analysis.hardware import find
from numba_gemm.choose import choose_by_model
from numba_gemm.tuning.entry import Choice, Key

RESULTS = Path("benchmarks/results/candidates.json")


@dataclass(frozen=True)
class Judged:
    """One product: what the model takes for it, and GPU times in seconds."""

    key: Key
    choice: Choice
    seconds: float
    fastest: float
    pytorch: float

    @property
    def over_fastest(self) -> float:
        """How many times as long as the fastest candidate it takes; at least 1."""
        return self.seconds / self.fastest

    @property
    def vs_pytorch(self) -> float:
        """How many times as fast as PyTorch's product, which is cuBLAS's, it is."""
        return self.pytorch / self.seconds


@dataclass(frozen=True)
class Summary:
    """Of several products: geometric means, and the worst of them."""

    products: int
    over_fastest: float
    worst_over_fastest: Judged
    vs_pytorch: float
    worst_vs_pytorch: Judged


def judge(stored: Mapping[str, Any]) -> list[Judged]:
    """The products of one set, in the order stored.

    Raises:
        KeyError: if the model takes a candidate that was not timed: then measure again.
    """
    hardware = find(stored["machine_info"]["gpu"].removeprefix("NVIDIA "))
    found = []
    for product in stored["products"]:
        key, times = Key(*(product[field] for field in Key._fields)), product["candidates"]
        choice = choose_by_model(hardware, key)
        found.append(Judged(key, choice, times[str(choice)], min(times.values()), product["torch"]))
    return found


def summarise(judged: list[Judged]) -> Summary:
    return Summary(
        len(judged),
        statistics.geometric_mean(one.over_fastest for one in judged),
        max(judged, key=lambda one: one.over_fastest),
        statistics.geometric_mean(one.vs_pytorch for one in judged),
        min(judged, key=lambda one: one.vs_pytorch),
    )
