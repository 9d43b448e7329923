"""Write notes/claims.md: what the source documents claim, how each claim is decided here, and what came out.

`python -m notes.make.claims [--check]` in a checkout. With `--check` nothing is written, and the exit status
is 1 if the page is stale. It compiles kernels (for sm_90, no GPU) and reads the stored benchmark results.

A claim is decided by machine code, by a model, by stored benchmark results or counters, or by tests of this project;
one whose benchmark rows or counters are not stored is shown as not measured. Verdicts come from the figures, by rules
that stand beside the claims, and in `claims_of_sweeps`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from notes.make.claims_of_sweeps import (
    a_quarter_of_the_warps,
    clearing_the_l2,
    few_rows,
    hidden_latencies,
    intensity_in_memory,
    partial_wave,
    split_k_at_few_rows,
)
from notes.make.evidence import SIZE, Evidence, stored_benchmarks, stored_counters
from notes.make.generated import write_or_check
from notes.make.verdict import HOLDS, OUTCOMES, PARTLY, UNKNOWN, Judge, Verdict, outcome
from numba_gemm import ladder
from numba_gemm.analysis.code import sass
from numba_gemm.analysis.code.banks import banks
from numba_gemm.analysis.code.inspection import Inspection, inspect
from numba_gemm.analysis.code.sectors import sectors
from numba_gemm.analysis.models import shared_memory
from numba_gemm.analysis.models.occupancy import occupancy
from numba_gemm.hardware.devices import RTX_5080
from numba_gemm.tile import Tile

PAGE = Path("notes/claims.md")


@cache
def code(version: str, tile: Tile | None = None) -> Inspection:
    """A version's machine code for sm_90."""
    return inspect(version, arch="sm_90", tile=tile)


@dataclass(frozen=True)
class Claim:
    """One line of the sources' testable claims."""

    number: int
    statement: str
    #: "machine code", "model", "benchmark", "tests", "counters".
    decided_by: str
    judge: Judge


# Rules -----------------------------------------------------------------------------------------------------


def by_tests(*places: str) -> Judge:
    """Decided by tests of this project, as file::function from `tests/`: a failure would stop a release."""

    def judge(_: Evidence) -> Verdict:
        return Verdict(HOLDS, "asserted by " + ", ".join(f"`{place}`" for place in places))

    return judge


def needs(*versions: str) -> Callable[[Callable[..., Verdict]], Judge]:
    """A judge that gets the evidence and the seconds of these versions, and is not asked before all are stored."""

    def of_seconds(judge: Callable[..., Verdict]) -> Judge:
        def asked(evidence: Evidence) -> Verdict:
            seconds = [evidence.seconds(version) for version in versions]
            missing = [version for version, found in zip(versions, seconds, strict=True) if found is None]
            if missing:
                return Verdict(UNKNOWN, "needs the benchmark of " + ", ".join(f"`{name}`" for name in missing))
            return judge(evidence, *seconds)

        return asked

    return of_seconds


def ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"


# Machine code ----------------------------------------------------------------------------------------------


def naive_loads(_: Evidence) -> Verdict:
    loads = code("naive").loop.per_ffma("LDG")
    return Verdict(outcome([loads == 2]), f"{loads:g} loads for an FFMA")


def thread_tile_loads(_: Evidence) -> Verdict:
    small, large = (16 * code("thread_tile_4").loop.per_ffma("LDG"), 64 * code("thread_tile").loop.per_ffma("LDG"))
    return Verdict(outcome([small == 8, large == 16]), f"{small:g} loads for 16 FFMA, {large:g} for 64")


def thread_tile_registers(_: Evidence) -> Verdict:
    found = code("thread_tile_4").registers, code("thread_tile").registers
    near = [abs(here / there - 1) < 0.1 for here, there in zip(found, (39, 114), strict=True)]
    return Verdict(
        outcome(near), f"{found[0]} and {found[1]}, by another compiler; a tenth more or less counts as the same"
    )


def registers_and_spills(_: Evidence) -> Verdict:
    names = ("register", "vectorized", "cp_async")
    wide = code("register", Tile(128, 256, 8, 8, 16))
    found = {name: (code(name).registers, code(name).spill_store_bytes) for name in names}
    fit = [registers <= 128 and not spilled for registers, spilled in found.values()]
    figures = ", ".join(f"`{name}` {registers}" for name, (registers, _) in found.items())
    return Verdict(
        outcome([*fit, wide.registers <= 255 and not wide.spill_store_bytes]),
        f"{figures}; {wide.registers} for a tile of {wide.tile}; spilled bytes: "
        f"{sum(spilled for _, spilled in found.values()) + wide.spill_store_bytes}",
    )


