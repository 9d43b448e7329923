"""Shared memory: how much of it a thread asks for, and which banks its words lie in."""

from __future__ import annotations

from collections.abc import Iterator

from numba_gemm.analysis.models import issue, shared_memory, traffic
from numba_gemm.analysis.models.shared_memory import BANKS
from numba_gemm.hardware.devices import A100, H200
from numba_gemm.quiz.question import Choice, Numeric, Question, figure
from numba_gemm.quiz.topics.given import REGISTER
from numba_gemm.tile import WARP

TOPIC = "shared memory"


def questions() -> Iterator[Question]:
    """From one output per thread to warp tiles, and the banks in between."""
    yield from _bounds()
    yield from _thread_tiles()
    yield from _banks()
    yield from _fragments()
    yield from _warps()


def _bounds() -> Iterator[Question]:
    # One word for all lanes and 32 different ones: a wavefront each.
    per_ffma = shared_memory.wavefronts([0]) + shared_memory.wavefronts(range(WARP))
    for device in (A100, H200):
        fraction = shared_memory.peak_fraction(per_ffma, device)
        yield Numeric(
            title=f"one output a thread on an {device.name}",
            text="One output per thread from tiles in shared memory reads a float of A and one of B for each FFMA: "
            f"{per_ffma} wavefronts per warp. An SM of an {device.name} delivers one wavefront per cycle and has "
            f"{device.fp32_lanes} FP32 lanes. What fraction of peak does that allow?",
            answer=fraction * 100,
            unit="%",
            hint="How many FFMA of whole warps does the SM start per cycle at full rate, and how many wavefronts would "
            "those want?",
            explanation=f"At full rate {figure(device.warp_ffma_per_cycle)} FFMA of a warp per cycle would want "
            f"{figure(per_ffma * device.warp_ffma_per_cycle)} wavefronts, and there is one: {figure(fraction * 100)} "
            "%. A broadcast takes a wavefront, too. A compiler that merges the reads along k gets better than that.",
        )


