"""The ladder as bars: what each rung reaches, against cuBLAS and the limit of FFMA."""

from __future__ import annotations

from statistics import median

from matplotlib.figure import Figure

from numba_gemm import ladder
from numba_gemm.analysis.models.roofline import flops
from numba_gemm.plots import style
from numba_gemm.plots.results import Results

TERA = 1e12
MARKERS = "^os"


def draw(results: Results) -> Figure:
    """Bars for the largest cube, marks for the smaller ones."""
    measured = results.group("ladder")
    sizes = sorted({result["m"] for result in measured})
    *smaller, largest = sizes
    by = {(result["version"], result["m"]): result for result in measured}
    rungs = [rung for rung in ladder.RUNGS if (rung.name, largest) in by]

    made = style.figure(
        1.3 + 0.45 * len(rungs),
        f"Rung by rung towards cuBLAS and the limit of FFMA: {largest}³ in single precision",
        f"{results.provenance} The FFMA limit is {results.device.multiprocessors} multiprocessors × "
        f"{results.device.fp32_lanes} lanes × two FLOP × {results.device.clock_hz / 1e9:.2f} GHz.",
    )
    axes = made.subplots()
    for place, rung in enumerate(rungs):
        best = by[rung.name, largest]
        axes.barh(place, best["tflops"], height=0.62, color=style.BLUE)
        axes.annotate(
            f"{best['tflops']:.1f} TFLOP/s\n{best['vs_baseline']:.2f} × cuBLAS",
            (1.0, place),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=style.SMALL,
            annotation_clip=False,
        )
    for size, marker in zip(smaller, MARKERS, strict=False):
        points = [(by[rung.name, size]["tflops"], place) for place, rung in enumerate(rungs) if (rung.name, size) in by]
        axes.plot(
            *zip(*points, strict=True), marker, color=style.ORANGE, markeredgecolor="black", ms=6, label=f"at {size}³"
        )

    baseline = flops(largest, largest, largest) / median(
        result["baseline_seconds"] for result in measured if result["m"] == largest
    )
    for name, rate, line in (("cuBLAS", baseline, "--"), ("FFMA limit", results.device.fp32_peak, "-")):
        axes.axvline(rate / TERA, color=style.VERMILION, linestyle=line, linewidth=1.5)
        axes.annotate(
            f"{name} {rate / TERA:.1f}",
            (rate / TERA, 1),
            xycoords=("data", "axes fraction"),
            xytext=(-3, 2),
            textcoords="offset points",
            ha="right",
            fontsize=style.SMALL,
        )
    axes.set_yticks(range(len(rungs)), [f"{rung.number}  {rung.name}" for rung in rungs], fontsize=style.NORMAL)
    axes.invert_yaxis()
    axes.set_xlim(0, results.device.fp32_peak / TERA * 1.02)
    axes.set_xlabel("TFLOP/s", fontsize=style.SMALL)
    axes.grid(axis="x")
    axes.set_axisbelow(True)
    if smaller:
        axes.legend(loc="upper right", bbox_to_anchor=(0.7, 1))
    return made
