"""Copies that overlap with arithmetic: prefetching through registers, cp.async, a ring of stages."""

from __future__ import annotations

from collections.abc import Iterator

from numba_gemm.analysis.models import ring, traffic
from numba_gemm.hardware.devices import RTX_5080
from numba_gemm.quiz.question import Choice, Numeric, Open, Question, figure
from numba_gemm.quiz.topics.given import REGISTER, RING, SIZE

TOPIC = "the pipeline"


def questions() -> Iterator[Question]:
    """Why copies are started ahead, and what keeps them in order."""
    yield from _prefetch()
    yield from _async_copies()
    yield from _ring()


def _prefetch() -> Iterator[Question]:
    cycles = REGISTER.bm * REGISTER.bn * REGISTER.bk / RTX_5080.fp32_lanes
    yield Choice(
        title="prefetching through registers",
        text="One block buffer in shared memory, no cp.async. In which order does a turn of the loop hide the latency "
        "of global memory?",
        options=(
            "load tile t + 1 to registers, store it to shared memory, barrier, compute tile t",
            "compute tile t, load tile t + 1 to registers, barrier, store it to shared memory",
            "barrier, load tile t + 1 to registers, store it to shared memory, compute tile t + 1",
            "load tile t + 1 to registers, compute tile t, barrier, store it to shared memory, barrier",
        ),
        right=3,
        hint="What has to lie between the load and the first use of its value?",
        explanation="A load does not wait; the first use of its value does. So the arithmetic of tile t lies between "
        "the two. The store waits until everyone has read tile t, and the next turn until everyone has stored.",
    )
    yield Numeric(
        title="time to hide in",
        text=f"On a device with {RTX_5080.fp32_lanes} FP32 lanes per SM, how many cycles does a block's tile of "
        f"{REGISTER.bm} × {REGISTER.bn} × {REGISTER.bk} compute at full rate, if it has the SM to itself?",
        answer=cycles,
        unit="cycles",
        hint="Multiply-adds over lanes.",
        explanation=f"{REGISTER.bm}·{REGISTER.bn}·{REGISTER.bk} / {RTX_5080.fp32_lanes} = {figure(cycles)} cycles. A "
        "load from global memory takes some 500 (a measured figure from the literature): it fits.",
    )
    two, one = (traffic.barriers(SIZE, REGISTER.bk, per_step) for per_step in (2, 1))
    yield Numeric(
        title="barriers",
        text="With one buffer a turn has two barriers, with alternating buffers one. How many does a block pass in "
        f"the second case, K = {SIZE}, BK = {REGISTER.bk}?",
        answer=one,
        unit="barriers",
        tolerance=0,
        hint="How many turns are there?",
        explanation=f"{SIZE} / {REGISTER.bk} = {one}, instead of {two}.",
    )


def _async_copies() -> Iterator[Question]:
    saved = (REGISTER.bm + REGISTER.bn) * REGISTER.bk // REGISTER.threads
    yield Numeric(
        title="registers saved",
        text=f"A block of {REGISTER.threads} threads stages a tile of {REGISTER.bm} × {REGISTER.bn} × {REGISTER.bk} in "
        "registers. How many registers of a thread does cp.async save?",
        answer=saved,
        unit="registers",
        tolerance=0,
        hint="How many floats of A and B does a thread copy for one tile?",
        explanation=f"({REGISTER.bm} + {REGISTER.bn})·{REGISTER.bk} / {REGISTER.threads} = {saved}, half of them for "
        "A.",
    )
    yield Open(
        title="what cp.async gains",
        text="A kernel copies tiles by load, register, store. Name three things that cp.async improves.",
        hint="What does a value pass through, which instructions copy it, and what can a thread do meanwhile?",
        explanation=f"The copy passes no register: {saved} of a thread are free. One instruction replaces a load and a "
        "store. The thread goes on at once, and several tiles can be under way, each waited for as a group of its own. "
        "It is no separate engine, though: the same units issue it.",
    )
    yield Choice(
        title="wait and barrier",
        text="After cp.async's wait, why does a turn need a barrier as well?",
        options=(
            "The wait covers a thread's own copies only, and the tile is everyone's",
            "The wait returns when half of the bytes have arrived",
            "The barrier starts the next copies",
            "It does not; the barrier is there for older devices",
        ),
        right=0,
        hint="Who copied the values that this thread reads?",
        explanation="Each thread waits for what it has copied; the barrier then makes all copies visible to all. The "
        "same barrier says that everyone has read the tile before, whose buffer is refilled next.",
    )


def _ring() -> Iterator[Question]:
    stages = RING.stages
    turn = ring.turn(7, stages)
    yield Numeric(
        title="shared memory of a ring",
        text=f"How many bytes of shared memory does a ring of {stages} stages for tiles of {RING.bm} × {RING.bn} × "
        f"{RING.bk} take?",
        answer=RING.shared_bytes,
        unit="bytes",
        tolerance=0,
        hint="A stage holds a tile of A and one of B.",
        explanation=f"S·(BM + BN)·BK·4 = {stages}·({RING.bm} + {RING.bn})·{RING.bk}·4 = {RING.shared_bytes} bytes.",
    )
    yield Numeric(
        title="which buffer to refill",
        text=f"A ring has {stages} buffers, 0 … {stages - 1}, and tile t lies in buffer t mod {stages}. Which one does "
        "turn 7 refill?",
        answer=turn.refill_buffer,
        unit="",
        tolerance=0,
        hint=f"Copies are {stages - 1} tiles ahead.",
        explanation=f"Tile {turn.refill_tile} goes to buffer {turn.refill_tile} mod {stages} = {turn.refill_buffer}: "
        "the one that turn 6 has computed, which the barrier has just released.",
    )
    yield Numeric(
        title="groups under way",
        text=f"How many groups of copies may be unfinished when the wait of a turn returns, with {stages} stages, so "
        "that its own tile is sure to have arrived?",
        answer=turn.pending,
        unit="",
        tolerance=0,
        hint=f"When turn t begins, groups 0 … t + {stages - 2} have been committed. Which may be late?",
        explanation=f"{turn.committed} groups have been committed as turn 7 begins. If at most {turn.pending} of them "
        "is late, it is the newest, and tile 7 is there. So a turn commits a group even if there is nothing left to "
        "copy.",
    )
