"""Count what warps wait for, and what is read from device memory: the counters that notes/claims.md decides claims by.

`python benchmarks/stalls.py [FILE]` on a machine with a GPU and Nsight Compute (`ncu`), in a checkout: writes
benchmarks/results/counters.json if nothing else is said, and prints the same as a table. Exit status 2 without
`ncu`, or where the driver lets nobody but the administrator read counters; 1 if a counter is missing here.

Matrices are of the size that the claims are stated for. `ncu` runs each launch several times, each with cold caches.
`--worker` is what it runs: one launch for each version, in order.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import profiler
from notes.make.claims_of_sweeps import IN_PAIRS, NOT_AHEAD, PREFETCHING
from notes.make.evidence import COUNTERS, SIZE
from numba_gemm.bench.environment import describe

VERSIONS = ("naive", *NOT_AHEAD, *PREFETCHING, *IN_PAIRS)

#: By its name in the file, what ncu calls it. The stalls are the warps of a scheduler that wait for that reason, for
#: each instruction that it issues; `warp_cycles` is the same for all reasons together, with the issue itself.
METRICS = {
    "warp_cycles": "smsp__average_warp_latency_per_inst_issued.ratio",
    "long_scoreboard": "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
    "short_scoreboard": "smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio",
    "barrier": "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio",
    "dram_bytes_read": "dram__bytes_read.sum",
    "dram_bytes_written": "dram__bytes_write.sum",
}


class MissingMetricError(RuntimeError):
    """This GPU, or this version of ncu, has no such counter."""


def number(row: Mapping[str, str], metric: str) -> float:
    """A counter of a launch.

    Raises:
        MissingMetricError: if ncu has no number for it.

    """
    text = row.get(metric)
    try:
        found = float((text or "").replace(",", ""))
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        said = "has no such column" if text is None else f"says {text!r}"
        raise MissingMetricError(
            f"ncu counts no {metric} of {row['Kernel Name']}: it {said}. `ncu --query-metrics` lists what there is "
            "here; METRICS in benchmarks/stalls.py has the names"
        )
    return found


def figures(rows: Sequence[Mapping[str, str]]) -> dict[str, dict[str, float]]:
    """The counters of each version, from the launches of all in order."""
    return {
        version: {name: number(row, metric) for name, metric in METRICS.items()}
        for version, row in zip(VERSIONS, rows, strict=True)
    }


def measure() -> dict[str, Any]:
    """What is stored."""
    rows = profiler.profile(tuple(METRICS.values()), ["-m", "benchmarks.stalls", "--worker"], len(VERSIONS))
    return {
        "machine_info": describe(),
        "datetime": datetime.now(UTC).isoformat(timespec="seconds"),
        "shape": [SIZE, SIZE, SIZE],
        "metrics": METRICS,
        "versions": figures(rows),
    }


def table(found: Mapping[str, Mapping[str, float]]) -> str:
    """Counters by version; bytes in full."""
    lines = [f"{'':20}" + "".join(f"{name:>20}" for name in METRICS)]
    for version, values in found.items():
        cells = (f"{value:,.0f}" if name.startswith("dram") else f"{value:.3f}" for name, value in values.items())
        lines.append(f"{version:20}" + "".join(f"{cell:>20}" for cell in cells))
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, default=COUNTERS)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        profiler.multiply_once(VERSIONS, (SIZE, SIZE, SIZE))
        return 0
    try:
        profiler.architecture()  # whether there is a GPU
        found = measure()
    except profiler.NoCountersError as error:
        print(f"stalls: {error}", file=sys.stderr)
        return 2
    except MissingMetricError as error:
        print(f"stalls: {error}", file=sys.stderr)
        return 1
    options.file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(table(found["versions"]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
