"""`numba-gemm tune`: fill, list and clear the tuning database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from numba_gemm._version import __version__
from numba_gemm.auto import database
from numba_gemm.auto.entry import Timed
from numba_gemm.bench.suite import parse_shapes
from numba_gemm.bench.tune import Tuning, tune
from numba_gemm.compiler.disk_cache import fingerprint
from numba_gemm.problem import Problem


def fill(shapes: str) -> list[Tuning]:
    """Tune each of the shapes, written as `parse_shapes` takes them.

    Raises:
        ValueError: for what is not a shape, before anything is timed.
        RuntimeError, OSError: like `tune`.
    """
    return [tune(*shape) for shape in parse_shapes(shapes)]


def filled_table(tunings: list[Tuning]) -> Table:
    """One line a shape: the fastest, and how much slower the next is."""
    table = _table("what `auto` takes from now on, on this device")
    table.add_column("next best\nis slower by", justify="right")
    for tuning in tunings:
        margin = f"{tuning.times[1].seconds / tuning.seconds - 1:.1%}" if len(tuning.times) > 1 else ""
        table.add_row(*_cells(tuning.key, tuning.best), margin)
    return table


def show(tunings: list[Tuning], console: Console) -> None:
    """Print the table, where it is stored, and whether it is used."""
    console.print(filled_table(tunings))
    console.print(f"stored in {tunings[-1].path}", highlight=False, soft_wrap=True)
    if not database.enabled():
        console.print(f'{database.OPT_OUT}=0 is set: "auto" does not look at it', style="yellow", highlight=False)


def clear() -> dict[str, Any]:
    """Remove the user's files, of all devices and states of the package."""
    return {"removed": database.clear(), "folder": str(database.folder())}


def cleared(removed: dict[str, Any]) -> str:
    """What `clear` did, in words."""
    count = removed["removed"]
    return f"removed {count} {'file' if count == 1 else 'files'} from {removed['folder']}"


# Listing ---------------------------------------------------------------------------------------------


def listing() -> list[dict[str, Any]]:
    """All stored entries, the shipped ones first. Needs no GPU, so it cannot know which device is meant.

    `source` is "shipped" or "user"; `current` says whether the entry belongs to this state of the package. A file
    that cannot be read has an `error` instead.
    """
    return [*_facts("shipped", database.shipped_files()), *_facts("user", database.user_files())]


def _facts(source: str, paths: list[Path]) -> Iterator[dict[str, Any]]:
    for path in paths:
        try:
            header, entries = database.read_any(path)
        except (OSError, ValueError) as error:
            yield {"source": source, "path": str(path), "error": str(error)}
            continue
        mine = {"library": __version__, "kernels": fingerprint()}
        current = source == "shipped" or all(header.get(name) == value for name, value in mine.items())
        for key, entry in entries.items():
            yield {
                "source": source,
                "path": str(path),
                "current": current,
                "device": header.get("device"),
                "driver": header.get("driver"),
                **entry.to_dict(key),
            }


def show_listing(listed: list[dict[str, Any]], console: Console) -> None:
    """One line an entry; below, the files that cannot be used."""
    entries = [facts for facts in listed if "error" not in facts]
    if entries:
        console.print(_listing_table(entries))
    else:
        console.print("no entries: nothing has been tuned here, and nothing shipped")
    for facts in listed:
        if "error" in facts:
            console.print(
                f"{facts['path']} is not used: {facts['error']}", markup=False, highlight=False, soft_wrap=True
            )


def _listing_table(listed: list[dict[str, Any]]) -> Table:
    table = _table("the tuning database")
    table.add_column("device")
    table.add_column("from")
    for facts in listed:
        ((key, entry),) = database.entries_of([facts]).items()
        origin = facts["source"] if facts["current"] else f"{facts['source']}, another state of the package"
        table.add_row(*_cells(key, entry.best), str(facts["device"]), origin)
    return table


def _table(title: str) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("M×N×K", no_wrap=True)
    table.add_column("layout")
    table.add_column("version")
    table.add_column("tile")
    table.add_column("ms", justify="right")
    table.add_column("TFLOP/s", justify="right")
    return table


def _cells(key: Problem, best: Timed) -> list[str]:
    batch = f"{key.batch} × " if key.batch > 1 else ""
    return [
        f"{batch}{key.m}×{key.n}×{key.k}",
        key.layout,
        str(best.choice.version),
        str(best.choice.tile).replace(", ", ",\n"),
        f"{best.seconds * 1e3:.3g}",
        f"{key.flops / best.seconds / 1e12:.1f}",
    ]
