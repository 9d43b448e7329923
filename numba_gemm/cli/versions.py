"""`numba-gemm versions`: the ladder as a list."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from numba_gemm.ladder import CAPABILITIES, VERSIONS

#: Columns of a terminal in which the table has room for tiles.
_WIDTH_FOR_TILES = 100


def listing() -> list[dict[str, Any]]:
    """All versions as plain data."""
    return [
        {
            "number": version.number,
            "name": version.name,
            "summary": version.summary,
            "capabilities": sorted(version.capabilities),
            "min_cc": list(version.min_cc),
            "default_tile": asdict(version.default_tile),
        }
        for version in VERSIONS
    ]


def show(console: Console) -> None:
    """One line a version."""
    tiles = console.width >= _WIDTH_FOR_TILES
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("rung")
    table.add_column("name", no_wrap=True)
    table.add_column("what it teaches", overflow="fold")
    table.add_column("besides\nC = A·B", min_width=len("transpose"))
    table.add_column("min\ncc", justify="right")
    if tiles:
        table.add_column("BM×BN×BK,\nTM×TN", no_wrap=True)
    for version in VERSIONS:
        tile, able = version.default_tile, version.capabilities
        table.add_row(
            "" if version.number is None else str(version.number),
            version.name,
            version.summary,
            "all" if able >= set(CAPABILITIES) else ", ".join(sorted(able)),
            ".".join(map(str, version.min_cc)),
            *([f"{tile.bm}×{tile.bn}×{tile.bk}, {tile.tm}×{tile.tn}"] if tiles else []),
        )
    console.print(table)
