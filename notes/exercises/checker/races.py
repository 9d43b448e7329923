"""Races: accesses of different threads to one element, one of them a write, with no barrier in between.

Whether a race shows in a result depends on which thread happens to be first, on a GPU as in Numba's simulator, whose
threads are Python threads. So it is not looked for in results, but in a trace (`analysis.tracing`): two accesses of a
block that lie between the same two barriers may happen in either order, on any device and in any run.

Warps count for nothing: their threads are not promised to stay together. Of a cp.async, the time of the copy is taken
to be that of the instruction; whether its wait comes early enough is not checked.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import combinations

from numba_gemm.analysis.code.tracing import NOT_ACCESSED, Access, Trace


@dataclass(frozen=True)
class Side:
    """One of the two accesses of a race."""

    thread: int
    writes: bool
    #: File and line.
    site: str


@dataclass(frozen=True)
class Race:
    """Two threads that meet at one element; `first` is the one that comes first if all threads keep step."""

    array: str
    #: Index of the element in the memory of the array.
    element: int
    #: Barriers that both have passed.
    barriers: int
    first: Side
    second: Side


def races(trace: Trace) -> tuple[Race, ...]:
    """The races of a traced block, one for each pair of lines, in the order of the trace."""
    found: dict[tuple[str, str, str], Race] = {}
    for (array, barriers, element), touched in _touched(trace).items():
        for first, second in combinations(touched, 2):
            if first.thread != second.thread and (first.writes or second.writes):
                found.setdefault((array, first.site, second.site), Race(array, element, barriers, first, second))
    return tuple(found.values())


def _touched(trace: Trace) -> dict[tuple[str, int, int], list[Side]]:
    """Who touches an element between two barriers: by array, barriers passed, and index."""
    touched: dict[tuple[str, int, int], list[Side]] = defaultdict(list)
    for access in trace.accesses:
        for thread, start in enumerate(access.starts.tolist()):
            if start != NOT_ACCESSED:
                for element in range(start, start + access.floats):
                    touched[access.array, access.epoch, element].append(Side(thread, _writes(access), access.site))
    return touched


def _writes(access: Access) -> bool:
    """Both sides of a cp.async are a "copy": it reads global and writes shared memory."""
    return access.kind == "write" or (access.kind == "copy" and access.space == "shared")