def fragment_loads(_: Evidence) -> Verdict:
    expected = {"shared": 2, "register": 4, "vectorized": 4, "cp_async": 10}
    found = {name: len(sass.select(code(name).loop.body, "LDS")) / code(name).tile.bk for name in expected}
    return Verdict(
        outcome(found[name] == count for name, count in expected.items()),
        ", ".join(f"`{name}` {count:g}" for name, count in found.items())
        + " a k: where k is the last index, the compiler reads four k at once",
    )


def ffma_shares(_: Evidence) -> Verdict:
    expected = {"naive": 0.25, "shared": 0.33, "register": 0.94, "vectorized": 0.94, "cp_async": 0.86}
    found = {name: code(name).loop.ffma_share for name in expected}
    return Verdict(
        outcome(abs(found[name] - share) < 0.05 for name, share in expected.items()),
        ", ".join(f"`{name}` {share:.0%}" for name, share in found.items())
        + "; the sources count fragments and FFMA alone, a loop has copies, addresses and barriers as well",
    )


def widths_of_rung_4(_: Evidence) -> Verdict:
    body = code("vectorized").loop.body
    widths = {name: sorted(each.access_bytes for each in sass.select(body, name)) for name in ("LDG", "STS")}
    expected = {"LDG": [16, 16], "STS": [4, 4, 4, 4, 16]}
    return Verdict(
        outcome(widths[name] == expected[name] for name in expected),
        "; ".join(f"{name}: {', '.join(map(str, found))} bytes" for name, found in widths.items())
        + "; stores of 16 bytes to C: `kernels/test_machine_code.py::test_vectorized_moves_sixteen_bytes`",
    )


def copies_of_rung_5(_: Evidence) -> Verdict:
    found = code("cp_async")
    bypassing = len(sass.select(found.loop.body, "LDGSTS.BYPASS.128"))
    through = len(sass.select(found.loop.body, "LDG")) + len(sass.select(found.loop.body, "STS"))
    depths = {each.operands[-1] for each in sass.select(found.loop.body, "DEPBAR.LE")}
    return Verdict(
        outcome([bypassing == 2, through == 0, depths == {f"{found.tile.stages - 2:#x}"}]),
        f"{bypassing} copies past L1, {through} loads and stores through registers, wait depth {', '.join(depths)} "
        f"with {found.tile.stages} stages",
    )


def barriers(_: Evidence) -> Verdict:
    found = {name: code(name).loop.barriers for name in ("shared", "register", "vectorized", "cp_async")}
    return Verdict(
        outcome([*(found[name] == 2 for name in ("shared", "register", "vectorized")), found["cp_async"] == 1]),
        ", ".join(f"`{name}` {count}" for name, count in found.items()),
    )


# Models ----------------------------------------------------------------------------------------------------


def sectors_of_loads(_: Evidence) -> Verdict:
    expected = {"naive": (1, 4), "naive_16": (2, 2), "naive_rows": (32, 1), "thread_tile_4": (2, 8)}
    found = {}
    for name in expected:
        by_array = {each.array: each.sectors_per_request for each in sectors(name, arch=None).accesses}
        found[name] = (by_array["A"], by_array["B"])
    return Verdict(
        outcome(found[name] == pair for name, pair in expected.items()),
        ", ".join(f"`{name}` {a:g} + {b:g}" for name, (a, b) in found.items()),
    )


def conflicts(_: Evidence) -> Verdict:
    def wavefronts(version: str, array: str, kind: str) -> int:
        own = [each for each in banks(version, arch=None).accesses if (each.array, each.kind) == (array, kind)]
        return sum(each.wavefronts_per_tile for each in own)

    pairs = {
        "reads of As[m][k], unpadded → padded": ("register", "padded_rows", "As", "read"),
        "stores of As, unpadded → padded": ("vectorized", "padded_columns", "As", "write"),
        "reads of Bs, columns together → split": ("vectorized", "split_columns", "Bs", "read"),
        "reads of Bs, plain → swizzled": ("vectorized", "swizzled", "Bs", "read"),
    }
    found = {
        what: (wavefronts(before, array, kind), wavefronts(after, array, kind))
        for what, (before, after, array, kind) in pairs.items()
    }
    return Verdict(
        outcome(after == before / 2 for before, after in found.values()),
        "wavefronts of a tile: "
        + "; ".join(f"{what}: {before} → {after}" for what, (before, after) in found.items())
        + ". The first conflict is one of 4-byte reads; the compiler reads 16",
    )


