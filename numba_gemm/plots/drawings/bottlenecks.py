"""The chain of bottlenecks: what each rung would wait for if each part of the hardware worked alone."""

from __future__ import annotations

import textwrap

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from numba_gemm import ladder
from numba_gemm.analysis.models.explain import explain
from numba_gemm.plots import style
from numba_gemm.plots.subjects import CUBE, DEVICE

MILLI = 1e-3
HEIGHT = 0.15


def draw() -> Figure:
    """For each rung the range of time of each bound; the one with the largest is named, and what the next rung does."""
    explained = [(rung, explain(rung.name, *CUBE, DEVICE)) for rung in ladder.RUNGS]
    names = sorted({bound.name for _, found in explained for bound in found.bottlenecks})
    colours = dict(zip(names, style.CYCLE, strict=False))
    least = min(bound.most_s for _, found in explained for bound in found.bottlenecks if bound.most_s) / 2
    made = style.figure(
        1.0 + 0.82 * len(explained),
        "The chain of bottlenecks: what each part of the hardware alone would take",
        f"Model: {CUBE[0]}³ on {DEVICE.name}, from at best to at worst for each part of the hardware alone "
        "(`numba-gemm explain`). No measurement is in it. What is less than the axis shows is drawn at its end.",
    )
    axes = made.subplots()
    for place, (_, found) in enumerate(explained):
        for line, name in enumerate(names):
            for bound in found.bottlenecks:
                if bound.name == name:
                    low, high = max(bound.least_s, least) / MILLI, max(bound.most_s, least) / MILLI
                    y = place + (line - len(names) / 2 + 0.5) * HEIGHT
                    axes.barh(y, high - low, left=low, height=HEIGHT * 0.7, color=colours[name],
                              edgecolor=colours[name], linewidth=2)  # fmt: skip
                    axes.text(high * 1.12, y, name, va="center", fontsize=style.TINY - 1)
        worst = found.bottlenecks[0].name
        idea = textwrap.fill(found.next.removesuffix("."), style.COLUMN)
        axes.annotate(f"{worst} is the bound", (1.02, place - 0.28), xycoords=("axes fraction", "data"),
                      va="center", fontsize=style.SMALL, fontweight="bold", annotation_clip=False)  # fmt: skip
        axes.annotate(idea, (1.02, place - 0.17), xycoords=("axes fraction", "data"), va="top",
                      fontsize=style.TINY, annotation_clip=False)  # fmt: skip
    axes.set_yticks(range(len(explained)), [f"{rung.number}  {rung.name}" for rung, _ in explained])
    axes.set_ylim(len(explained) - 0.5, -0.5)
    style.logarithmic(axes.xaxis)
    axes.xaxis.set_major_locator(LogLocator())
    axes.set_xlabel("ms that each part would be busy", fontsize=style.SMALL)
    axes.grid(axis="x")
    axes.set_axisbelow(True)
    return made
