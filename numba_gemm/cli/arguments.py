"""What several verbs take on the command line."""

from __future__ import annotations

from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Version = Annotated[str, typer.Argument(help="A number or a name; `numba-gemm versions` lists them.")]


def number_or_name(version: str) -> int | str:
    """A version as the library takes it: what looks like a number is one."""
    return int(version) if version.isdecimal() else version
