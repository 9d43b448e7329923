"""Hold the models `banks` and `sectors` against the hardware counters of a GPU.

`python benchmarks/counters.py [VERSION …] [--shape MxNxK]` on a machine with a GPU and Nsight Compute (`ncu`): rungs 1
to 7 at 4096x4096x4096 if nothing else is said. Three tables are printed: single accesses to shared memory of one warp,
which show the rule itself; stores of many warps, alone and beside loads of global memory; and whole products. Exit
status 1 if a prediction is off by more than a hundredth; 2 without `ncu`, or where the driver lets nobody but the
administrator read counters.

`--worker` is what `ncu` runs: one launch for each row, in order.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import cuda

from benchmarks import probes, profiler
from numba_gemm import ladder
from numba_gemm.analysis.code import banks
from numba_gemm.analysis.code.accesses import version_accesses
from numba_gemm.analysis.code.sectors import count_sectors
from numba_gemm.analysis.models.shared_memory import vector_words, wavefronts

#: Wavefronts at the data banks of shared memory.
SHARED_LOADS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
SHARED_STORES = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"
#: Those that stores ask for, which ncu counts by instrumenting the instructions. At the data banks there are more if
#: loads from global memory deliver at the same time: they go first, and a store that meets one takes another wavefront.
#: (Of loads, ncu's count follows another rule than the hardware's counter, so that is not used.)
STORES_ASKED = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st.sum"
LOAD_REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
LOAD_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
STORE_REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"
STORE_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"
METRICS = (SHARED_LOADS, STORES_ASKED, SHARED_STORES, LOAD_REQUESTS, LOAD_SECTORS, STORE_REQUESTS, STORE_SECTORS)

#: For information: not every GPU has them, and what they say of a cp.async that passes the L1 by is not documented.
COPY_REQUESTS = "smsp__inst_executed_op_ldgsts.sum"
COPY_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum"
COPY_SECTORS_L1 = "l1tex__t_sectors_pipe_lsu_mem_global_op_ldgsts_cache_access.sum"
COPY_SECTORS_L2 = "l1tex__t_sectors_pipe_lsu_mem_global_op_ldgsts_cache_bypass.sum"
MORE_METRICS = (COPY_REQUESTS, COPY_WAVEFRONTS, COPY_SECTORS_L1, COPY_SECTORS_L2)

#: How far a prediction may be off.
TOLERANCE = 0.01

# Rules -----------------------------------------------------------------------------------------------


def at_once(starts: Sequence[int | None], width: int, load: bool) -> int:
    """All lanes of a warp together, whatever the width."""
    del load
    return wavefronts(vector_words((start for start in starts if start is not None), width))


def never_together(starts: Sequence[int | None], width: int, load: bool) -> int:
    """128 bytes at once, for loads as for stores."""
    del load
    return banks.rule(starts, width, load=False)


def half_by_half(starts: Sequence[int | None], width: int, load: bool) -> int:
    """Pairs count in each half of a warp for itself."""
    if width < 4:
        return banks.rule(starts, width, load)
    nobody = [None] * (probes.LANES // 2)
    return sum(
        banks.rule([*half, *nobody], width, load) for half in (starts[: probes.LANES // 2], starts[probes.LANES // 2 :])
    )


def together_without_conflicts(starts: Sequence[int | None], width: int, load: bool) -> int:
    """Pairs count only where nothing is in conflict then."""
    together, least = banks.rule(starts, width, load), max(1, width // 2)
    return together if together == least else banks.rule(starts, width, load=False)


#: What to compare the model with: if it is wrong, one of these may be right.
OTHER_RULES: dict[str, banks.Rule] = {
    "at once": at_once,
    "never together": never_together,
    "half by half": half_by_half,
    "no conflicts": together_without_conflicts,
}

# Launches --------------------------------------------------------------------------------------------


def worker(names: Sequence[str], shape: tuple[int, int, int]) -> None:
    """A load and a store of every pattern, many stores without and beside loads, then every version once."""
    kernels = {width: probes.make_pattern_kernels(width) for width in (1, 2, 4)}
    out = cuda.to_device(np.zeros(probes.LANES, np.float32))
    for pattern in probes.patterns():
        units = np.zeros(2 * probes.LANES, np.uint32)
        units[: probes.LANES] = np.array(pattern.starts) // pattern.width
        for kernel in kernels[pattern.width]:
            kernel[1, probes.LANES](cuda.to_device(units), out)
    values = cuda.to_device(np.zeros(probes.CROWD_BLOCKS * probes.CROWD_TURNS * probes.CROWD_THREADS, np.float32))
    out = cuda.to_device(np.zeros(probes.CROWD_THREADS, np.float32))
    for loading in (False, True):
        probes.make_crowd_kernel(loading)[probes.CROWD_BLOCKS, probes.CROWD_THREADS](values, out)
    profiler.multiply_once(names, shape)


def measure(names: Sequence[str], shape: tuple[int, int, int]) -> list[dict[str, str]]:
    """The counters of `worker`'s launches."""
    available = profiler.available()
    more = [metric for metric in MORE_METRICS if metric.removesuffix(".sum") in available]
    arguments = ["-m", "benchmarks.counters", "--worker", "--shape", "x".join(map(str, shape)), *names]
    return profiler.profile((*METRICS, *more), arguments, 2 * len(list(probes.patterns())) + 2 + len(names))


