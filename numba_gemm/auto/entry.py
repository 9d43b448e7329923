"""What the database holds: for a product as a kernel sees it, the fastest version and tile. To and from JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from numba_gemm import ladder
from numba_gemm.kernels.variant import Variant
from numba_gemm.ladder import Version
from numba_gemm.problem import Arrangement
from numba_gemm.tile import Tile


class Key(NamedTuple):
    """What decides which tile is fastest: C[m, n] over k, how often, and how A and B lie in memory.

    Not the epilogue, which costs little next to the sum over k, nor the leading dimensions. As `arrange` has it: a
    product into a column-major C is that of the transposes.
    """

    m: int
    n: int
    k: int
    batch: int
    #: As in `Variant`: k is the contiguous index of A, of B; all accesses may be of 16 bytes.
    a_along_k: bool
    b_along_k: bool
    vector: bool

    @classmethod
    def of(cls, arrangement: Arrangement) -> Key:
        """The key of an arrangement, as made without `few_rows`: the version is not known yet."""
        return cls(
            *(arrangement.m, arrangement.n, arrangement.k, arrangement.batch),
            *(arrangement.a_along_k, arrangement.b_along_k, arrangement.vector),
        )

    @property
    def variant(self) -> Variant:
        """What kernels for it are compiled for, apart from whole tiles and the epilogue."""
        return Variant(a_along_k=self.a_along_k, b_along_k=self.b_along_k, vector=self.vector)

    @property
    def flops(self) -> int:
        """FLOP of all products of the batch."""
        return 2 * self.m * self.n * self.k * self.batch

    @property
    def layout(self) -> str:
        """In BLAS's letters, A before B: N as it is, T transposed; and whether accesses have to be of 4 bytes."""
        letters = ("N" if self.a_along_k else "T") + ("T" if self.b_along_k else "N")
        return letters if self.vector else f"{letters}, unaligned"

    def __str__(self) -> str:
        shape = f"{self.m}×{self.n}×{self.k}" + (f", {self.batch} times" if self.batch > 1 else "")
        return f"{shape} ({self.layout})"


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

    def to_dict(self, key: Key) -> dict[str, Any]:
        """One JSON object with its key."""
        return {**key._asdict(), **self.best.to_dict(), "others": [other.to_dict() for other in self.others]}


def from_dict(record: Any) -> tuple[Key, Entry]:
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
    key = Key(m, n, k, batch, a_along_k, b_along_k, vector)
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
    try:
        tile = Tile(**_object(fields.get("tile")))
    except TypeError as error:
        raise ValueError(str(error)) from error
    return Timed(Choice(ladder.find(name), tile), seconds)