def shared_bound_of_rung_2(evidence: Evidence, seconds: float) -> Verdict:
    device = evidence.device
    bound = shared_memory.peak_fraction(banks("shared", arch=None).load_wavefronts_per_ffma, device)
    reached = 2 * SIZE**3 / seconds / device.fp32_peak
    return Verdict(
        outcome([reached <= bound]), f"{reached:.1%} of peak reached, {bound:.1%} is the bound on {device.name}"
    )


# Benchmarks ------------------------------------------------------------------------------------------------


def ratio(faster: str, slower: str, least: float = 1, most: float | None = None) -> Judge:
    """Whether one version is at least, and at most, so many times as fast as another."""

    def judge(_: Evidence, fast: float, slow: float) -> Verdict:
        times = slow / fast
        wanted = f"at least {least:g}" if most is None else f"{least:g} to {most:g}"
        figures = f"`{faster}` {ms(fast)}, `{slower}` {ms(slow)}: {times:.2f} times as fast, wanted {wanted}"
        return Verdict(outcome([least <= times and (most is None or times <= most)]), figures)

    return needs(faster, slower)(judge)


def every(*judges: Judge) -> Judge:
    """Several parts of a claim: as it stands where all are known."""

    def judge(evidence: Evidence) -> Verdict:
        parts = [each(evidence) for each in judges]
        unknown = [part.why for part in parts if part.outcome == UNKNOWN]
        if unknown:
            return Verdict(UNKNOWN, "; ".join(dict.fromkeys(unknown)))
        outcomes = {part.outcome for part in parts}
        return Verdict(outcomes.pop() if len(outcomes) == 1 else PARTLY, "; ".join(part.why for part in parts))

    return judge


def ladder_in_order(evidence: Evidence, *seconds: float) -> Verdict:
    names = [rung.name for rung in ladder.RUNGS[:5]]
    cublas = evidence.cublas_seconds()
    assert cublas is not None  # the versions are stored with it
    steps = [later < earlier for earlier, later in pairwise(seconds)]
    rates = ", ".join(
        f"`{name}` {2 * SIZE**3 / found / evidence.device.fp32_peak:.0%}"
        for name, found in zip((*names, "cuBLAS"), (*seconds, cublas), strict=True)
    )
    return Verdict(outcome([*steps, cublas <= seconds[-1]]), f"{rates} of FP32 peak")


def pipeline_sweep(evidence: Evidence) -> Verdict:
    found = evidence.pipeline()
    if not found:
        return Verdict(UNKNOWN, "needs the benchmarks of the group `pipeline`")
    reference = found[8, 3]
    return Verdict(
        outcome([found[16, 3] < reference, abs(found[8, 2] / reference - 1) < 0.05]),
        "; ".join(f"BK {bk}, S {s}: {reference / seconds:.2f}" for (bk, s), seconds in sorted(found.items()))
        + " times as fast as BK 8, S 3",
    )


def against_baseline(group: str, candidate: str, holds: Callable[[float], bool]) -> Judge:
    """Whether a condition holds for how many times as fast as its baseline a candidate is, at each of its shapes."""

    def judge(evidence: Evidence) -> Verdict:
        found = evidence.against_baseline(group, candidate)
        if not found:
            return Verdict(UNKNOWN, f"needs the benchmark “{candidate}” of the group `{group}`")
        return Verdict(
            outcome(map(holds, found.values())),
            ", ".join(f"{times:.2f} times as fast at {shape}" for shape, times in found.items()),
        )

    return judge


def occupancy_of_ex6(_: Evidence) -> Verdict:
    shares = []
    for name in ("ex5", "ex6"):
        tile = ladder.find(name).default_tile
        shares.append(occupancy(tile.threads, 32, tile.shared_bytes, RTX_5080).occupancy)
    return Verdict(
        outcome([shares[1] == shares[0] / 2]),
        f"occupancy by shared memory alone on {RTX_5080.name}: {shares[0]:.0%} and {shares[1]:.0%}",
    )


