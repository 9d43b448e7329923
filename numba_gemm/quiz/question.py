"""Questions of three kinds: a number that a model computes, a choice, and one to answer in one's own words."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple


class Judged(NamedTuple):
    """An answer as it was understood, and whether it is right; None where only its author can tell."""

    understood: str
    right: bool | None


@dataclass(frozen=True)
class Question(ABC):
    """What all kinds have; the hint says how to get there, the explanation where one should have got."""

    title: str
    text: str
    hint: str
    explanation: str

    kind: ClassVar[str]

    @abstractmethod
    def judge(self, answer: str) -> Judged:
        """Compare an answer with the right one.

        Raises:
            ValueError: for what is no answer to this question, whether right or wrong.

        """

    @property
    @abstractmethod
    def solution(self) -> str:
        """The right answer as text."""

    @property
    @abstractmethod
    def wanted(self) -> str:
        """What an answer looks like."""

    def to_dict(self) -> dict[str, Any]:
        """The question without its answer."""
        return {"title": self.title, "kind": self.kind, "text": self.text, "wanted": self.wanted}

    def solution_to_dict(self) -> dict[str, Any]:
        """The answer and its explanation."""
        return {"solution": self.solution, "explanation": self.explanation}


@dataclass(frozen=True)
class Numeric(Question):
    """A number in `unit`, right within a relative `tolerance`; tolerance 0 is for what can be counted."""

    answer: float
    unit: str
    tolerance: float = 0.02

    kind: ClassVar[str] = "number"

    def judge(self, answer: str) -> Judged:
        value = self._number(answer)
        right = math.isclose(value, self.answer, rel_tol=self.tolerance or 1e-9)
        return Judged(with_unit(value, self.unit), right)

    def _number(self, answer: str) -> float:
        text = answer.strip()
        for unit in (self.unit, self.unit.replace("µ", "u")):
            text = text.removesuffix(unit).strip()
        numerator, over, denominator = text.partition("/")
        try:
            value = float(numerator) / (float(denominator) if over else 1)
        except (ValueError, ArithmeticError):
            value = math.nan
        if not math.isfinite(value):
            raise ValueError(f"{answer!r} is not a number{f' of {self.unit}' if self.unit else ''}")
        return value

    @property
    def solution(self) -> str:
        return with_unit(self.answer, self.unit)

    @property
    def wanted(self) -> str:
        precision = f"within {self.tolerance * 100:.0f} %" if self.tolerance else "exact"
        return f"a number{f' in {self.unit}' if self.unit else ''}, {precision}"

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"unit": self.unit, "tolerance": self.tolerance}

    def solution_to_dict(self) -> dict[str, Any]:
        return super().solution_to_dict() | {"value": self.answer}


@dataclass(frozen=True)
class Choice(Question):
    """One of several `options`, called a, b, c, …; `right` is the index of the right one."""

    options: tuple[str, ...]
    right: int

    kind: ClassVar[str] = "choice"

    @property
    def letters(self) -> str:
        """a, b, c, … as many as there are options."""
        return "abcdefgh"[: len(self.options)]

    def judge(self, answer: str) -> Judged:
        letter = answer.strip().casefold()
        if len(letter) != 1 or letter not in self.letters:
            raise ValueError(f"{answer!r} is none of the letters {', '.join(self.letters)}")
        return Judged(letter, letter == self.letters[self.right])

    @property
    def solution(self) -> str:
        return f"{self.letters[self.right]}: {self.options[self.right]}"

    @property
    def wanted(self) -> str:
        return f"a letter, {self.letters[0]} … {self.letters[-1]}"

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"options": dict(zip(self.letters, self.options, strict=True))}


@dataclass(frozen=True)
class Open(Question):
    """One to answer in one's own words; the explanation is a model answer to compare with."""

    kind: ClassVar[str] = "open"

    def judge(self, answer: str) -> Judged:
        if not answer.strip():
            raise ValueError("an empty answer")
        return Judged(answer.strip(), None)

    @property
    def solution(self) -> str:
        return "open; the explanation is a model answer"

    @property
    def wanted(self) -> str:
        return "your own words, which nobody judges but you"


def figure(value: float) -> str:
    """A number as one says it: whole numbers in full, others to four digits."""
    if value == round(value) and abs(value) < 1e12:
        return str(round(value))
    return f"{value:.4g}"


def with_unit(value: float, unit: str) -> str:
    """`512 GiB`, `25 %`, `8`."""
    return f"{figure(value)} {unit}".rstrip()
