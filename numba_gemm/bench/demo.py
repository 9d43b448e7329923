"""`numba-gemm demo`: the whole ladder on whatever this machine has.

With a GPU every version is verified against a float64 product and timed against cuBLAS. Without one the
kernels run as Python in Numba's simulator, and their machine code is compiled for two architectures.
The simulator acts when Numba is imported, and the compiler needs it off: the simulator gets a process
of its own.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from numba import cuda
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from numba_gemm import ladder
from numba_gemm.compiler.target import SIMULATOR
from numba_gemm.driver.compare import Comparison, KnownProduct, compare
from numba_gemm.ladder import Version

_ARCHITECTURES = ("sm_80", "sm_90")
#: Terminals narrower than this get the table without its column of explanations.
_WIDTH_FOR_SUMMARIES = 110


def run(size: int, console: Console) -> bool:
    """Show the ladder, live. Returns whether every result was correct."""
    if SIMULATOR:
        raise RuntimeError("unset NUMBA_ENABLE_CUDASIM; the demo starts the simulator itself where there is no GPU")
    correct = _on_gpu(size, console) if cuda.is_available() else _without_gpu(console)
    if correct:
        console.print("Every version is within the error bound of float32 accumulation (numba_gemm/accuracy.py).")
    else:
        console.print("A version is wrong, see above.", style="bold red")
    return correct


class _LadderTable:
    """A live table with a line for each rung, filled in as results arrive, and a progress bar below."""

    def __init__(self, console: Console, columns: list[str], steps: int) -> None:
        self._console, self._columns = console, columns
        self._cells = {version.name: [""] * len(columns) for version in ladder.RUNGS}
        self._footer: list[str] | None = None
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
        )
        self._task = self._progress.add_task("", total=steps)
        self._live = Live(console=console, refresh_per_second=8, get_renderable=self._render)

    def __enter__(self) -> _LadderTable:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
        self._progress.update(self._task, visible=False)
        self._live.stop()
        if not self._console.is_terminal:
            self._console.print()

    def doing(self, what: str) -> None:
        self._progress.update(self._task, description=what)

    def done(self, name: str | None = None, cells: dict[int, str] | None = None) -> None:
        """One step further, with cells of a version's line by column."""
        for column, cell in (cells or {}).items():
            self._cells[name or ""][column] = cell
        self._progress.advance(self._task)

    def footer(self, cells: list[str]) -> None:
        self._footer = cells

    def _render(self) -> Group:
        wide = self._console.width >= _WIDTH_FOR_SUMMARIES
        table = Table("rung")
        table.add_column("name", min_width=max(len(version.name) for version in ladder.RUNGS))
        if wide:
            table.add_column("what it teaches")
        for column in self._columns:
            table.add_column(column, justify="right", no_wrap=True)
        for version in ladder.RUNGS:
            number = "" if version.number is None else str(version.number)
            explanation = [version.summary] if wide else []
            table.add_row(number, version.name, *explanation, *self._cells[version.name])
        if self._footer:
            name, summary, *cells = self._footer
            table.add_section()
            table.add_row("", name, *([summary] if wide else []), *cells)
        return Group(table, self._progress)


def _mark(correct: bool) -> str:
    return "[green]✓[/green]" if correct else "[bold red]✗ wrong[/bold red]"


def _registers(registers: int | None, local_bytes: int | None) -> str:
    return f"{registers}" + (f" +{local_bytes} B" if local_bytes else "")


# With a GPU ------------------------------------------------------------------------------------------


def _on_gpu(size: int, console: Console) -> bool:
    from numba_gemm.bench import environment

    machine = environment.describe()
    console.print(
        f"{machine['gpu']}, CUDA {machine['cuda_driver']}: C = A·B in float32 with M = N = K = {size}. Times are "
        "medians with a cold L2; each version takes turns with cuBLAS (TF32 off).",
        highlight=False,
    )
    correct = True
    cublas_seconds = []
    columns = ["error/\nbound", "ms", "TFLOP/s", "×\ncuBLAS", "registers"]
    with _LadderTable(console, columns, steps=1 + len(ladder.RUNGS)) as table:
        table.doing("operands, and their product in float64")
        problem = KnownProduct.random(size, size, size)
        problem.reference.prepare()
        table.done()
        for version in ladder.RUNGS:
            table.doing(f"compile, verify and time {version.name}")
            result = compare(version.name, size, size, size, problem=problem)
            correct &= result.correct
            cublas_seconds.append(result.cublas_seconds)
            table.done(version.name, dict(enumerate(_gpu_cells(result))))
        baseline = statistics.median(seconds for seconds in cublas_seconds if seconds is not None)
        rate = 2 * size**3 / baseline / 1e12
        table.footer(["cuBLAS", "the baseline", "", f"{baseline * 1e3:.3g}", f"{rate:.1f}", "1.00", ""])
    return correct


def _gpu_cells(result: Comparison) -> list[str]:
    return [
        f"{result.error:.2f} {_mark(result.correct)}",
        f"{(result.seconds or 0) * 1e3:.3g}",
        f"{result.tflops or 0:.1f}",
        f"{result.speed_vs_cublas or 0:.2f}",
        _registers(result.registers, result.local_bytes),
    ]


# Without a GPU ---------------------------------------------------------------------------------------


def _without_gpu(console: Console) -> bool:
    console.print(
        f"No usable GPU here ({_why_no_gpu()}). Instead: the same kernels run thread by thread in Numba's simulator, "
        f"on small tiles, and their machine code is compiled for {' and '.join(_ARCHITECTURES)}: registers a thread "
        "(+ bytes spilled), and the share of FFMA in the main loop. What this cannot show is speed, and the comparison "
        "with cuBLAS; for those, run it on a machine with an NVIDIA GPU.",
        highlight=False,
    )
    columns = ["simulated:\nerror/bound", *(f"{arch}:\nregisters, FFMA" for arch in _ARCHITECTURES)]
    correct = True
    with _LadderTable(console, columns, steps=(1 + len(_ARCHITECTURES)) * len(ladder.RUNGS)) as table:
        table.doing("start the simulator")
        for result in _simulated():
            name, within = result["name"], result["error"] <= 1
            correct &= within
            table.doing(f"simulated {name}")
            table.done(name, {0: f"{result['error']:.2f} {_mark(within)}"})
        for version in ladder.RUNGS:
            for index, arch in enumerate(_ARCHITECTURES):
                table.doing(f"compile {version.name} for {arch}")
                table.done(version.name, {1 + index: _machine_code_cell(version, arch)})
    return correct


def _why_no_gpu() -> str:
    problem = cuda.cuda_error()
    return str(problem).strip().splitlines()[0].rstrip(".") if problem else "the CUDA driver lists no device"


def _simulated() -> Iterator[dict[str, Any]]:
    program = [sys.executable, "-m", "numba_gemm.bench.simulated"]
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    with subprocess.Popen(
        program, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            yield json.loads(line)
        errors = process.stderr.read()
    if process.returncode != 0:
        raise RuntimeError(f"the simulator ended with exit status {process.returncode}:\n{errors}")


def _machine_code_cell(version: Version, arch: str) -> str:
    from numba_gemm.analysis.code.inspection import inspect

    found = inspect(version.name, arch=arch)
    return f"{_registers(found.registers, found.local_bytes)}, {found.loop.ffma_share:.0%}"
