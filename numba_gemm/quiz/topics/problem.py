"""The problem itself: how much arithmetic, how many bytes, and which of them decides."""

from __future__ import annotations

from collections.abc import Iterator

from numba_gemm.analysis.models.roofline import roofline
from numba_gemm.hardware.devices import A100
from numba_gemm.quiz.question import Choice, Numeric, Question, figure
from numba_gemm.quiz.topics.given import CUBE, MIB, SIZE

TOPIC = "the problem"


def questions() -> Iterator[Question]:
    """What the roofline says about 4096³ on an A100."""
    found = roofline(*CUBE, A100)
    matrix = found.minimum_bytes / 3 / MIB
    yield Numeric(
        title="work",
        text=f"How much arithmetic is one product of M = N = K = {SIZE}, a multiply and an add counted as two?",
        answer=found.flops / 1e9,
        unit="GFLOP",
        hint="Every output is a sum of K products, and there are M·N outputs.",
        explanation=f"2·M·N·K = 2·{SIZE}³ = {figure(found.flops / 1e9)} GFLOP.",
    )
    yield Numeric(
        title="least traffic",
        text="How many bytes must cross the memory bus for it at least, in FP32, if every element does so just once?",
        answer=found.minimum_bytes / MIB,
        unit="MiB",
        hint="A and B are read, C is written; an element has 4 bytes.",
        explanation=f"Three matrices of {SIZE}² · 4 bytes = {figure(matrix)} MiB, together "
        f"{figure(found.minimum_bytes / MIB)} MiB.",
    )
    yield Numeric(
        title="intensity of the problem",
        text="What is its arithmetic intensity at best, work over least traffic?",
        answer=found.minimum_intensity,
        unit="FLOP/B",
        hint="Write M = N = K = s and cancel before you calculate.",
        explanation=f"2·s³ / (3·4·s²) = s/6 = {figure(found.minimum_intensity)} FLOP/B: it grows with the size.",
    )
    yield Numeric(
        title="ridge",
        text=f"An A100 has an FP32 peak of {A100.fp32_peak / 1e12:.1f} TFLOP/s without tensor cores, and "
        f"{A100.memory_bandwidth / 1e12:.1f} TB/s of memory bandwidth. From which intensity on is arithmetic the "
        "bound?",
        answer=found.ridge,
        unit="FLOP/B",
        hint="At the ridge, both bounds take the same time.",
        explanation=f"Peak over bandwidth, {figure(found.ridge)} FLOP/B.",
    )
    yield Numeric(
        title="time by arithmetic",
        text=f"How long does the product of {SIZE}³ take on that A100 at the least, by its arithmetic?",
        answer=found.compute_bound_s * 1e3,
        unit="ms",
        hint="Work over peak.",
        explanation=f"{found.flops / 1e9:.1f} GFLOP at {A100.fp32_peak / 1e12:.2f} TFLOP/s take "
        f"{figure(found.compute_bound_s * 1e3)} ms.",
    )
    yield Numeric(
        title="time by memory",
        text="And by its least traffic?",
        answer=found.memory_bound_s * 1e3,
        unit="ms",
        hint="Bytes over bandwidth; mind that MiB are not MB.",
        explanation=f"{found.minimum_bytes / 1e6:.0f} MB at {A100.memory_bandwidth / 1e12:.1f} TB/s take "
        f"{figure(found.memory_bound_s * 1e3)} ms, {found.compute_bound_s / found.memory_bound_s:.0f} times less than "
        "the arithmetic.",
    )
    options = ("memory bandwidth", "arithmetic", "both alike", "neither: the launch takes longer than both")
    right = {"memory": 0, "compute": 1}[found.bound]
    yield Choice(
        title="what decides",
        text=f"What bounds a perfect kernel for {SIZE}³ on that A100?",
        options=options,
        right=right,
        hint="Compare the intensity of the problem with the ridge.",
        explanation=f"{figure(found.minimum_intensity)} FLOP/B are far beyond the ridge of {figure(found.ridge)}, so "
        f"{options[right]} is the bound. A kernel that is bound by memory is so by its own traffic, not by the "
        "problem's.",
    )
