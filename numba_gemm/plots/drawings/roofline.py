"""The roofline, once for global and once for shared memory, with every rung at its place."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import log10

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from numba_gemm import ladder
from numba_gemm.analysis.models.bounds import L2_BYTES_PER_CYCLE
from numba_gemm.analysis.models.explain import Explanation, explain
from numba_gemm.hardware.devices import WAVEFRONT_BYTES, Hardware
from numba_gemm.plots import style
from numba_gemm.plots.results import Results
from numba_gemm.tile import WARP

TERA = 1e12


@dataclass(frozen=True)
class Point:
    """A rung: its intensity as a range, FLOP/s, and whether that was measured or is predicted."""

    label: str
    least: float
    most: float
    rate: float
    measured: bool


def draw(results: Results) -> Figure:
    """The largest cube that was measured; a rung that was not is where it is predicted to be."""
    device = results.device
    measured = results.group("ladder")
    size = max(result["m"] for result in measured)
    rates = {result["version"]: result["tflops"] * TERA for result in measured if result["m"] == size}
    explained = {rung: explain(rung.name, size, size, size, device) for rung in ladder.RUNGS}

    made = style.figure(
        4.7,
        f"From memory's roof to arithmetic's: the rungs at {size}³",
        f"{results.provenance} Filled: measured; hollow: predicted by `explain`. The naive kernel lies above the roof "
        "of device memory because the caches serve its reads. At shared memory the left end of a bar counts wavefronts "
        "as the hardware serves wide reads, the right end as if all lanes were served at once.",
    )
    at_global, at_shared = made.subplots(1, 2, sharey=True)
    rows = [(rung, found, rates.get(rung.name)) for rung, found in explained.items()]

    clock = device.clock_hz * device.multiprocessors
    _roof(at_global, device, device.memory_bandwidth, "device memory")
    _band(at_global, device, [bytes_a_cycle * clock for bytes_a_cycle in L2_BYTES_PER_CYCLE], "L2 (model)")
    _points(at_global, [_point(rung, found, rate, (found.global_intensity,) * 2) for rung, found, rate in rows])
    at_global.set_xlabel("FLOP per byte that blocks read of A and B", fontsize=style.SMALL)
    at_global.set_ylabel("TFLOP/s", fontsize=style.SMALL)
    at_global.set_title("at global memory")

    _roof(at_shared, device, WAVEFRONT_BYTES * clock, "shared memory")
    shared = [(rung, found, rate, _per_wavefront_byte(found)) for rung, found, rate in rows]
    _points(at_shared, [_point(rung, found, rate, ends) for rung, found, rate, ends in shared if ends])
    at_shared.set_xlabel("FLOP per byte of shared-memory wavefronts", fontsize=style.SMALL)
    without = ", ".join(str(rung.number) for rung, _, _, ends in shared if not ends)
    at_shared.set_title(f"at shared memory, which rung {without} does not use")
    return made


def _point(rung: ladder.Version, found: Explanation, rate: float | None, ends: tuple[float, float]) -> Point:
    flops = found.roofline.flops
    return Point(f"{rung.number}", *ends, rate or flops / found.prediction.predicted_s, rate is not None)


def _per_wavefront_byte(found: Explanation) -> tuple[float, float] | None:
    if found.shared_wavefronts_per_ffma is None:
        return None
    least, served = found.shared_wavefronts_per_ffma
    return tuple(2 * WARP / (wavefronts * WAVEFRONT_BYTES) for wavefronts in (served, least))  # type: ignore[return-value]


def _roof(axes: Axes, device: Hardware, bandwidth: float, name: str) -> None:
    ridge = device.fp32_peak / bandwidth
    left, right = ridge * 2**-7, ridge * 2**4
    axes.plot([left, ridge, right], np.array([left * bandwidth, device.fp32_peak, device.fp32_peak]) / TERA,
              color=style.VERMILION, linewidth=2)  # fmt: skip
    axes.set_xscale("log", base=2)
    style.logarithmic(axes.yaxis)
    axes.set_xlim(left, right)
    axes.set_ylim(device.fp32_peak / TERA * 2**-6, device.fp32_peak / TERA * 1.6)
    axes.annotate(f"FFMA {device.fp32_peak / TERA:.1f}", (right, device.fp32_peak / TERA), xytext=(0, 3),
                  textcoords="offset points", ha="right", fontsize=style.SMALL)  # fmt: skip
    axes.annotate(f"{name}\n{bandwidth / TERA:.3g} TB/s", (ridge / 12, device.fp32_peak / 12 / TERA), xytext=(6, 2),
                  textcoords="offset points", ha="left", va="top", fontsize=style.SMALL)  # fmt: skip
    axes.grid()
    axes.xaxis.set_major_formatter(lambda value, _: str(Fraction(value)))


def _band(axes: Axes, device: Hardware, bandwidths: list[float], name: str) -> None:
    left = axes.get_xlim()[0]
    low, high = sorted(bandwidths)
    ridges = device.fp32_peak / np.array([high, low])
    corners = [(left, left * low), (left, left * high), *((ridge, device.fp32_peak) for ridge in ridges)]
    axes.fill(*zip(*((x, y / TERA) for x, y in corners), strict=True), color=style.SKY, alpha=0.35, linewidth=0)
    axes.annotate(name, (ridges[0] / 2, device.fp32_peak / 2 / TERA), xytext=(-4, 0), textcoords="offset points",
                  ha="right", va="bottom", fontsize=style.SMALL)  # fmt: skip


def _points(axes: Axes, points: list[Point]) -> None:
    for point in points:
        axes.plot([point.least, point.most], [point.rate / TERA] * 2, color=style.BLUE, linewidth=1.2)
        axes.plot(point.least, point.rate / TERA, "o", ms=6, color=style.BLUE, markeredgecolor=style.BLUE,
                  markerfacecolor=style.BLUE if point.measured else "none")  # fmt: skip
    _label(axes, points)


def _label(axes: Axes, points: list[Point]) -> None:
    """Numbers beside the points, pushed apart where points of nearly the same rate would cover each other's."""
    low, high = (log10(limit) for limit in axes.get_ylim())
    gap = 0.06 * (high - low)
    ordered = sorted(points, key=lambda point: -point.rate)
    heights = [log10(point.rate / TERA) for point in ordered]
    for above in range(len(heights) - 1):
        heights[above + 1] = min(heights[above + 1], heights[above] - gap)
    for point, height in zip(ordered, heights, strict=True):
        axes.annotate(
            point.label,
            (point.most, point.rate / TERA),
            xytext=(point.most * 1.7, 10**height),
            va="center",
            fontsize=style.NORMAL,
            fontweight="bold",
            arrowprops={"arrowstyle": "-", "color": style.GREY, "linewidth": 0.7, "shrinkA": 0, "shrinkB": 2},
        )
