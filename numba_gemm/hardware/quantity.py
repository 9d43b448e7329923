"""What all models share: sizes that are checked with their numbers, and results that become plain numbers."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar


class Result:
    """A frozen dataclass of figures in SI base units (bytes, seconds, FLOP/s), under names that carry the quantity."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain Python numbers, strings, tuples and dicts."""
        return asdict(self)


def require(least: float, **sizes: float) -> None:
    """Raises ValueError, with the name and the number, for a size below `least`."""
    for name, size in sizes.items():
        if not size >= least:  # a NaN is no size either
            raise ValueError(f"{name} is {size}; it must be at least {least}")


def ceil_div(numerator: int, denominator: int) -> int:
    """⌈numerator / denominator⌉."""
    return -(-numerator // denominator)


def round_up(size: int, unit: int) -> int:
    """The smallest multiple of `unit` that is not below `size`."""
    return ceil_div(size, unit) * unit
