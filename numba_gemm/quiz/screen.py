"""What the quiz prints."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from numba_gemm.quiz.catalogue import Entry
from numba_gemm.quiz.question import Choice, Judged, Open

_RIGHT, _WRONG, _QUIET = "green", "red", "dim"


def show_question(entry: Entry, console: Console) -> None:
    """The question, its options if it has any, and what an answer looks like."""
    question = entry.question
    parts: list[RenderableType] = [Text(question.text)]
    if isinstance(question, Choice):
        parts += [Text(), _options(question)]
    parts += [Text(), Text(f"Wanted: {question.wanted}.", style=_QUIET)]
    title = Text(f"{entry.number} · {entry.topic} · {question.title}", style="bold")
    console.print(Panel(Group(*parts), title=title, title_align="left"))


def _options(question: Choice) -> Table:
    options = Table.grid(padding=(0, 2))
    for letter, option in zip(question.letters, question.options, strict=True):
        options.add_row(Text(letter, style="bold"), Text(option))
    return options


def show_judged(judged: Judged, console: Console) -> None:
    """Right, wrong, or neither."""
    verdict, style = {True: ("Right", _RIGHT), False: ("Wrong", _WRONG), None: ("Noted", "bold")}[judged.right]
    console.print(Text.assemble((f"{verdict}: ", style), judged.understood))


def show_hint(entry: Entry, console: Console) -> None:
    """How to get to the answer."""
    console.print(Text.assemble(("Hint: ", "bold"), entry.question.hint))


def show_solution(entry: Entry, console: Console) -> None:
    """The right answer, and why."""
    question = entry.question
    if isinstance(question, Open):
        console.print(Text("A model answer:", style="bold"))
    else:
        console.print(Text.assemble(("Answer: ", "bold"), question.solution))
    show_explanation(entry, console)


def show_explanation(entry: Entry, console: Console) -> None:
    """Why the right answer is right."""
    console.print(Text(entry.question.explanation))


def show_catalogue(entries: Sequence[Entry], console: Console) -> None:
    """One line per question."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", justify="right")
    table.add_column("topic")
    table.add_column("question")
    table.add_column("answer")
    topic = ""
    for entry in entries:
        table.add_row(
            str(entry.number),
            entry.topic if entry.topic != topic else "",
            entry.question.title,
            entry.question.kind,
        )
        topic = entry.topic
    console.print(table)


def show_score(right: int, wrong: int, open_answers: int, console: Console) -> None:
    """How many answers were right, and how many wrong."""
    own = f", {open_answers} in your own words" if open_answers else ""
    console.print(Text.assemble((f"{right} right", _RIGHT), ", ", (f"{wrong} wrong", _WRONG if wrong else ""), own))
