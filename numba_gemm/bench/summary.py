"""A ratio over many shapes in two numbers: the geometric mean, and the worst with where it is."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from numba_gemm.bench.suite import Shape


@dataclass(frozen=True)
class Summary:
    """Of ratios where more is better."""

    shapes: int
    geometric_mean: float
    worst: float
    worst_at: Shape


def summarise(ratios: Mapping[Shape, float]) -> Summary | None:
    """None of nothing. The geometric mean, because a ratio and its inverse have to cancel."""
    if not ratios:
        return None
    worst_at = min(ratios, key=lambda shape: ratios[shape])
    return Summary(len(ratios), statistics.geometric_mean(ratios.values()), ratios[worst_at], worst_at)
