"""`numba-gemm inspect`: what a version is compiled to."""

from __future__ import annotations

import typer
from rich.console import Console

from numba_gemm.analysis.code import inspection
from numba_gemm.analysis.code.inspection import Inspection
from numba_gemm.cli.arguments import number_or_name


def inspect(version: str, arch: str) -> Inspection:
    """As `numba_gemm.inspect`, with the version as it is written on the command line.

    Raises:
        ValueError, RuntimeError: like `numba_gemm.inspect`.
    """
    return inspection.inspect(number_or_name(version), arch=arch)


def show(found: Inspection, console: Console, *, loop: bool) -> None:
    """The figures as tables; behind them the main loop in SASS, if it is wanted."""
    console.print(found)
    if loop:
        typer.echo(f"\n{found.loop_listing()}")
