"""`numba-gemm plot`: list the pictures, and draw them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from numba_gemm.plots.catalogue import PICTURES, find
from numba_gemm.plots.results import load, stored_results


def listing() -> list[dict[str, Any]]:
    """All pictures as plain data."""
    return [picture.to_dict() for picture in PICTURES]


def listing_table() -> Table:
    """One line a picture."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("name", no_wrap=True)
    table.add_column("what is seen")
    table.add_column("from", no_wrap=True)
    for picture in PICTURES:
        table.add_row(picture.name, picture.caption, "results" if picture.measured else "models")
    return table


def draw(names: list[str], out: Path, results: Path | None) -> list[str]:
    """Draw the pictures of those names, or all, into a folder; a line on each.

    Of all pictures, those are left out that show results which there are none of. `results` is the file of them; None
    for those of the current folder, or of the package.

    Raises:
        ValueError: for an unknown name, before anything is drawn, or for a named picture without its results.
        RuntimeError: without matplotlib.
    """
    chosen = [find(name) for name in names] or list(PICTURES)
    try:
        from numba_gemm.plots import files
    except ModuleNotFoundError as error:
        raise RuntimeError(f"pictures need matplotlib ({error}); install numba-gemm[plot]") from error
    results = results or stored_results()
    stored = load(results)
    lines = []
    for picture in chosen:
        if not names and not picture.can_be_drawn(stored):
            lines.append(f"{picture.name}: not drawn, {results} has no results of the group {picture.group!r}")
            continue
        written = files.write(picture, stored, out)
        lines.append(f"{picture.name}: {', '.join(map(str, written))}")
    return lines