# The claims ------------------------------------------------------------------------------------------------

CLAIMS: tuple[Claim, ...] = (
    Claim(1, "The naive kernel loads twice for each FFMA", "machine code", naive_loads),
    Claim(2, "A thread tile of 4×4 loads 8 times for 16 FFMA, one of 8×8 16 for 64", "machine code", thread_tile_loads),
    Claim(3, "These take 39 and 114 registers, with bounds checked", "machine code", thread_tile_registers),
    Claim(4, "Rungs 3 to 5 fit 128 registers without spills, wide tiles 255", "machine code", registers_and_spills),
    Claim(
        5, "Reads of shared memory a k: rung 2 two, rungs 3 and 4 four, rung 5 8 + 2", "machine code", fragment_loads
    ),
    Claim(
        6, "FFMA are ¼ of the instructions in rung 1, ⅓ in 2, 94 % in 3 and 4, 86 % in 5", "machine code", ffma_shares
    ),
    Claim(7, "Rung 4 loads 16 bytes at a time, stores A by 4 and B and C by 16", "machine code", widths_of_rung_4),
    Claim(
        8,
        "Rung 5 copies past the registers and the L1, and waits for all but S − 2 groups",
        "machine code",
        copies_of_rung_5,
    ),
    Claim(9, "Rung 5 has one barrier a tile, those before it two", "machine code", barriers),
    Claim(
        10,
        "Sectors of a load of A + B: 1 + 4 in blocks 8×32, 2 + 2 in 16×16, 32 + 1 along rows, 2 + 8 at 4×4",
        "model",
        sectors_of_loads,
    ),
    Claim(
        11,
        "Padding A, padding its stores, splitting and swizzling the columns of B halve conflicts",
        "model",
        conflicts,
    ),
    Claim(
        12,
        "A naive kernel with warps along rows is 6.4 times slower",
        "benchmark",
        ratio("naive_16", "naive_rows", 3.2, 12.8),
    ),
    Claim(
        13,
        "A thread tile of 4×4 is 1 to 4 times as fast as naive, and one of 8×8 faster than that",
        "benchmark",
        every(ratio("thread_tile_4", "naive_16", 1, 4), ratio("thread_tile", "thread_tile_4")),
    ),
    Claim(
        14,
        "Prefetching hides the latency of memory completely, fragments in pairs that of shared memory",
        "counters",
        hidden_latencies,
    ),
    Claim(
        15,
        "Shared tiles with BK = 16 are slower than naive, with 32 faster",
        "benchmark",
        every(ratio("ex3", "ex4_bk16"), ratio("ex4_bk32", "ex3")),
    ),
    Claim(
        16,
        "ex6 is slower than ex5, and its occupancy is half",
        "benchmark and model",
        every(occupancy_of_ex6, ratio("ex5", "ex6")),
    ),
    Claim(17, "ex7 is faster than ex6", "benchmark", ratio("ex7", "ex6")),
    Claim(
        18,
        "ex8 is faster than ex7; ex9 is 1.064 times as fast as ex8, and 10.6 times as ex3",
        "benchmark",
        every(ratio("ex8", "ex7"), ratio("ex9", "ex8", 1.03, 1.13), ratio("ex9", "ex3", 5.3, 21.2)),
    ),
    Claim(
        19,
        "Each of the rungs 1 to 5 is faster than the one before, and cuBLAS than all",
        "benchmark",
        needs(*(rung.name for rung in ladder.RUNGS[:5]))(ladder_in_order),
    ),
    Claim(
        20,
        "Rung 2 gains several times over rung 1, though its reads fall 32-fold",
        "benchmark",
        ratio("shared", "naive", 2, 16),
    ),
    Claim(
        21,
        "Rung 2 stays below the bound that shared memory sets",
        "benchmark and model",
        needs("shared")(shared_bound_of_rung_2),
    ),
    Claim(
        22,
        "A quarter of the warps an SM can hold is enough, since a thread has independent FFMA",
        "benchmark",
        a_quarter_of_the_warps,
    ),
    Claim(23, "BK = 16 is faster than 8; the depth of the ring matters little", "benchmark", pipeline_sweep),
    Claim(24, "The last, partial wave of blocks costs 5 %", "benchmark", partial_wave),
    Claim(
        25,
        "Padding with zeros is exact, and nothing is read or written outside",
        "tests",
        by_tests(
            "calls/test_sgemm.py::test_integers_that_tf32_cannot_hold_are_exact",
            "calls/test_sgemm_memory.py::test_all_operands_in_a_layout",
        ),
    ),
    Claim(
        26,
        "The kernel that checks edges is as fast as the one that does not, within 5 %, on whole tiles",
        "benchmark",
        against_baseline("edges", "whole-tile kernel", lambda times: abs(times - 1) < 0.05),
    ),
    Claim(
        27,
        "Split-K is faster than plain at M = 8; with atomics results vary, with a workspace not",
        "benchmark and tests",
        every(
            split_k_at_few_rows,
            by_tests(
                "kernels/test_stream_k.py::test_atomic_additions_change_from_run_to_run",
                "kernels/test_split_k.py::test_parts_are_added_in_one_order",
            ),
        ),
    ),
    Claim(
        28,
        "Stream-K deals every segment out once, in equal shares",
        "tests",
        by_tests("analysis/test_segments.py::test_stream_k", "analysis/test_segments.py::test_stream_k_covers_once"),
    ),
    Claim(
        29,
        "A product of one row runs at memory bandwidth, and takes the same time up to the ridge",
        "benchmark",
        few_rows,
    ),
    Claim(
        30,
        "A reference in TF32 fails the tolerance",
        "tests",
        by_tests("test_accuracy.py::test_the_bounds_find", "test_accuracy.py::test_the_exact_check_finds"),
    ),
    Claim(
        31,
        "Clearing the L2 between runs matters at 1024³ and not at 4096³",
        "benchmark",
        clearing_the_l2,
    ),
    Claim(
        32,
        "The caches raise the intensity that naive has in memory far above 0.25",
        "counters",
        intensity_in_memory,
    ),
    Claim(
        33,
        "Of a LLaMA's work, nearly all are matrix products",
        "tests",
        by_tests("quiz/test_llm.py::test_shares", "quiz/test_llm.py::test_elementwise_is_little"),
    ),
    Claim(
        34,
        "Storing C through shared memory gains",
        "benchmark",
        against_baseline("edges", "store through shared memory", lambda times: times > 1),
    ),
    Claim(
        35,
        "All four layouts and a fused epilogue are right",
        "tests",
        by_tests("calls/test_layouts.py::test_flags_and_orders", "calls/test_epilogue.py::test_all_together"),
    ),
)


