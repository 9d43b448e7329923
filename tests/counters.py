"""Hold the models `banks` and `sectors` against the hardware counters of a GPU.

`python tests/counters.py [VERSION …] [--shape MxNxK]` on a machine with a GPU and Nsight Compute (`ncu`): rungs 1 to 7
at 4096x4096x4096 if nothing else is said. Three tables are printed: single accesses to shared memory of one warp, which
show the rule itself; stores of many warps, alone and beside loads of global memory; and whole products. Exit status 1
if a prediction is off by more than a hundredth; 2 without `ncu`, or where the driver lets nobody but the administrator
read counters.

`--worker` is what `ncu` runs: one launch for each row, in order.
"""

from __future__ import annotations

import argparse
import csv
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from cuda.pathfinder import find_nvidia_binary_utility
from numba import cuda, float32, uint32

from numba_gemm import driver, ladder
from numba_gemm.analysis import banks
from numba_gemm.analysis.accesses import version_accesses
from numba_gemm.analysis.machine_code import ARCHITECTURES
from numba_gemm.analysis.sectors import count_sectors
from numba_gemm.analysis.shared_memory import vector_words, wavefronts
from numba_gemm.operands import as_operand

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


class NoCountersError(RuntimeError):
    """There are no counters here, or nobody may read them."""