# Comparison ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """One line of a table: what the model says, what was counted, and what other rules would say."""

    what: str
    predicted: int
    measured: int | None
    others: tuple[int, ...] = ()
    #: Whether the model answers for it.
    checked: bool = True

    @property
    def wrong(self) -> bool:
        if not self.checked:
            return False
        if self.measured is None:
            return True
        return not (1 - TOLERANCE) * self.predicted <= self.measured <= (1 + TOLERANCE) * self.predicted

    def __str__(self) -> str:
        measured = "–" if self.measured is None else f"{self.measured:,}"
        verdict = "WRONG" if self.wrong else "" if self.checked else "not checked"
        if not self.checked and self.measured and self.predicted:
            verdict = f"{self.measured / self.predicted - 1:+.1%}"
        others = "".join(f"{other:>16,}" for other in self.others)
        return f"{self.what:58}{self.predicted:>16,}{measured:>16} {verdict:12}{others}".rstrip()


HEADER = f"{'':58}{'model':>16}{'counter':>16} {'':12}{''.join(f'{name:>16}' for name in OTHER_RULES)}"


def pattern_lines(rows: Sequence[dict[str, str]]) -> list[Line]:
    """The lines for the launches of probes.patterns: a load and a store each."""
    lines = []
    for index, pattern in enumerate(probes.patterns()):
        for store, (kind, metric) in enumerate((("load", SHARED_LOADS), ("store", SHARED_STORES))):
            arguments = (pattern.starts, pattern.width, kind == "load")
            what = f"{4 * pattern.width:>2}-byte {kind:5}: {pattern.name}"
            others = tuple(other(*arguments) for other in OTHER_RULES.values())
            lines.append(Line(what, banks.rule(*arguments), profiler.counted(rows[2 * index + store], metric), others))
    return lines


def crowd_lines(rows: Sequence[dict[str, str]]) -> list[Line]:
    """The lines for many stores without, and then beside, loads of global memory."""
    stores = probes.CROWD_BLOCKS * probes.CROWD_TURNS * probes.CROWD_THREADS // probes.LANES
    alone, beside = rows
    at_banks = profiler.counted(beside, SHARED_STORES)
    return [
        Line("alone: wavefronts", stores, profiler.counted(alone, SHARED_STORES)),
        Line("beside global loads: wavefronts asked for", stores, profiler.counted(beside, STORES_ASKED)),
        Line("beside global loads: wavefronts at the data banks", stores, at_banks, (), False),
    ]