def _thread_tiles() -> Iterator[Question]:
    tm, tn = REGISTER.tm, REGISTER.tn
    intensity, single = traffic.tile_intensity(tm, tn), traffic.tile_intensity(1, 1)
    yield Numeric(
        title="multiply-adds of a thread",
        text=f"A thread has {tm} × {tn} outputs. For each k it reads {tm} floats of A and {tn} of B; how many "
        "multiply-adds does it do with them?",
        answer=tm * tn,
        unit="",
        tolerance=0,
        hint="An outer product: every one with every one.",
        explanation=f"{tm}·{tn} = {tm * tn}, for {tm + tn} floats. Grouped by fours for 16-byte reads, it is "
        f"{tm * tn // 4} times four.",
    )
    yield Numeric(
        title="intensity at shared memory",
        text=f"What is the intensity of those {tm} × {tn} outputs at shared memory?",
        answer=intensity,
        unit="FLOP/B",
        hint="The formula of the block tile, one level down.",
        explanation=f"2·{tm}·{tn} FLOP for {tm + tn} floats: TM·TN / (2·(TM + TN)) = {figure(intensity)} FLOP/B, where "
        f"one output per thread has {figure(single)}.",
    )
    yield Numeric(
        title="reads saved",
        text=f"How many times fewer bytes do threads with {tm} × {tn} outputs read from shared memory than with one?",
        answer=traffic.read_saving(tm, tn),
        unit="times",
        hint="Compare the floats for a multiply-add.",
        explanation=f"Two floats per multiply-add before, {tm + tn} for {tm * tn} now: "
        f"{figure(traffic.read_saving(tm, tn))} times fewer. Counting instructions, 16-byte reads make it four times "
        "more.",
    )
    share = issue.ffma_share(tm * tn, (tm + tn) // 4)
    yield Numeric(
        title="share of FFMA",
        text=f"With {tm} × {tn} outputs and 16-byte reads of both fragments: what share of the instructions of a step "
        "are FFMA, if there is nothing but these and the reads?",
        answer=share * 100,
        unit="%",
        hint=f"{tm + tn} floats are how many reads of four?",
        explanation=f"{tm * tn} FFMA and {(tm + tn) // 4} reads: {figure(share * 100)} %. With one output per thread "
        f"it is {figure(issue.ffma_share(1, 2) * 100)} %.",
    )


def _banks() -> Iterator[Question]:
    yield Choice(
        title="a bank conflict",
        text="When does an access of a warp to shared memory have a bank conflict?",
        options=(
            "Two threads want the same word",
            "Two threads want different words of the same bank",
            "Threads want words that are not neighbours",
            "Two warps want the same bank in the same cycle",
        ),
        right=1,
        hint=f"Each of the {BANKS} banks delivers one word of 4 bytes per cycle, to everyone who wants it.",
        explanation="Different words of one bank take a cycle each. The same word is a broadcast, and order does not "
        "matter. Against conflicts help padding, another layout (transposing) and swizzling.",
    )
    column = shared_memory.wavefronts(BANKS * lane for lane in range(WARP))
    padded_column = shared_memory.wavefronts((BANKS + 1) * lane for lane in range(WARP))
    yield Numeric(
        title="down a column",
        text=f"A warp reads a column of a tile of {WARP} rows with {BANKS} floats each, a row a thread. How many "
        "wavefronts does that take?",
        answer=column,
        unit="",
        tolerance=0,
        hint="Which bank is float i in?",
        explanation=f"All are in one bank: {column}. With a float more per row, {BANKS + 1}, it would be "
        f"{padded_column}.",
    )
    rows = REGISTER.tm
    for stride, name in ((REGISTER.bk, "two rows of threads"), (REGISTER.bk + 1, "a padded row")):
        apart = rows * stride
        count = shared_memory.wavefronts([0, apart])
        yield Numeric(
            title=name,
            text=f"A lies in shared memory as As[m, k] with {stride} floats per row. Some threads of a "
            f"warp read As[m, k], the others As[m + {rows}, k], a float each. How many wavefronts does that take?",
            answer=count,
            unit="",
            tolerance=0,
            hint=f"How many floats are {rows} rows, and what is that modulo {BANKS}?",
            explanation=f"{rows} rows are {apart} floats, {apart % BANKS} modulo {BANKS}: {count}. "
            + (
                "A padded row avoids the conflict, and gives up 16-byte reads, which want rows of a multiple of four "
                "floats."
                if stride % 4
                else "Half the threads wait for the other half."
            ),
        )
    yield Choice(
        title="what to swizzle",
        text="XOR swizzling stores element x at place x xor (x >> 3). Why is x the number of a 16-byte chunk here, and "
        "not of a float?",
        options=(
            "On floats it would not be one to one",
            "On floats it would move words to other banks than they need",
            "On floats it would take more instructions",
            "On floats it would tear the four floats of a 16-byte access apart",
        ),
        right=3,
        hint="What does a 16-byte access need to find at its address?",
        explanation="The map is one to one on floats as well, but four neighbours would no longer be neighbours. On "
        f"chunks of four they stay together: floats 128 … 131 go to {_swizzled(128)}.",
    )


def _swizzled(first: int) -> str:
    places = [shared_memory.swizzled_word(first + offset) for offset in range(4)]
    return f"{places[0]} … {places[-1]}"


def _fragments() -> Iterator[Question]:
    threads_n = REGISTER.bn // REGISTER.tn
    for step, where in ((8, "eight neighbouring columns, from 8·t on"), (4, "columns 4·t … 4·t + 3 of either half")):
        # Each thread's first 16 bytes; the other rows of threads in the warp read the same.
        starts = [lane % threads_n * step for lane in range(WARP)]
        count = shared_memory.request_wavefronts(starts, 4, load=True)
        at_once = shared_memory.wavefronts(shared_memory.vector_words(starts))
        yield Numeric(
            title=f"16 bytes a thread, {4 * step} bytes apart",
            text=f"A row of Bs, {REGISTER.bn} floats, is read by {threads_n} threads t = 0 … {threads_n - 1}, the "
            f"other {WARP - threads_n} lanes of the warp reading the same. Thread t owns {where}. How many wavefronts "
            "does the first 16-byte read of the warp take? The hardware serves one quarter of the lanes after the "
            "other.",
            answer=count,
            unit="",
            tolerance=0,
            hint=f"The eight lanes of a quarter begin {step} floats apart. Which banks do their 32 floats lie in?",
            explanation=f"{count // 4} for each quarter, {count} together. Textbooks count the words of all lanes at "
            f"once, and get {at_once}.",
        )


def _warps() -> Iterator[Question]:
    tm, tn = REGISTER.tm, REGISTER.tn
    for rows, columns in ((4, 8), (1, 32)):
        count = shared_memory.fragment_floats(rows, columns, tm, tn)
        reuse = WARP * tm * tn / count
        yield Numeric(
            title=f"a warp of {rows} × {columns}",
            text=f"The lanes of a warp lie as {rows} × {columns} over its outputs, {tm} × {tn} each. How many "
            "different floats does the warp read for one k?",
            answer=count,
            unit="",
            tolerance=0,
            hint=f"The warp computes {rows * tm} × {columns * tn} outputs.",
            explanation=f"{rows * tm} of A and {columns * tn} of B, {count}: {figure(reuse)} multiply-adds a float. "
            "The squarer the warp, the more each operand is used again.",
        )
