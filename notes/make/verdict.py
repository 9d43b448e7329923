"""What became of a claim, and what says so."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from notes.make.evidence import Evidence

HOLDS, PARTLY, FAILS, UNKNOWN = "holds", "holds in part", "does not hold", "not measured yet"
OUTCOMES = (HOLDS, PARTLY, FAILS, UNKNOWN)


@dataclass(frozen=True)
class Verdict:
    """What became of a claim: one of the four outcomes above, and the figures that say so."""

    outcome: str
    why: str


Judge = Callable[[Evidence], Verdict]


def outcome(conditions: Iterable[bool]) -> str:
    """Whether all of them hold, some, or none."""
    found = list(conditions)
    return HOLDS if all(found) else PARTLY if any(found) else FAILS
