"""The command line. Thin: it parses, calls, prints."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

try:
    import typer
    from rich.console import Console
except ImportError as error:
    sys.exit(f"the command line needs typer and rich ({error}); install numba-gemm[cli]")

from numba_gemm.cli.arguments import AsJson, Version
from numba_gemm.cli.output import DONE, WRONG_RESULT, OneLineGroup, errors_in_one_line, print_json
from numba_gemm.compiler.packages import compiler_problem, installed_packages

app = typer.Typer(
    cls=OneLineGroup,
    help="The SGEMM optimisation ladder as Numba-CUDA kernels.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def main(context: typer.Context) -> None:
    """The SGEMM optimisation ladder as Numba-CUDA kernels."""
    problem = compiler_problem(installed_packages(("numpy", "numba-cuda")))
    if problem is not None and context.invoked_subcommand != "info":
        with errors_in_one_line():
            raise RuntimeError(f"{problem.text}: {problem.remedy}")


@app.command()
def demo(
    size: Annotated[int, typer.Option(help="M = N = K on a GPU; the simulator takes small tiles.", min=1)] = 4096,
) -> None:
    """Run every rung, verify it, and compare it with cuBLAS; without a GPU, in the simulator."""
    from numba_gemm.bench import demo as demonstration

    with errors_in_one_line():
        correct = demonstration.run(size, Console())
    raise typer.Exit(DONE if correct else WRONG_RESULT)


@app.command()
def versions(as_json: AsJson = False) -> None:
    """List the ladder: rungs first, then the detours."""
    from numba_gemm.cli import versions as command

    print_json(command.listing()) if as_json else command.show(Console())


@app.command()
def explain(
    version: Version,
    m: Annotated[int, typer.Argument(help="Rows of A and C.", min=0)],
    n: Annotated[int, typer.Argument(help="Columns of B and C.", min=0)],
    k: Annotated[int, typer.Argument(help="Columns of A, rows of B.", min=0)],
    device: Annotated[
        str | None, typer.Option(help="A100, H100, H200, RTX A6000, …; by default the GPU at hand, or H200.")
    ] = None,
    detail: Annotated[
        bool, typer.Option("--detail", help="Compile it, and count registers and instructions there.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say what bounds a version on a shape, how long it should take, and what the next rung does about it."""
    from numba_gemm.cli import explain as command

    with errors_in_one_line():
        found = command.explain(version, m, n, k, device, detail)
    print_json(found.to_dict()) if as_json else Console().print(found)


