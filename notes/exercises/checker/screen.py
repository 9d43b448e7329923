"""What the checker of the exercises prints."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from checker.exercises import Case, Report

_RIGHT, _WRONG, _QUIET = "green", "red", "dim"


def show_report(report: Report, console: Console, *, hint: bool = False) -> None:
    """The symptoms of an exercise: shapes that show the same together."""
    exercise = report.exercise
    verdict = Text("right", style=_RIGHT) if report.right else Text("not yet right", style=_WRONG)
    title = (f"{exercise.number} · {exercise.title}", "bold")
    console.print(Text.assemble(title, f" · {exercise.file_name}: ", verdict))
    for cases, symptoms in _together(report).items():
        if cases:
            _indented(2, Text(f"M×N×K = {', '.join(map(str, cases))}:", style="bold"), console)
        for symptom in symptoms:
            _indented(4, Text(symptom), console)
    if report.right_cases and not report.right:
        _indented(2, Text(f"no symptom at {', '.join(map(str, report.right_cases))}", style=_QUIET), console)
    if hint and not report.right:
        _indented(2, Text.assemble(("Hint: ", "bold"), exercise.hint), console)
    console.print()


def _together(report: Report) -> dict[tuple[Case, ...], list[str]]:
    """Symptoms by the shapes that show them; by none for a file that cannot be loaded."""
    cases: dict[str, tuple[Case, ...]] = {}
    for symptom in report.symptoms:
        cases[symptom.text] = (*cases.get(symptom.text, ()), *([symptom.case] if symptom.case else []))
    together: dict[tuple[Case, ...], list[str]] = {}
    for text, where in cases.items():
        together.setdefault(where, []).append(text)
    return together


def _indented(columns: int, text: Text, console: Console) -> None:
    console.print(Padding(text, (0, 0, 0, columns), expand=False))
