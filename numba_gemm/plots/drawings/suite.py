"""The suite as a heat map: how fast each shape is, as a multiple of cuBLAS."""

from __future__ import annotations

from math import log2

from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

from numba_gemm.plots import style
from numba_gemm.plots.results import Result, Results

#: The factor at which the colour is as strong as it gets.
FULL = 2.0


def draw(results: Results) -> Figure:
    """A row for each shape, a column for each version and state of the cache that was measured."""
    measured = results.group("suite")
    shapes = list(dict.fromkeys(_shape(result) for result in measured))
    columns = list(dict.fromkeys(_column(result) for result in measured))
    by = {(_shape(result), _column(result)): result for result in measured}

    made = style.figure(
        1.4 + 0.25 * len(shapes),
        "The suite against cuBLAS: times as fast, shape by shape",
        f"{results.provenance} Above one, and blue: faster than cuBLAS. Below, and orange with a hatch: slower.",
    )
    axes = style.blank(made.subplots(), equal=False)
    for row, shape in enumerate(shapes):
        axes.text(-0.05, row + 0.5, shape, ha="right", va="center", fontsize=style.SMALL)
        for place, column in enumerate(columns):
            result = by.get((shape, column))
            if result is not None:
                factor = result["vs_baseline"]
                style.cell(
                    axes, place, row, 1, 1, _colour(factor), f"{factor:.2f}", hatch=None if factor >= 1 else style.HATCH
                )
    for place, column in enumerate(columns):
        axes.text(place + 0.5, -0.2, column, ha="center", va="bottom", fontsize=style.SMALL)
    axes.set_xlim(-1 - len(columns) * 0.2, len(columns))
    axes.set_ylim(len(shapes), -1)
    return made


def _shape(result: Result) -> str:
    batch = f"{result['batch']} × " if (result.get("batch") or 1) > 1 else ""
    return f"{batch}{result['m']}×{result['n']}×{result['k']}"


def _column(result: Result) -> str:
    """What tells apart the results of one shape."""
    parts = (result.get("candidate") or result.get("version") or "auto", result.get("cache"))
    return ", ".join(str(part) for part in parts if part)


def _colour(factor: float) -> str:
    """From nearly white at one to blue or orange at `FULL` or 1 / `FULL`."""
    strength = min(1.0, abs(log2(factor)) / log2(FULL))
    end = to_rgb(style.BLUE if factor >= 1 else style.ORANGE)
    red, green, blue = (1 - (0.1 + 0.9 * strength) * (1 - channel) for channel in end)
    return to_hex((red, green, blue))