LANES = 32

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
    nobody = [None] * (LANES // 2)
    return sum(banks.rule([*half, *nobody], width, load) for half in (starts[: LANES // 2], starts[LANES // 2 :]))


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

# Single accesses -------------------------------------------------------------------------------------

SHARED_FLOATS = 8192


@dataclass(frozen=True)
class Pattern:
    """An access of one warp: lane t accesses `width` floats from float `start(t)` on."""

    name: str
    width: int
    start: Callable[[int], int]

    @property
    def starts(self) -> list[int]:
        return [self.start(t) for t in range(LANES)]


def patterns() -> Iterator[Pattern]:
    """For each width: broadcasts and shares of all kinds, with and without conflicts, and what the rungs do."""
    for w in (1, 2, 4):

        def element(index: Callable[[int], int], w: int = w) -> Callable[[int], int]:
            return lambda t: w * index(t)

        yield Pattern("one after the other", w, element(lambda t: t))
        yield Pattern("all the same", w, element(lambda _: 0))
        yield Pattern("alike but for bit 0", w, element(lambda t: t >> 1))
        yield Pattern("alike but for bit 1", w, element(lambda t: t & 1 | (t >> 2) << 1))
        yield Pattern("alike but for bit 2", w, element(lambda t: t & 3 | (t >> 3) << 2))
        yield Pattern("alike but for bit 3", w, element(lambda t: t & 7 | (t >> 4) << 3))
        yield Pattern("halves alike", w, element(lambda t: t & 15))
        yield Pattern("every second", w, element(lambda t: 2 * t))
        yield Pattern("all in one bank", w, lambda t: 32 * t)
        yield Pattern("bit 0 alike, all in one bank", w, lambda t: 32 * (t >> 1))
        yield Pattern("bit 0 alike in the first half only", w, element(lambda t: t >> 1 if t < 16 else t))
        yield Pattern("halves of one address, one bank", w, lambda t: 64 * (t >> 4))
        yield Pattern("quarters of one address, one bank", w, lambda t: 64 * (t >> 3))
        yield Pattern("bit 0 alike, halves in the same banks", w, lambda t, w=w: 64 * (t >> 4) + w * (t % 16 >> 1))
        yield Pattern("bit 0 alike, four in one bank, then one", w, lambda t: 32 * (t >> 1) if t < 8 else 16)
    yield Pattern("A of rung 4: two groups of 8 rows", 4, lambda t: 8 * (t >> 4))
    yield Pattern("A of rungs 3 and 5: two rows, 64 apart", 4, lambda t: 64 * (t >> 4))
    yield Pattern("B of rungs 3 to 6: tn · 8", 4, lambda t: 8 * (t & 15))
    yield Pattern("B split: tn · 4", 4, lambda t: 4 * (t & 15))
    yield Pattern("A of rung 7", 4, lambda t: 4 * (t >> 1 & 3))
    yield Pattern("B of rung 7", 4, lambda t: 4 * (t & 1 | (t >> 3) << 1))


def make_pattern_kernels(width: int) -> tuple[Any, Any]:
    """Kernels of one warp that read or write `width` floats a lane at a place given in units of `width`."""
    LANES_U, WIDTH, FLOATS = np.uint32(LANES), np.uint32(width), SHARED_FLOATS

    @cuda.jit
    def pattern_load(units, out):
        memory = cuda.shared.array(FLOATS, float32, 16)
        lane = uint32(cuda.threadIdx.x)
        for i in range(lane, FLOATS, LANES_U):
            memory[i] = float32(i)
        cuda.syncthreads()
        start = units[lane] * WIDTH
        total = float32(0)
        for q in range(WIDTH):
            total += memory[start + q]
        out[lane] = total

    @cuda.jit
    def pattern_store(units, out):
        memory = cuda.shared.array(FLOATS, float32, 16)
        lane = uint32(cuda.threadIdx.x)
        start = units[lane] * WIDTH
        x = out[lane]
        for q in range(WIDTH):
            memory[start + q] = x + float32(q)
        cuda.syncthreads()
        out[lane] = memory[units[lane + LANES_U]]

    return pattern_load, pattern_store


# Stores beside loads of global memory -----------------------------------------------------------------

CROWD_BLOCKS, CROWD_THREADS, CROWD_TURNS = 264, 256, 256


def make_crowd_kernel(loading: bool) -> Any:
    """A kernel of many warps that do nothing but store to shared memory; with `loading`, what they have just loaded."""
    LOADING, FLOATS = loading, 4 * CROWD_THREADS
    THREADS, TURNS, ROWS = np.uint32(CROWD_THREADS), np.uint32(CROWD_TURNS), np.uint32(4)

    @cuda.jit
    def crowd_store(values, out):
        memory = cuda.shared.array(FLOATS, float32, 16)
        thread, block = uint32(cuda.threadIdx.x), uint32(cuda.blockIdx.x)
        x = float32(thread)
        for turn in range(TURNS):
            if LOADING:
                x = values[(block * TURNS + turn) * THREADS + thread]
            memory[turn % ROWS * THREADS + thread] = x
            x += float32(1)
        cuda.syncthreads()
        out[thread] = memory[thread ^ uint32(64)] + memory[thread + THREADS]

    return crowd_store


# Launches --------------------------------------------------------------------------------------------


def worker(names: Sequence[str], shape: tuple[int, int, int]) -> None:
    """A load and a store of every pattern, many stores without and beside loads, then every version once."""
    kernels = {width: make_pattern_kernels(width) for width in (1, 2, 4)}
    out = cuda.to_device(np.zeros(LANES, np.float32))
    for pattern in patterns():
        units = np.zeros(2 * LANES, np.uint32)
        units[:LANES] = np.array(pattern.starts) // pattern.width
        for kernel in kernels[pattern.width]:
            kernel[1, LANES](cuda.to_device(units), out)
    values = cuda.to_device(np.zeros(CROWD_BLOCKS * CROWD_TURNS * CROWD_THREADS, np.float32))
    out = cuda.to_device(np.zeros(CROWD_THREADS, np.float32))
    for loading in (False, True):
        make_crowd_kernel(loading)[CROWD_BLOCKS, CROWD_THREADS](values, out)
    multiply_once(names, shape)


def multiply_once(names: Sequence[str], shape: tuple[int, int, int]) -> None:
    """Every version once, with its default tile, on matrices of zeros."""
    m, n, k = shape
    matrices = [cuda.to_device(np.zeros(size, np.float32)) for size in ((m, k), (k, n), (m, n))]
    operands = [as_operand(matrix, name, 0) for matrix, name in zip(matrices, "abc", strict=True)]
    for name in names:
        version = ladder.find(name)
        for launch in driver.prepare_gemm(version, version.default_tile, *operands, 0):
            launch()
        cuda.synchronize()


def parse(text: str) -> list[dict[str, str]]:
    """The rows of `ncu --csv --page raw`, one a launch of ours in order, by column; below the header are units."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(lines))[1:]
    ours = ("pattern_load", "pattern_store", "crowd_store", "sgemm")
    return [row for row in rows if any(name in row["Kernel Name"] for name in ours)]


def counted(row: dict[str, str], metric: str) -> int | None:
    """A counter, None where this GPU has none."""
    text = row.get(metric, "").replace(",", "")
    try:
        return round(float(text))
    except ValueError:
        return None


def ncu() -> str:
    """The profiler.

    Raises:
        NoCountersError: if there is none.

    """
    found = shutil.which("ncu")
    if found is None:
        raise NoCountersError("there is no ncu on the path: install Nsight Compute")
    return found


def profile(metrics: Sequence[str], arguments: Sequence[str], launches: int) -> list[dict[str, str]]:
    """What ncu counts of so many launches of ours while Python runs with these arguments, one row a launch.

    Raises:
        NoCountersError: without ncu, or without the permission to read counters.
        RuntimeError: if ncu or what it runs fails, or there are more or fewer launches.

    """
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "ncu.csv")
        command = [ncu(), "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none"]
        command += ["--log-file", str(log), "--metrics", ",".join(metrics)]
        done = subprocess.run([*command, sys.executable, *arguments], capture_output=True, text=True, check=False)
        text = log.read_text(encoding="utf-8") if log.exists() else ""
    if "ERR_NVGPUCTRPERM" in text + done.stdout + done.stderr:
        raise NoCountersError("the driver lets only the administrator read counters (ERR_NVGPUCTRPERM)")
    if done.returncode:
        errors = [line for line in text.splitlines() if line.startswith("==ERROR==")]
        raise RuntimeError("\n".join((f"ncu: exit status {done.returncode}", *errors, done.stdout, done.stderr)))
    rows = parse(text)
    if len(rows) != launches:
        raise RuntimeError(f"ncu reports {len(rows)} launches instead of {launches}:\n{text[:2000]}")
    return rows


def measure(names: Sequence[str], shape: tuple[int, int, int]) -> list[dict[str, str]]:
    """The counters of `worker`'s launches."""
    available = subprocess.run([ncu(), "--query-metrics"], capture_output=True, text=True, check=False).stdout.split()
    more = [metric for metric in MORE_METRICS if metric.removesuffix(".sum") in available]
    arguments = [__file__, "--worker", "--shape", "x".join(map(str, shape)), *names]
    return profile((*METRICS, *more), arguments, 2 * len(list(patterns())) + 2 + len(names))


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
    """The lines for the launches of patterns: a load and a store each."""
    lines = []
    for index, pattern in enumerate(patterns()):
        for store, (kind, metric) in enumerate((("load", SHARED_LOADS), ("store", SHARED_STORES))):
            arguments = (pattern.starts, pattern.width, kind == "load")
            what = f"{4 * pattern.width:>2}-byte {kind:5}: {pattern.name}"
            others = tuple(other(*arguments) for other in OTHER_RULES.values())
            lines.append(Line(what, banks.rule(*arguments), counted(rows[2 * index + store], metric), others))
    return lines


def crowd_lines(rows: Sequence[dict[str, str]]) -> list[Line]:
    """The lines for many stores without, and then beside, loads of global memory."""
    stores = CROWD_BLOCKS * CROWD_TURNS * CROWD_THREADS // LANES
    alone, beside = rows
    return [
        Line("alone: wavefronts", stores, counted(alone, SHARED_STORES)),
        Line("beside global loads: wavefronts asked for", stores, counted(beside, STORES_ASKED)),
        Line("beside global loads: wavefronts at the data banks", stores, counted(beside, SHARED_STORES), (), False),
    ]


def version_lines(name: str, shape: tuple[int, int, int], arch: str | None, row: dict[str, str]) -> list[Line]:
    """The lines for one version's product."""
    accesses = version_accesses(name, arch=arch)
    model, others = banks.count_banks(accesses), [banks.count_banks(accesses, rule) for rule in OTHER_RULES.values()]
    reads = count_sectors(accesses)
    title = str(ladder.find(name))

    def shared(what: str, kind: Any, metric: str, checked: bool = True) -> Line:
        values = tuple(other.wavefronts(kind, *shape) for other in others)
        return Line(f"{title}: {what}", model.wavefronts(kind, *shape), counted(row, metric), values, checked)

    # The counters of loads count cp.async, too.
    load_requests = reads.requests("read", *shape) + reads.requests("copy", *shape)
    load_sectors = reads.sectors("read", *shape) + reads.sectors("copy", *shape)

    lines = [
        shared("wavefronts of shared loads", "read", SHARED_LOADS),
        shared("wavefronts of shared stores", "write", STORES_ASKED),
        shared("those of stores at the data banks", "write", SHARED_STORES, checked=False),
        Line(f"{title}: global load requests", load_requests, counted(row, LOAD_REQUESTS)),
        Line(f"{title}: global load sectors", load_sectors, counted(row, LOAD_SECTORS)),
        Line(f"{title}: global store requests", reads.requests("write", *shape), counted(row, STORE_REQUESTS)),
        Line(f"{title}: global store sectors", reads.sectors("write", *shape), counted(row, STORE_SECTORS)),
    ]
    copies, counted_copies = reads.requests("copy", *shape), counted(row, COPY_REQUESTS)
    if copies:
        copied = [counted(row, metric) for metric in (COPY_SECTORS_L1, COPY_SECTORS_L2)]
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
    single = 2 * len(list(patterns()))
    crowds, versions = rows[single : single + 2], rows[single + 2 :]
    lines = [line for name, row in zip(names, versions, strict=True) for line in version_lines(name, shape, arch, row)]
    return pattern_lines(rows), crowd_lines(crowds), lines


def architecture() -> str | None:
    """The one of this GPU, as `inspect` knows it; None where nothing can be compiled for it and disassembled.

    Raises:
        NoCountersError: without a GPU.

    """
    if not cuda.is_available():
        raise NoCountersError("there is no GPU")
    major, minor = cuda.get_current_device().compute_capability
    arch = f"sm_{major}{minor}"
    return arch if find_nvidia_binary_utility("nvdisasm") and arch in ARCHITECTURES else None


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
        arch = architecture()
        of_patterns, of_crowds, of_versions = compare(names, (m, n, k), arch)
    except NoCountersError as error:
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
