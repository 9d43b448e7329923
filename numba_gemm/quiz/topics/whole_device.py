"""The whole device: waves of blocks, idle multiprocessors, padded edges."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from numba_gemm.analysis.models import segments, waves
from numba_gemm.analysis.models.padding import padding
from numba_gemm.hardware.devices import A100
from numba_gemm.quiz.question import Numeric, Question, figure
from numba_gemm.quiz.topics.given import CUBE, REGISTER, SIZE

TOPIC = "the whole device"


def questions() -> Iterator[Question]:
    """Blocks of 128 × 128 on the 108 multiprocessors of an A100."""
    multiprocessors = A100.multiprocessors
    columns, rows = REGISTER.grid(*CUBE[:2])
    found = waves.waves(columns * rows, multiprocessors, 2)
    yield Numeric(
        title="waves",
        text=f"{SIZE}² outputs in blocks of {REGISTER.bm} × {REGISTER.bn}, two at a time on each of {multiprocessors} "
        "SMs. What share of the slots is in use on average, if all blocks take equally long?",
        answer=found.wave_efficiency * 100,
        unit="%",
        tolerance=0.01,
        hint="How many waves are that, and how many are begun?",
        explanation=f"{found.blocks} blocks in {found.slots} slots: {found.waves:.2f} waves, so "
        f"{ceil(found.waves)} with {found.last_wave} blocks in the last: {figure(found.wave_efficiency * 100)} %.",
    )
    tiles = REGISTER.grid(8, SIZE)[0]
    idle = waves.idle_multiprocessors(tiles, multiprocessors)
    yield Numeric(
        title="few rows, few blocks",
        text=f"M = 8, N = {SIZE}, the same blocks: how many of the {multiprocessors} SMs have nothing to do?",
        answer=idle,
        unit="SMs",
        tolerance=0,
        hint="How many blocks are there?",
        explanation=f"{tiles} blocks leave {idle} idle, whatever a block does.",
    )
    steps = segments.segments_of(SIZE, REGISTER.bk)
    shares = segments.segments_by_block(segments.stream_k(tiles, steps, multiprocessors))
    yield Numeric(
        title="stream-K",
        text=f"Stream-K deals the steps of those {tiles} tiles, K = {SIZE} and BK = {REGISTER.bk}, to "
        f"{multiprocessors} blocks, as evenly as it can. How many does the busiest get?",
        answer=max(shares.values()),
        unit="steps",
        tolerance=0,
        hint="Steps of a tile times tiles, over blocks, rounded up.",
        explanation=f"{tiles}·{steps} = {tiles * steps} steps over {multiprocessors} blocks: "
        f"{figure(tiles * steps / multiprocessors)}, so {max(shares.values())} at most and {min(shares.values())} at "
        "least.",
    )
    m, n, k = 300, 200, 20
    padded = padding(m, n, k, REGISTER)
    yield Numeric(
        title="padding",
        text=f"M, N, K = {m}, {n}, {k} are padded to whole tiles of {REGISTER.bm} × {REGISTER.bn} × {REGISTER.bk}. How "
        "many times the multiply-adds is that?",
        answer=padded.work,
        unit="times",
        hint="Round each size up to a multiple of its tile.",
        explanation=f"{padded.m} · {padded.n} · {padded.k} over {m} · {n} · {k} = {figure(padded.work)}.",
    )