# The page --------------------------------------------------------------------------------------------------

INTRODUCTION = """# Claims

Generated by `python -m notes.make.claims`; do not edit.

What the source documents claim and can be tested, in order, with what decides it and what came out. Machine code is for
sm_90 and the pinned toolkit, models need no measurement, benchmarks are those that are stored. A rate or ratio that the
sources state for another GPU is held against what the GPU here does, so that a claim may fail here and be
right there. A ratio of times counts as the same within a factor of two, a gain of a few per cent if it is half to
twice as large. What a sweep or a counter has to show is said in
[claims_of_sweeps.py](../notes/make/claims_of_sweeps.py).
"""


def page(stored: dict[str, Any], counters: dict[str, Any] | None = None) -> str:
    """The text of the page."""
    evidence = Evidence(stored, counters)
    verdicts = [(claim, claim.judge(evidence)) for claim in CLAIMS]
    counts = {outcome: sum(verdict.outcome == outcome for _, verdict in verdicts) for outcome in OUTCOMES}
    lines = [
        INTRODUCTION,
        f"Measured: {evidence.gpu}, {evidence.date}, medians at {SIZE}³ with a cold L2"
        + (f"; counted: {evidence.counters_date}" if evidence.counters_date else "")
        + f". All {len(CLAIMS)} claims: "
        + ", ".join(f"{outcome} {count}" for outcome, count in counts.items() if count)
        + ".",
        "",
        "| | claim | decided by | outcome | figures |",
        "| ---: | --- | --- | --- | --- |",
        *[
            f"| {claim.number} | {claim.statement} | {claim.decided_by} | {verdict.outcome} | {verdict.why} |"
            for claim, verdict in verdicts
        ],
    ]
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Write the page, or say whether it is stale."""
    text = page(stored_benchmarks(), stored_counters())
    complaint = f"{PAGE} is stale: run python -m notes.make.claims"
    return write_or_check(PAGE, text, arguments, complaint)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
