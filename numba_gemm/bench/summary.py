"""A ratio over many products in two numbers: the geometric mean, and the worst with where it is."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

#: What a product is named by: its shape, or all that a choice depends on.
Product = TypeVar("Product")


@dataclass(frozen=True)
class Summary(Generic[Product]):
    """Of ratios where more is better."""

    shapes: int
    geometric_mean: float
    worst: float
    worst_at: Product


def summarise(ratios: Mapping[Product, float]) -> Summary[Product] | None:
    """None of nothing. The geometric mean, because a ratio and its inverse have to cancel."""
    if not ratios:
        return None
    worst_at = min(ratios, key=lambda product: ratios[product])
    return Summary(len(ratios), statistics.geometric_mean(ratios.values()), ratios[worst_at], worst_at)
