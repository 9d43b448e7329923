"""What all verbs have in common in what they print, and with which status they end.

JSON goes to standard output. Whoever calls the program reads what went wrong on one line of standard error.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from typer.core import TyperGroup

#: Statuses: all is right; a result is wrong; the request, or where it was made, cannot be used.
DONE, WRONG_RESULT, UNUSABLE = 0, 1, 2

#: click's, which newer versions of typer have a copy of under a private name.
_UsageError: type[Exception] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "UsageError")


def print_json(data: Any) -> None:
    """Plain data as JSON."""
    typer.echo(json.dumps(data, indent=2))


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """For what a command calls."""
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        _print(f"numba-gemm: {error}")
        raise typer.Exit(UNUSABLE) from error


class OneLineGroup(TyperGroup):
    """Commands that report wrong usage in the same way, instead of in a box of several lines."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        with _usage_in_one_line():
            return super().make_context(*arguments, **options)

    def invoke(self, context: Any) -> Any:
        with _usage_in_one_line():
            return super().invoke(context)


@contextmanager
def _usage_in_one_line() -> Iterator[None]:
    try:
        yield
    except _UsageError as error:
        context: Any = getattr(error, "ctx", None)
        if context is None or type(error).__name__ == "NoArgsIsHelpError":
            raise
        message: str = error.format_message()  # type: ignore[attr-defined]
        _print(f"numba-gemm: {message.rstrip('.')}; `{context.command_path} --help` says what it takes")
        raise typer.Exit(UNUSABLE) from error


def _print(message: str) -> None:
    # Not wrapped at the width of the terminal; brackets are text: the message may name numba-gemm[inspect].
    line = " ".join(message.split())
    Console(stderr=True).print(line, style="red", highlight=False, markup=False, soft_wrap=True)
