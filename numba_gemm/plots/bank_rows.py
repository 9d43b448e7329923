"""A request to shared memory, wavefront by wavefront: which lanes each of the 32 banks serves."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from matplotlib.axes import Axes

from numba_gemm.analysis.code.accesses import version_accesses
from numba_gemm.analysis.code.tracing import NOT_ACCESSED, Kind
from numba_gemm.analysis.models.shared_memory import BANKS, request_wavefronts, vector_words, wavefronts
from numba_gemm.plots import style
from numba_gemm.tile import FLOAT_BYTES, WARP

#: By bank, the lanes that one wavefront serves there.
Wavefront = dict[int, tuple[int, ...]]


def first_request(version: str, array: str, kind: Kind) -> tuple[list[int | None], int]:
    """The starts of the lanes and the floats of each, of the first request of a warp, as it is when traced."""
    site, requests = next(
        (site, requests)
        for site, requests in version_accesses(version, arch=None).more.items()
        if (site.space, site.array, site.kind) == ("shared", array, kind)
    )
    lanes = [None if start == NOT_ACCESSED else start for start in requests[0].tolist()]
    return lanes, site.bytes // FLOAT_BYTES


def wavefronts_of(starts: Sequence[int | None], width: int, *, load: bool) -> list[Wavefront]:
    """The wavefronts of a request in their order.

    So many lanes are served at once as make the number of `request_wavefronts`; of these, words of one bank come one
    after the other.
    """
    total = request_wavefronts(starts, width, load=load)
    for at_once in (WARP // width, 2 * WARP // width):
        parts = [range(first, min(first + at_once, WARP)) for first in range(0, WARP, at_once)]
        found = [wavefront for part in parts for wavefront in _served(starts, part, width)]
        if len(found) == total:
            return found
    raise ValueError(f"{total} wavefronts are not what any number of lanes at once makes of {starts}")


def _served(starts: Sequence[int | None], lanes: range, width: int) -> list[Wavefront]:
    wanted: dict[int, list[int]] = {}  # lanes by word
    for lane in lanes:
        start = starts[lane]
        for word in vector_words([] if start is None else [start], width):
            wanted.setdefault(word, []).append(lane)
    served: list[Wavefront] = [{} for _ in range(wavefronts(wanted))]
    for word in sorted(wanted):
        free = next(wavefront for wavefront in served if word % BANKS not in wavefront)
        free[word % BANKS] = tuple(wanted[word])
    return served


def draw_wavefronts(axes: Axes, found: list[Wavefront], lines: int) -> None:
    """A line a wavefront, a column a bank; in each box the first of the lanes that its banks serve."""
    style.blank(axes, equal=False)
    for line, wavefront in enumerate(found):
        style.cell(axes, 0, line, BANKS, 1, style.FAINT)
        for lanes, banks in groupby(range(BANKS), wavefront.get):
            if lanes:
                first, *more = banks
                fill = style.CYCLE[lanes[0] // 4 % len(style.CYCLE)]
                style.cell(axes, first, line, 1 + len(more), 1, fill, str(lanes[0]), size=style.TINY, linewidth=0.4)
    for bank in range(0, BANKS, BANKS // 4):
        axes.text(bank, -0.08, f"bank {bank}", ha="left", va="bottom", fontsize=style.TINY - 1)
    style.limits(axes, BANKS, lines, 0.2)
