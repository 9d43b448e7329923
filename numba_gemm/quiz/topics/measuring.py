"""Measuring: what bounds each rung, which stall says so, and what only a GPU can tell."""

from __future__ import annotations

from collections.abc import Iterator

from numba_gemm.analysis.models import shared_memory, traffic
from numba_gemm.hardware.devices import A100
from numba_gemm.quiz.question import Choice, Numeric, Open, Question, figure
from numba_gemm.quiz.topics.given import REGISTER

TOPIC = "measuring"


def questions() -> Iterator[Question]:
    """The chain of bottlenecks, the profiler's words for them, and three experiments."""
    yield from _bottlenecks()
    yield from _stalls()
    yield from _experiments()


def _bottlenecks() -> Iterator[Question]:
    shared = shared_memory.peak_fraction(2, A100)
    yield Open(
        title="the chain of bottlenecks",
        text="Walk up the ladder: what bounds one thread per output, tiles in shared memory, tiles in registers, and a "
        "pipeline of copies, and what does each step do about the bound before it?",
        hint="Each step serves one level of the memory better and makes the next one the bound.",
        explanation="One thread per output has two loads per multiply-add: it saturates the load units and caches (by "
        f"its logical traffic, {figure(1 / traffic.tile_intensity(1, 1) * 2)} bytes per multiply-add, it would be "
        "device memory, but caches absorb most). Shared tiles serve a block from one load; two shared reads per "
        f"multiply-add then bound it, at {figure(shared * 100)} % of an A100's peak, and barriers. Register tiles make "
        "a read serve many; what is left is the latency of loading a tile while nobody computes. Copies ahead hide "
        "that, and the rate of FFMA is the bound.",
    )
    yield Open(
        title="the register tile",
        text=f"Write down the main loop of a block of {REGISTER.bm} × {REGISTER.bn} with {REGISTER.tm} × {REGISTER.tn} "
        "outputs per thread: what is copied by whom, where the barriers are, what a step of k reads and computes.",
        hint="Read rung 3 only afterwards: numba_gemm/kernels/v3_register.py.",
        explanation=f"{REGISTER.threads} threads copy {REGISTER.bm} × {REGISTER.bk} floats of A and {REGISTER.bk} × "
        f"{REGISTER.bn} of B, {(REGISTER.bm + REGISTER.bn) * REGISTER.bk // REGISTER.threads} each; barrier; for each "
        f"k a thread reads {REGISTER.tm} of A and {REGISTER.tn} of B into registers and does "
        f"{REGISTER.tm * REGISTER.tn} multiply-adds; barrier, next tile. After the last, each thread writes its "
        "outputs, four at a time.",
    )


def _stalls() -> Iterator[Question]:
    remedies = (
        "use fewer registers",
        "remove bank conflicts, and use wider shared accesses",
        "load earlier: prefetch tiles, or a deeper pipeline",
        "read the next fragment from shared memory while computing with this one",
    )
    spills = "Spilled registers are local memory, so look for spills first."
    conflicts = "Conflicts show as less than 128 in smsp__sass_average_data_bytes_per_wavefront_mem_shared."
    stalls = (
        ("Long Scoreboard", f"waits for data from global or local memory. {spills}", 2),
        ("MIO Throttle", f"waits because the queue that leads to shared memory is full. {conflicts}", 1),
        ("Short Scoreboard", "waits for data from shared memory.", 3),
    )
    for name, meaning, right in stalls:
        yield Choice(
            title=f"stall: {name}",
            text=f"A profile of a kernel shows {name} as its main stall. What is the first thing to try?",
            options=remedies,
            right=right,
            hint="What kind of data is such a warp waiting for, or for which queue?",
            explanation=f"A warp with that stall {meaning}",
        )


def _experiments() -> Iterator[Question]:
    gain = traffic.tile_intensity(4, 4) / traffic.tile_intensity(1, 1)
    yield Numeric(
        title="the most that 4 × 4 can gain",
        text="4 × 4 outputs per thread, straight from global memory: how many times the intensity of one output is "
        "that, and so the most it can gain by fewer loads?",
        answer=gain,
        unit="times",
        hint="The formula of a tile, for a tile of 4 × 4 and of 1 × 1.",
        explanation=f"{figure(traffic.tile_intensity(4, 4))} over {figure(traffic.tile_intensity(1, 1))} FLOP/B: "
        f"{figure(gain)}.",
    )
    yield Open(
        title="one output against 4 × 4",
        text="Measure one thread per output (rung 1) against 4 × 4 outputs per thread without shared memory (the "
        "detour `thread_tile`) at 4096³. How much is gained, and why is it not what the intensity says?",
        hint="`numba-gemm demo` times every version on your GPU; think of the sectors of a load, too.",
        explanation="The ratio is your GPU's to tell. Loads fall to a quarter, but lanes that are 16 bytes apart touch "
        "four times the sectors a load of B; and the caches had absorbed much of the traffic before.",
    )
    naive = traffic.naive_intensity(4096)
    yield Open(
        title="intensity, measured",
        text=f"By its loads, one thread per output has {figure(naive)} FLOP/B. Measure what it has at device memory "
        "with a profiler. Which counter, and what do you expect?",
        hint=f"Device memory counts sectors of {traffic.SECTOR_BYTES} bytes.",
        explanation=f"FLOP over dram__sectors_read.sum · {traffic.SECTOR_BYTES} bytes (and the writes). Expect far "
        f"more than {figure(naive)}: what the caches serve never reaches memory. That is why the kernel is not as slow "
        "as its logical traffic says, and why another bound explains it.",
    )