@app.command()
def inspect(
    version: Version,
    arch: Annotated[str, typer.Option(help="The architecture to compile for, sm_80 to sm_120.")] = "sm_90",
    loop: Annotated[bool, typer.Option("--loop", help="Print the main loop in SASS, too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compile a version and show registers, spills and the main loop's instructions. Needs no GPU."""
    from numba_gemm.cli import inspect as command

    with errors_in_one_line():
        if loop and as_json:
            raise ValueError("--loop prints text; leave out --json or --loop")
        found = command.inspect(version, arch)
    print_json(found.to_dict()) if as_json else command.show(found, Console(), loop=loop)


@app.command()
def bench(
    versions: Annotated[
        str, typer.Option(help="Numbers or names with commas between, and `auto`: the version for the shape.")
    ] = "auto",
    shapes: Annotated[
        str, typer.Option(help="MxNxK, several with commas between, or `suite`: those that count.")
    ] = "suite",
    cold: Annotated[
        bool | None, typer.Option("--cold/--warm", help="The L2 before each timed launch; by default both.")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="A file for all figures, as JSON.")] = None,
    as_json: AsJson = False,
) -> None:
    """Verify and time versions against cuBLAS on this GPU, and on large cubes against Triton and PyTorch.

    benchmarks/README.md says what is measured, and how.
    """
    from numba_gemm.cli import bench as command

    with errors_in_one_line():
        asked = command.request(versions, shapes, cold)
        found = command.measure(asked, save, Console(stderr=True))
    print_json(found.to_dict()) if as_json else command.show(found, Console())
    raise typer.Exit(DONE if found.correct else WRONG_RESULT)


@app.command()
def info(as_json: AsJson = False) -> None:
    """Say what is here, what is missing and how to get it; status 1 if what is here does not fit together."""
    from numba_gemm.cli import info as command

    found = command.info()
    print_json(found.to_dict()) if as_json else command.show(found, Console())
    raise typer.Exit(DONE if found.fits else WRONG_RESULT)


@app.command()
def show(
    version: Version,
    as_json: AsJson = False,
) -> None:
    """Print the source of a version's kernel."""
    from numba_gemm.cli import show as command

    with errors_in_one_line():
        found = command.source(version)
    print_json(found.to_dict()) if as_json else command.show(found, Console())


@app.command()
def diff(
    before: Annotated[str, typer.Argument(metavar="VERSION", help="A number or a name.")],
    after: Annotated[str, typer.Argument(metavar="VERSION", help="What is held against it.")],
    as_json: AsJson = False,
) -> None:
    """Show what the second version adds to the first."""
    from numba_gemm.cli import diff as command

    with errors_in_one_line():
        found = command.difference(before, after)
    print_json(found.to_dict()) if as_json else command.show(found, Console())


@app.command()
def tune(
    shapes: Annotated[
        str, typer.Option(help="MxNxK, several with commas between, or `suite`: the shapes of the benchmarks.")
    ] = "suite",
    list_stored: Annotated[bool, typer.Option("--list", help="List what is stored; needs no GPU.")] = False,
    clear: Annotated[bool, typer.Option("--clear", help="Remove what has been tuned here, on all devices.")] = False,
    as_json: AsJson = False,
) -> None:
    """Time the candidate versions and tiles on this GPU; "auto" then takes the fastest.

    NUMBA_GEMM_TUNING=0 in the environment makes "auto" choose without looking at what was measured.
    """
    from numba_gemm.cli import tune as command

    correct = True
    with errors_in_one_line():
        if list_stored and clear:
            raise ValueError("--list shows what --clear removes; leave out one of them")
        if list_stored:
            listed = command.listing()
            print_json(listed) if as_json else command.show_listing(listed, Console())
        elif clear:
            removed = command.clear()
            print_json(removed) if as_json else typer.echo(command.cleared(removed))
        else:
            tunings = command.fill(shapes)
            correct = not any(tuning.wrong for tuning in tunings)
            print_json([tuning.to_dict() for tuning in tunings]) if as_json else command.show(tunings, Console())
    raise typer.Exit(DONE if correct else WRONG_RESULT)


@app.command()
def plot(
    names: Annotated[list[str] | None, typer.Argument(help="Pictures, as `--list` names them; by default all.")] = None,
    out: Annotated[Path, typer.Option(help="The folder for the SVG and PNG files.")] = Path("notes/pictures"),
    results: Annotated[
        Path | None,
        typer.Option(help="Stored results of the benchmarks; by default those of this folder, or of the package."),
    ] = None,
    list_pictures: Annotated[bool, typer.Option("--list", help="List the pictures, draw none.")] = False,
    as_json: AsJson = False,
) -> None:
    """Draw pictures from the models and from stored results; with --list, say what there is. Needs no GPU."""
    from numba_gemm.cli import plot as command

    with errors_in_one_line():
        if as_json and not list_pictures:
            raise ValueError("--json prints the list of pictures; it goes with --list")
        if list_pictures:
            print_json(command.listing()) if as_json else Console().print(command.listing_table())
        else:
            for line in command.draw(names or [], out, results):
                typer.echo(line)


@app.command()
def quiz(
    number: Annotated[int | None, typer.Argument(help="A question; `--list` numbers them. By default all.")] = None,
    answer: Annotated[str | None, typer.Option(help="Answer the question without being asked.")] = None,
    hint: Annotated[bool, typer.Option("--hint", help="Show the question with its hint.")] = False,
    solution: Annotated[bool, typer.Option("--solution", help="Show it with its answer and an explanation.")] = False,
    list_questions: Annotated[bool, typer.Option("--list", help="List the questions.")] = False,
    as_json: AsJson = False,
) -> None:
    """Ask what the models can answer, and judge the reply: status 0 for a right answer, 1 for a wrong one."""
    from numba_gemm.cli import quiz as command

    with errors_in_one_line():
        right = command.run(number, answer, hint, solution, list_questions, as_json)
    raise typer.Exit(DONE if right else WRONG_RESULT)
