"""What the database holds: for a product as a kernel sees it, the fastest version and tile. To and from JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from numba_gemm import ladder
from numba_gemm.ladder import Version
from numba_gemm.problem import Problem
from numba_gemm.tile import Tile

#: The fields of a record that say for which product it is: those of `Problem.of_key`.
KEY = ("m", "n", "k", "batch", "a_along_k", "b_along_k", "vector")


@dataclass(frozen=True, slots=True)
class Choice:
    """A version, and its tile."""

    version: Version
    tile: Tile

    def __str__(self) -> str:
        return f"{self.version}, {self.tile}"

    def to_dict(self) -> dict[str, Any]:
        return {"version": self.version.name, "tile": asdict(self.tile)}


@dataclass(frozen=True, slots=True)
class Timed:
    """A choice and its median GPU time with a cold L2, in seconds."""

    choice: Choice
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        return {**self.choice.to_dict(), "seconds": self.seconds}


@dataclass(frozen=True, slots=True)
class Entry:
    """The fastest of the candidates, and those that came next, for whoever reads the file."""

    best: Timed
    others: tuple[Timed, ...] = ()

    def to_dict(self, key: Problem) -> dict[str, Any]:
        """One JSON object with its key."""
        return {
            **{name: getattr(key, name) for name in KEY},
            **self.best.to_dict(),
            "others": [other.to_dict() for other in self.others],
        }


def from_dict(record: Any) -> tuple[Problem, Entry]:
    """What `Entry.to_dict` gave.

    Raises:
        ValueError: if it is something else.
    """
    fields = _object(record)
    m, n, k, batch = (_extent(fields, name) for name in ("m", "n", "k", "batch"))
    a_along_k, b_along_k, vector = (_flag(fields, name) for name in ("a_along_k", "b_along_k", "vector"))
    others = fields.get("others", [])
    if not isinstance(others, list):
        raise ValueError(f"others is {others!r}, not a list")
    key = Problem.of_key(m, n, k, batch, a_along_k, b_along_k, vector)
    return key, Entry(_timed(fields), tuple(_timed(_object(other)) for other in others))


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is not an object")
    return value


def _extent(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} is {value!r}, not a positive integer")
    return value


def _flag(fields: Mapping[str, Any], name: str) -> bool:
    value = fields.get(name)
    if not isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}, not true or false")
    return value


def _timed(fields: Mapping[str, Any]) -> Timed:
    seconds = fields.get("seconds")
    if not isinstance(seconds, float) or not math.isfinite(seconds) or seconds <= 0:
        raise ValueError(f"seconds is {seconds!r}, not a positive number")
    name = fields.get("version")
    if not isinstance(name, str):
        raise ValueError(f"version is {name!r}, not a name")
    sizes = dict(_object(fields.get("tile")))
    sizes.pop("through_shared", None)  # of files from before it was a version of its own; never True in one
    try:
        tile = Tile(**sizes)
    except TypeError as error:
        raise ValueError(str(error)) from error
    return Timed(Choice(ladder.find(name), tile), seconds)
