"""The pipeline as a timeline: copy and compute in turn, and a ring of stages that is filled ahead."""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from numba_gemm import ladder
from numba_gemm.analysis.models.bounds import MEMORY_LATENCY
from numba_gemm.analysis.models.ring import turn
from numba_gemm.plots import style
from numba_gemm.plots.subjects import DEVICE, PIPELINED, SERIAL, TURNS
from numba_gemm.tile import WARP, Tile


@dataclass(frozen=True)
class Span:
    """What happens to a tile in a buffer, in cycles."""

    buffer: int
    tile: int
    start: float
    end: float
    computing: bool


def draw() -> Figure:
    """Both timelines on the same axis."""
    serial, ring = (ladder.find(name) for name in (SERIAL, PIPELINED))
    compute = compute_cycles(ring.default_tile)
    made = style.figure(
        4.2,
        f"A ring of {ring.default_tile.stages} stages copies while it computes; one buffer makes them take turns",
        f"Model of one block alone: {compute:.0f} cycles of FFMA for a tile of K on {DEVICE.name} "
        f"({ring.default_tile.bm}·{ring.default_tile.bn}·{ring.default_tile.bk} multiply-adds, {DEVICE.fp32_lanes} a "
        f"cycle), {MEMORY_LATENCY} cycles from asking for a tile to having it. Numbers are tiles of K. A second block "
        "on the same multiprocessor fills a part of the gaps.",
    )
    schedules = (serial_spans(compute), ring_spans(compute, ring.default_tile.stages))
    last = max(span.end for spans in schedules for span in spans)
    panels = made.subplots(2, 1, sharex=True, height_ratios=[1, ring.default_tile.stages])
    for axes, version, spans in zip(panels, (serial, ring), schedules, strict=True):
        _timeline(axes, spans)
        end = max(span.end for span in spans if span.computing)
        axes.set_title(f"{version}: {TURNS} tiles in {end:.0f} cycles")
        axes.set_xlim(0, last * 1.01)
    panels[-1].set_xlabel("cycles", fontsize=style.SMALL)
    return made


def compute_cycles(tile: Tile) -> float:
    """Cycles that the FFMA of a block for one tile of K keep a multiprocessor busy."""
    return tile.bm * tile.bn * tile.bk / WARP / DEVICE.warp_ffma_per_cycle


def serial_spans(compute: float) -> list[Span]:
    """One buffer: a copy begins when everybody has computed what was in it."""
    both = MEMORY_LATENCY + compute
    return [
        span
        for tile in range(TURNS)
        for span in (
            Span(0, tile, tile * both, tile * both + MEMORY_LATENCY, False),
            Span(0, tile, tile * both + MEMORY_LATENCY, (tile + 1) * both, True),
        )
    ]


def ring_spans(compute: float, stages: int) -> list[Span]:
    """The turns of `analysis.ring`: wait until tile t is there, ask for tile t + S − 1, compute tile t."""
    spans = [Span(tile % stages, tile, 0, MEMORY_LATENCY, False) for tile in range(stages - 1)]
    there = {span.tile: span.end for span in spans}
    now = 0.0
    for t in range(TURNS):
        now = max(now, there[t])
        of_turn = turn(t, stages)
        if of_turn.refill_tile < TURNS:
            there[of_turn.refill_tile] = now + MEMORY_LATENCY
            spans.append(Span(of_turn.refill_buffer, of_turn.refill_tile, now, now + MEMORY_LATENCY, False))
        spans.append(Span(of_turn.compute_buffer, t, now, now + compute, True))
        now += compute
    return spans


def _timeline(axes: Axes, spans: list[Span]) -> None:
    for span in spans:
        style.cell(
            axes,
            span.start,
            span.buffer - 0.35,
            span.end - span.start,
            0.7,
            style.BLUE if span.computing else style.ORANGE,
            f"{'compute' if span.computing else 'copy'} {span.tile}",
            size=style.SMALL,
        )
    buffers = max(span.buffer for span in spans) + 1
    axes.set_yticks(range(buffers), [f"buffer {buffer}" for buffer in range(buffers)])
    axes.set_ylim(buffers - 0.5, -0.5)
    axes.grid(axis="x")
    axes.set_axisbelow(True)
