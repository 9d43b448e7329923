"""`numba-gemm bench`: versions and peers on shapes, in a table that fills while it measures."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from numba_gemm.bench.candidates import Requested, parse_versions
from numba_gemm.bench.results import Row, ShapeResult, summaries
from numba_gemm.bench.suite import Shape, microseconds, parse_shapes, written

#: Terminals narrower than this get the table without tiles; and without GB/s and host time.
_WIDTH_FOR_TILES, _WIDTH_FOR_ALL_FIGURES = 140, 100
#: What `cache` may be: the L2 before each timed launch.
CACHES = ("cold", "warm")


@dataclass(frozen=True)
class Request:
    """What to measure."""

    versions: list[Requested]
    shapes: list[Shape]
    #: "cold", "warm" or both.
    caches: tuple[str, ...]


@dataclass
class Report:
    """What was measured, and on what."""

    caches: tuple[str, ...]
    machine: dict[str, Any] = field(default_factory=dict)
    measured_at: str = ""
    results: list[ShapeResult] = field(default_factory=list)

    @property
    def correct(self) -> bool:
        """Whether all results were right and all versions could be timed."""
        return not any(result.failed for result in self.results)

    def to_dict(self) -> dict[str, Any]:
        """What `--json` prints and `--save` stores."""
        return {
            "machine": self.machine,
            "measured_at": self.measured_at,
            "results": [result.to_dict() for result in self.results],
            "vs_cublas": {
                cache: {
                    name: {
                        "shapes": summary.shapes,
                        "geometric_mean": summary.geometric_mean,
                        "worst": summary.worst,
                        "worst_at": list(summary.worst_at),
                    }
                    for name, summary in summaries(self.results, cache).items()
                }
                for cache in self.caches
            },
        }


def request(versions: str, shapes: str, cold_only: bool | None) -> Request:
    """What was asked for on the command line; `cold_only` is None for both caches, False for the warm one alone.

    Raises:
        ValueError: for what is no version or no shape.
    """
    caches = CACHES if cold_only is None else CACHES[:1] if cold_only else CACHES[1:]
    return Request(parse_versions(versions), parse_shapes(shapes), caches)


def measure(asked: Request, save: Path | None, console: Console) -> Report:
    """Measure, showing what is there so far on the console; what was measured is saved even after an interruption.

    Raises:
        RuntimeError: without a GPU, or where what is cold cannot be told from what is warm.
        OSError: if the file cannot be written, before anything is measured.
    """
    from numba_gemm.bench import measure as library

    library.require_gpu("bench times kernels on a GPU")
    from numba_gemm.bench.environment import describe

    report = Report(asked.caches, describe(), time.strftime("%Y-%m-%dT%H:%M:%S%z"))
    with _saved(report, save):
        harness = library.harness()
        options = {cache: cache in asked.caches for cache in CACHES}
        total = library.steps(asked.shapes, asked.versions, rounds=library.ROUNDS, **options)
        with _live(_LiveReport(report, asked.shapes, total, console), console) as progress:
            for result in library.run(asked.shapes, asked.versions, harness, progress.report, **options):
                progress.add(result)
    return report


@contextmanager
def _saved(report: Report, path: Path | None) -> Iterator[None]:
    if path is None:
        yield
        return
    with path.open("a", encoding="utf-8"):  # or fail before minutes are spent on measuring
        pass
    try:
        yield
    finally:
        if report.results:
            path.write_text(json.dumps(report.to_dict(), indent=1) + "\n", encoding="utf-8")


# Showing it ------------------------------------------------------------------------------------------


class _LiveReport:
    """The table so far, and how far it is; both on one console."""

    def __init__(self, report: Report, shapes: list[Shape], total: int, console: Console) -> None:
        self._report, self._shapes, self._console = report, shapes, console
        self._progress = Progress(
            *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()), console=console
        )
        self._task = self._progress.add_task("", total=total)
        self._what = ""

    def report(self, what: str, further: int) -> None:
        self._what = what or self._what
        shape = written(self._shapes[len(self._report.results)])
        self._progress.update(self._task, description=f"{shape}: {self._what}", advance=further)

    def add(self, result: ShapeResult) -> None:
        self._report.results.append(result)

    def render(self) -> Group:
        # A live display is cut at the height of the terminal: the last results are what one wants to see.
        shown = max(1, (self._console.height - 8) // 3)
        return Group(table(self._report, self._console.width, self._report.results[-shown:]), self._progress)


@contextmanager
def _live(progress: _LiveReport, console: Console) -> Iterator[_LiveReport]:
    if not console.is_terminal:
        yield progress
        return
    with Live(console=console, refresh_per_second=4, get_renderable=progress.render, transient=True):
        yield progress


def show(report: Report, console: Console) -> None:
    """The whole table, the summary, and what could not be measured."""
    console.print(table(report, console.width, report.results))
    for cache in report.caches:
        for name, summary in summaries(report.results, cache).items():
            console.print(
                f"{name}, {cache} L2: {summary.geometric_mean:.2f} × cuBLAS in the geometric mean of {summary.shapes} "
                f"shapes, worst {summary.worst:.2f} at {written(summary.worst_at)}",
                highlight=False,
            )
    for result in report.results:
        for row in result.rows:
            if row.problem:
                style = "bold red" if row.wrong else "yellow"
                line = f"{written(result.shape)}, {row.name}: {row.problem}"
                console.print(line, style=style, markup=False, highlight=False)


def table(report: Report, width: int, results: list[ShapeResult]) -> Table:
    """A line a candidate; shapes apart."""
    machine = report.machine
    limit = next((result.ffma_limit for result in results if result.ffma_limit), None)
    title = f"{machine.get('gpu', '')}, CUDA {machine.get('cuda_driver', '')}; medians; × cuBLAS with TF32 off"
    if limit:
        title += f"; FFMA limit {limit / 1e12:.1f} TFLOP/s"
    shown = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    shown.add_column("M×N×K", no_wrap=True)
    shown.add_column("what", no_wrap=True)
    if width >= _WIDTH_FOR_TILES:
        shown.add_column("version, tile")
    for cache in report.caches:
        shown.add_column(f"{cache}\nµs", justify="right", no_wrap=True)
    all_figures = width >= _WIDTH_FOR_ALL_FIGURES
    headings = ["TFLOP/s", "%\nFFMA", *(["GB/s"] if all_figures else []), *[f"×\n{cache}" for cache in report.caches]]
    for heading in headings + (["host\nµs"] if all_figures else []):
        shown.add_column(heading, justify="right", no_wrap=True)
    for result in results:
        for index, row in enumerate(result.rows):
            shape = written(result.shape) if index == 0 else ""
            shown.add_row(shape, *_cells(result, row, report.caches, width), end_section=row is result.rows[-1])
    return shown


def _cells(result: ShapeResult, row: Row, caches: tuple[str, ...], width: int) -> list[str]:
    chosen = [", ".join(filter(None, (row.version, row.tile)))] if width >= _WIDTH_FOR_TILES else []
    if row.wrong:
        return [row.name, *chosen, "wrong"]
    if row.cold is None and row.warm is None:
        return [row.name, *chosen, "–"]
    all_figures = width >= _WIDTH_FOR_ALL_FIGURES
    share, tflops = result.share_of_limit(row), result.tflops(row)
    return [
        row.name,
        *chosen,
        *[_microseconds(getattr(row, cache)) for cache in caches],
        _number(tflops, ".1f"),
        _number(_times(share, 100), ".0f"),
        *([_number(result.gigabytes_per_second(row), ".0f")] if all_figures else []),
        *[_number(result.speedup(row, cache), ".2f") for cache in caches],
        *([_microseconds(row.host)] if all_figures else []),
    ]


def _microseconds(seconds: float | None) -> str:
    return "" if seconds is None else microseconds(seconds)


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
