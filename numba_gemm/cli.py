"""The command line. Thin: it parses, calls, prints."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

try:
    import typer
    from rich import box
    from rich.console import Console
    from rich.table import Table
except ImportError as error:
    sys.exit(f"the command line needs typer and rich ({error}); install numba-gemm[cli]")

if TYPE_CHECKING:
    from numba_gemm.ladder import Version

app = typer.Typer(
    help="The SGEMM optimisation ladder as Numba-CUDA kernels.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

DONE, WRONG_RESULT, UNUSABLE = 0, 1, 2

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@contextmanager
def _errors_in_one_line() -> Iterator[None]:
    """Whoever calls the program reads what went wrong on one line of standard error, and status 2."""
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        # Not wrapped at the width of the terminal; brackets are text: the message may name numba-gemm[inspect].
        line = f"numba-gemm: {' '.join(str(error).split())}"
        Console(stderr=True).print(line, style="red", highlight=False, markup=False, soft_wrap=True)
        raise typer.Exit(UNUSABLE) from error


def _print_json(data: Any) -> None:
    typer.echo(json.dumps(data, indent=2))


@app.callback()
def main() -> None:
    """The SGEMM optimisation ladder as Numba-CUDA kernels."""


@app.command()
def demo(
    size: Annotated[int, typer.Option(help="M = N = K on a GPU; the simulator takes small tiles.", min=1)] = 4096,
) -> None:
    """Run every rung, verify it, and compare it with cuBLAS; without a GPU, in the simulator."""
    from numba_gemm.bench import demo as demonstration

    with _errors_in_one_line():
        correct = demonstration.run(size, Console())
    raise typer.Exit(DONE if correct else WRONG_RESULT)


@app.command()
def versions(as_json: AsJson = False) -> None:
    """List the ladder: rungs first, then the detours."""
    from numba_gemm.ladder import VERSIONS

    if as_json:
        _print_json([_version_facts(version) for version in VERSIONS])
    else:
        Console().print(_versions_table(VERSIONS))


@app.command()
def inspect(
    version: Annotated[str, typer.Argument(help="A number or a name; `numba-gemm versions` lists them.")],
    arch: Annotated[str, typer.Option(help="The architecture to compile for, sm_80 to sm_120.")] = "sm_90",
    loop: Annotated[bool, typer.Option("--loop", help="Print the main loop in SASS, too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compile a version and show registers, spills and the main loop's instructions. Needs no GPU."""
    import numba_gemm

    with _errors_in_one_line():
        if loop and as_json:
            raise ValueError("--loop prints text; leave out --json or --loop")
        found = numba_gemm.inspect(_number_or_name(version), arch=arch)
    if as_json:
        _print_json(found.to_dict())
        return
    Console().print(found)
    if loop:
        typer.echo(f"\n{found.loop_listing()}")


def _number_or_name(version: str) -> int | str:
    return int(version) if version.isdecimal() else version


def _version_facts(version: Version) -> dict[str, Any]:
    return {
        "number": version.number,
        "name": version.name,
        "summary": version.summary,
        "capabilities": sorted(version.capabilities),
        "min_cc": list(version.min_cc),
        "default_tile": asdict(version.default_tile),
    }


def _versions_table(listed: tuple[Version, ...]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("rung")
    table.add_column("name", no_wrap=True)
    table.add_column("what it teaches")
    table.add_column("capabilities", min_width=len("capabilities"))
    table.add_column("min\ncc", justify="right")
    table.add_column("default tile", no_wrap=True)
    for version in listed:
        table.add_row(
            "" if version.number is None else str(version.number),
            version.name,
            version.summary,
            ", ".join(sorted(version.capabilities)),
            ".".join(map(str, version.min_cc)),
            str(version.default_tile).replace(", ", ",\n"),
        )
    return table


if __name__ == "__main__":
    app()
