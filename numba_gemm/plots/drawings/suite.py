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
    by = {
        (_shape(result), column): factor
        for result in results.group("suite")
        for column, factor in _factors(result).items()
    }
    shapes, columns = (list(dict.fromkeys(names)) for names in zip(*by, strict=True))

    made = style.figure(
        1.4 + 0.25 * len(shapes),
        "The suite against cuBLAS: times as fast, shape by shape",
        f"{results.provenance} Above one, and blue: faster than cuBLAS. Below, and orange with a hatch: slower. "
        "A warm L2 is that of launches one right behind the other.",
    )
    axes = style.blank(made.subplots(), equal=False)
    for row, shape in enumerate(shapes):
        axes.text(-0.05, row + 0.5, shape, ha="right", va="center", fontsize=style.SMALL)
        for place, column in enumerate(columns):
            factor = by.get((shape, column))
            if factor is not None:
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


def _factors(result: Result) -> dict[str, float]:
    """How many times as fast as cuBLAS, by what tells apart the results of one shape."""
    name = result.get("candidate") or result.get("version") or "auto"
    found = {", ".join(part for part in (name, result.get("cache")) if part): result["vs_baseline"]}
    if result.get("vs_cublas_warm"):
        found[f"{name}, warm"] = result["vs_cublas_warm"]
    return found


def _colour(factor: float) -> str:
    """From nearly white at one to blue or orange at `FULL` or 1 / `FULL`."""
    strength = min(1.0, abs(log2(factor)) / log2(FULL))
    end = to_rgb(style.BLUE if factor >= 1 else style.ORANGE)
    red, green, blue = (1 - (0.1 + 0.9 * strength) * (1 - channel) for channel in end)
    return to_hex((red, green, blue))
