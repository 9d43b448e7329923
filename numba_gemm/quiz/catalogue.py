"""The catalogue: all questions in order, numbered from 1."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

from numba_gemm.quiz.question import Question
from numba_gemm.quiz.topics import few_rows, measuring, on_chip, pipeline, problem, residency, traffic, whole_device

TOPICS: tuple[ModuleType, ...] = (
    problem,
    traffic,
    on_chip,
    residency,
    pipeline,
    few_rows,
    whole_device,
    measuring,
)


@dataclass(frozen=True)
class Entry:
    """A question with its number and topic."""

    number: int
    topic: str
    question: Question

    def to_dict(self) -> dict[str, Any]:
        """The question without its answer."""
        return {"number": self.number, "topic": self.topic, **self.question.to_dict()}


def catalogue() -> tuple[Entry, ...]:
    """All questions; the models compute their answers now."""
    pairs = ((topic.TOPIC, question) for topic in TOPICS for question in topic.questions())
    return tuple(Entry(number, topic, question) for number, (topic, question) in enumerate(pairs, start=1))


def find(number: int) -> Entry:
    """The question of that number.

    Raises:
        ValueError: if there is none.

    """
    entries = catalogue()
    if not 1 <= number <= len(entries):
        raise ValueError(f"unknown question {number}; there are 1 … {len(entries)}")
    return entries[number - 1]
