"""Registers, and how many blocks they let a multiprocessor hold."""

from __future__ import annotations

from collections.abc import Iterator

from numba_gemm.analysis.models import occupancy
from numba_gemm.hardware.devices import H100, RTX_5080
from numba_gemm.quiz.question import Choice, Numeric, Question, figure
from numba_gemm.quiz.topics.given import REGISTER

TOPIC = "registers and occupancy"


def questions() -> Iterator[Question]:
    """What 8 × 8 outputs per thread cost."""
    tm, tn, threads = REGISTER.tm, REGISTER.tn, REGISTER.threads
    registers = occupancy.registers_by_fragments(tm, tn)
    yield Numeric(
        title="registers of a thread",
        text=f"How many registers do the accumulators and the two fragments of a thread with {tm} × {tn} outputs take, "
        "addresses not counted?",
        answer=registers,
        unit="registers",
        tolerance=0,
        hint="An accumulator for each output; a value of A for each row, of B for each column.",
        explanation=f"{tm}·{tn} + {tm} + {tn} = {registers}. A compiler needs more, for addresses, loop and copies: "
        "`numba-gemm inspect 4` says how many.",
    )
    blocks = occupancy.floor_blocks(threads, registers, REGISTER.shared_bytes, H100)
    yield Numeric(
        title="blocks on a multiprocessor",
        text=f"An SM has {H100.registers} registers, {H100.shared_bytes // 1024} KB of shared memory and room for "
        f"{H100.max_threads} threads. How many blocks of {threads} threads with {registers} registers each and "
        f"{REGISTER.shared_bytes // 1024} KB does it hold?",
        answer=blocks,
        unit="blocks",
        tolerance=0,
        hint="The smallest of three quotients, each rounded down.",
        explanation=f"Registers allow {figure(H100.registers / (registers * threads))}, so {blocks}; threads "
        f"{H100.max_threads // threads}, shared memory {H100.shared_bytes // REGISTER.shared_bytes}.",
    )
    for device in (H100, RTX_5080):
        found = occupancy.occupancy(threads, registers, REGISTER.shared_bytes, device)
        yield Numeric(
            title=f"occupancy on an {device.name}",
            text=f"What occupancy is that on an {device.name}, whose SM has {device.registers} registers, "
            f"{device.shared_bytes // 1024} KB of shared memory and room for {device.max_warps} warps?",
            answer=found.occupancy * 100,
            unit="%",
            hint="Warps of the resident blocks over those that fit.",
            explanation=f"{found.blocks_per_sm} blocks of {threads // 32} warps are {found.warps_per_sm} of "
            f"{device.max_warps}: {figure(found.occupancy * 100)} %, limited by {' and '.join(found.limiters)}.",
        )
    cap = occupancy.register_cap(threads, 2, H100)
    yield Numeric(
        title="room for two blocks",
        text=f"How many registers may a thread have so that two blocks of {threads} threads fit?",
        answer=cap,
        unit="registers",
        tolerance=0,
        hint=f"{H100.registers} registers for how many threads?",
        explanation=f"{H100.registers} / (2·{threads}) = {cap}: what launch bounds ask the compiler for.",
    )
    few = occupancy.occupancy(threads, cap, REGISTER.shared_bytes, H100)
    yield Choice(
        title="enough warps",
        text=f"Those {few.blocks_per_sm} blocks are {few.occupancy:.0%} of the warps that an SM of an {H100.name} can "
        f"hold. Why may a kernel with {tm} × {tn} outputs per thread still come near peak?",
        options=(
            "Each thread has many independent FFMA, so that few warps fill the pipelines",
            "Occupancy only matters to kernels that use tensor cores",
            "The L2 cache hides the latency of idle warps",
            "The scheduler gives idle warps' slots to other kernels",
        ),
        right=0,
        hint="Latency can be hidden by other warps, or by other instructions of the same warp.",
        explanation=f"The {tm * tn} multiply-adds of one k do not depend on each other. Occupancy counts warps, not "
        "the work that each of them has at hand.",
    )
    smaller, larger = (occupancy.registers_by_fragments(edge, edge) for edge in (4, 8))
    yield Choice(
        title="why not always 8 × 8",
        text="A kernel gives each thread a tile of outputs, and loads straight from global memory, without shared "
        "memory. Its author takes 4 × 4 rather than 8 × 8, though 8 × 8 has twice the intensity. What speaks for that?",
        options=(
            "8 × 8 takes more instructions for a multiply-add",
            "8 × 8 makes global loads misaligned",
            "8 × 8 needs far more registers, so fewer warps are there to hide the latency of the loads",
            "8 × 8 needs more blocks than a grid may have",
        ),
        right=2,
        hint="What hides the latency of a load from global memory, if nothing is loaded ahead?",
        explanation=f"At least {larger} registers against {smaller}, addresses not counted. Which of them is faster "
        "depends on the device: measure.",
    )
