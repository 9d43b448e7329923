"""`numba-gemm quiz`: ask a question or all of them, judge an answer, show hints and solutions."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from numba_gemm.cli.output import print_json
from numba_gemm.quiz import screen
from numba_gemm.quiz.catalogue import Entry, catalogue, find
from numba_gemm.quiz.question import Judged

_PROMPT = "answer (? for a hint, empty to skip, q to quit): "


class Quit(Exception):  # noqa: N818 - no error: the user has had enough
    """The user wants no more questions."""


def run(number: int | None, answer: str | None, hint: bool, solution: bool, listed: bool, as_json: bool) -> bool:
    """What the verb does; whether no answer was wrong.

    Raises:
        ValueError: for an unknown question, for what is no answer to it, for options that do not go together, and where
            there is no terminal to ask on.

    """
    console = Console()
    if number is None:
        return _run_all(answer, hint, solution, listed, as_json, console)
    if listed:
        raise ValueError(f"--list lists all questions; leave out {number} or --list")
    entry = find(number)
    if as_json:
        found = facts(entry, answer, hint, solution)
        print_json(found)
        return found.get("right") is not False
    if answer is None and not hint and not solution:
        return ask_one(entry, console)
    return show(entry, answer, hint, solution, console)


def _run_all(answer: str | None, hint: bool, solution: bool, listed: bool, as_json: bool, console: Console) -> bool:
    if answer is not None or hint or solution:
        raise ValueError("--answer, --hint and --solution are for one question; give its number")
    if as_json:
        print_json([entry.to_dict() for entry in catalogue()])
        return True
    if listed:
        screen.show_catalogue(catalogue(), console)
        return True
    return ask_all(console)


def facts(entry: Entry, answer: str | None, hint: bool, solution: bool) -> dict[str, Any]:
    """The question for a machine; with an answer, how it was understood and whether it is right.

    A wrong answer comes with the hint, one that is not wrong with the solution.
    """
    found = entry.to_dict()
    judged = None if answer is None else _judged(entry, answer)
    if judged:
        found |= judged._asdict()
    if hint or (judged and judged.right is False):
        found["hint"] = entry.question.hint
    if solution or (judged and judged.right is not False):
        found |= entry.question.solution_to_dict()
    return found


def show(entry: Entry, answer: str | None, hint: bool, solution: bool, console: Console) -> bool:
    """The question, what the answer is worth, and the hint or solution, without asking; whether it was not wrong.

    Raises:
        ValueError: for what is no answer, before anything is printed.

    """
    judged = None if answer is None else _judged(entry, answer)
    wrong = judged is not None and judged.right is False
    screen.show_question(entry, console)
    if judged:
        show_judged(entry, judged, console)
    if hint and not wrong:
        screen.show_hint(entry, console)
    if solution:
        screen.show_solution(entry, console)
    return not wrong


def _judged(entry: Entry, answer: str) -> Judged:
    try:
        return entry.question.judge(answer)
    except ValueError as error:
        raise ValueError(f"{error}; wanted: {entry.question.wanted}") from error


def show_judged(entry: Entry, judged: Judged, console: Console) -> None:
    """A right answer with its explanation, a wrong one with the hint."""
    screen.show_judged(judged, console)
    if judged.right is False:
        screen.show_hint(entry, console)
    else:
        screen.show_explanation(entry, console)


def ask(entry: Entry, console: Console) -> Judged | None:
    """Ask on the terminal, a second time after a wrong answer; what the last answer was, None if there was none.

    Raises:
        Quit: if the user says so.
        EOFError: if there is no terminal to answer on.

    """
    screen.show_question(entry, console)
    judged = None
    while judged is None or judged.right is False:
        reply = console.input(_PROMPT).strip()
        if reply == "q":
            raise Quit
        if not reply:
            return judged
        if reply == "?":
            screen.show_hint(entry, console)
            continue
        second = judged is not None
        try:
            judged = _judged(entry, reply)
        except ValueError as error:
            console.print(str(error), markup=False, highlight=False)
            continue
        show_judged(entry, judged, console)
        if second and judged.right is False:
            screen.show_solution(entry, console)
            return judged
    return judged


def ask_one(entry: Entry, console: Console) -> bool:
    """Ask; whether the answer was not wrong.

    Raises:
        ValueError: if there is no terminal.

    """
    try:
        judged = ask(entry, console)
    except Quit:
        return True
    except EOFError as error:
        raise ValueError("there is no terminal to ask on; give the answer with --answer") from error
    return judged is None or judged.right is not False


def ask_all(console: Console) -> bool:
    """Ask all questions until the user quits; whether no answer was wrong."""
    answers: list[bool | None] = []
    try:
        for entry in catalogue():
            judged = ask(entry, console)
            if judged:
                answers.append(judged.right)
            console.print()
    except (Quit, EOFError):
        console.print()
    screen.show_score(answers.count(True), answers.count(False), answers.count(None), console)
    return False not in answers