def version_lines(name: str, shape: tuple[int, int, int], arch: str | None, row: dict[str, str]) -> list[Line]:
    """The lines for one version's product."""
    accesses = version_accesses(name, arch=arch)
    model, others = banks.count_banks(accesses), [banks.count_banks(accesses, rule) for rule in OTHER_RULES.values()]
    reads = count_sectors(accesses)
    title = str(ladder.find(name))

    def shared(what: str, kind: Any, metric: str, checked: bool = True) -> Line:
        values = tuple(other.wavefronts(kind, *shape) for other in others)
        return Line(f"{title}: {what}", model.wavefronts(kind, *shape), profiler.counted(row, metric), values, checked)

    # The counters of loads count cp.async, too.
    load_requests = reads.requests("read", *shape) + reads.requests("copy", *shape)
    load_sectors = reads.sectors("read", *shape) + reads.sectors("copy", *shape)

    lines = [
        shared("wavefronts of shared loads", "read", SHARED_LOADS),
        shared("wavefronts of shared stores", "write", STORES_ASKED),
        shared("those of stores at the data banks", "write", SHARED_STORES, checked=False),
        Line(f"{title}: global load requests", load_requests, profiler.counted(row, LOAD_REQUESTS)),
        Line(f"{title}: global load sectors", load_sectors, profiler.counted(row, LOAD_SECTORS)),
        Line(f"{title}: global store requests", reads.requests("write", *shape), profiler.counted(row, STORE_REQUESTS)),
        Line(f"{title}: global store sectors", reads.sectors("write", *shape), profiler.counted(row, STORE_SECTORS)),
    ]
    copies, counted_copies = reads.requests("copy", *shape), profiler.counted(row, COPY_REQUESTS)
    if copies:
        copied = [profiler.counted(row, metric) for metric in (COPY_SECTORS_L1, COPY_SECTORS_L2)]
        sectors = None if None in copied else sum(filter(None, copied))
        lines += [
            Line(f"{title}: of those, cp.async requests", copies, counted_copies, (), counted_copies is not None),
            Line(f"{title}: of those, cp.async sectors", reads.sectors("copy", *shape), sectors, (), False),
            shared("wavefronts of cp.async in shared memory", "copy", COPY_WAVEFRONTS, checked=False),
        ]
    return lines


def compare(
    names: Sequence[str], shape: tuple[int, int, int], arch: str | None
) -> tuple[list[Line], list[Line], list[Line]]:
    """The lines of the patterns, the crowds and the versions; models and counters at the same time."""
    with ThreadPoolExecutor(1) as pool:
        measuring = pool.submit(measure, names, shape)
        for name in names:  # compiles, and keeps what it finds
            version_accesses(name, arch=arch)
        rows = measuring.result()
    single = 2 * len(list(probes.patterns()))
    crowds, versions = rows[single : single + 2], rows[single + 2 :]
    lines = [line for name, row in zip(names, versions, strict=True) for line in version_lines(name, shape, arch, row)]
    return pattern_lines(rows), crowd_lines(crowds), lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("version", nargs="*", help="names or numbers; rungs 1 to 7 if there are none")
    parser.add_argument("--shape", default="4096x4096x4096", help="MxNxK, whole tiles of each version")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    m, n, k = map(int, options.shape.split("x"))
    given = [ladder.find(int(name) if name.isdecimal() else name).name for name in options.version]
    names = given or [version.name for version in ladder.RUNGS if version.number and version.number <= 7]
    if options.worker:
        worker(names, (m, n, k))
        return 0
    try:
        arch = profiler.architecture()
        of_patterns, of_crowds, of_versions = compare(names, (m, n, k), arch)
    except profiler.NoCountersError as error:
        print(f"counters: {error}", file=sys.stderr)
        return 2
    widths = f"from machine code for {arch}" if arch else "the widest that the source allows: there is no nvdisasm"
    print(f"One warp, one access to shared memory\n{HEADER}", *of_patterns, "", sep="\n")
    print(f"Many warps that store to shared memory\n{HEADER}", *of_crowds, "", sep="\n")
    print(f"{m}×{n}×{k}, access widths {widths}\n{HEADER}", *of_versions, sep="\n")
    lines = (*of_patterns, *of_crowds, *of_versions)
    wrong = sum(line.wrong for line in lines)
    print(f"\n{wrong} of {sum(line.checked for line in lines)} predictions are off by more than {TOLERANCE:.0%}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
