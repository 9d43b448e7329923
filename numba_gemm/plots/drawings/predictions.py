"""Predicted and measured: the range that `explain` gives each rung before it is run, and the time it took."""

from __future__ import annotations

from matplotlib.figure import Figure

from numba_gemm import ladder
from numba_gemm.plots import style
from numba_gemm.plots.comparison import comparisons
from numba_gemm.plots.results import Results

MILLI = 1e-3


def draw(results: Results) -> Figure:
    """One panel per size, a bar per version."""
    compared = comparisons(results.stored)
    sizes = sorted({each.explanation.m for each in compared}, reverse=True)
    versions = list(dict.fromkeys(each.explanation.version for each in compared))
    made = style.figure(
        1.5 + 0.28 * len(versions),
        "Prediction against measurement: where a time leaves its range, the model lacks something",
        f"{results.provenance} Bars: from everything overlapping to nothing but what the kernel overlaps itself; tick: "
        "their geometric mean; circle: measured, a cross where outside.",
    )
    panels = made.subplots(1, len(sizes), sharey=True, squeeze=False)[0]
    for axes, size in zip(panels, sizes, strict=True):
        for each in (each for each in compared if each.explanation.m == size):
            place, expected = versions.index(each.explanation.version), each.explanation.prediction
            low, middle, high, seen = (
                seconds / MILLI
                for seconds in (
                    expected.optimistic_s,
                    expected.predicted_s,
                    expected.pessimistic_s,
                    each.measured_s,
                )
            )
            axes.barh(place, high - low, left=low, height=0.55, color=style.SKY)
            axes.plot([middle] * 2, [place - 0.27, place + 0.27], color="black", linewidth=1)
            axes.plot(seen, place, "o" if each.inside else "X", ms=7, color=style.VERMILION, markeredgecolor="black")
        style.logarithmic(axes.xaxis)
        axes.use_sticky_edges = False
        axes.margins(x=0.08)
        axes.set_xlabel("ms", fontsize=style.SMALL)
        axes.set_title(f"{size}³")
        axes.grid(axis="x")
        axes.set_axisbelow(True)
    panels[0].set_yticks(range(len(versions)), [_name(version) for version in versions])
    panels[0].invert_yaxis()
    return made


def _name(version: int | str) -> str:
    found = ladder.find(version)
    return found.name if found.number is None else f"{found.number}  {found.name}"
