"""The command line. Thin: it parses, calls, prints."""

from __future__ import annotations

import sys
from typing import Annotated

try:
    import typer
    from rich.console import Console
except ImportError as error:
    sys.exit(f"the command line needs typer and rich ({error}); install numba-gemm[cli]")

app = typer.Typer(
    help="The SGEMM optimisation ladder as Numba-CUDA kernels.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

DONE, WRONG_RESULT, UNUSABLE = 0, 1, 2


@app.callback()
def main() -> None:
    """The SGEMM optimisation ladder as Numba-CUDA kernels."""


@app.command()
def demo(
    size: Annotated[int, typer.Option(help="M = N = K on a GPU; the simulator takes small tiles.", min=1)] = 4096,
) -> None:
    """Run every rung, verify it, and compare it with cuBLAS; without a GPU, in the simulator."""
    from numba_gemm.bench import demo as demonstration

    console = Console()
    try:
        correct = demonstration.run(size, console)
    except (RuntimeError, ValueError) as error:
        Console(stderr=True).print(f"numba-gemm: {error}", style="red", highlight=False)
        raise typer.Exit(UNUSABLE) from error
    raise typer.Exit(DONE if correct else WRONG_RESULT)


if __name__ == "__main__":
    app()
