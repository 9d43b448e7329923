"""What one load of a warp touches in global memory: sectors that are used, and some fetched for a single float."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from numba_gemm import ladder
from numba_gemm.analysis.code.accesses import version_accesses
from numba_gemm.analysis.code.sectors import SECTOR_BYTES, request_sectors
from numba_gemm.analysis.code.tracing import NOT_ACCESSED
from numba_gemm.analysis.models.shared_memory import vector_words
from numba_gemm.plots import style
from numba_gemm.plots.subjects import WARP_ACCESS
from numba_gemm.tile import FLOAT_BYTES

SECTOR = SECTOR_BYTES // FLOAT_BYTES
#: Sectors in a line of the drawing: as many as a line of the cache has.
IN_A_LINE = 4


def draw() -> Figure:
    """For each version the first load of A and the first of B of the first warp, sector by sector."""
    made = style.figure(
        4.1,
        "One load of a warp: neighbouring lanes should want neighbouring floats",
        f"Each strip is a sector of {SECTOR_BYTES} bytes, {SECTOR} floats; filled floats are wanted by a lane, hatched "
        "ones are fetched along. From the addresses of the first load of the first warp when the kernel is traced.",
    )
    loads = [_first_loads(name) for name in WARP_ACCESS]
    lines = [max(ceil(len(_sectors(*by_array[array])) / IN_A_LINE) for by_array in loads) for array in loads[0]]
    panels = made.subplots(len(lines), len(WARP_ACCESS), height_ratios=[count + 1 for count in lines])
    for place, (name, by_array) in enumerate(zip(WARP_ACCESS, loads, strict=True)):
        for axes, count_lines, (array, load) in zip(panels[:, place], lines, by_array.items(), strict=True):
            _strips(style.blank(axes, equal=False), load)
            starts, floats = load
            count = request_sectors(starts, floats)
            used = Fraction(len(set(vector_words(starts, floats))), count * SECTOR)
            title = f"{ladder.find(name)}\n" if axes is panels[0, place] else ""
            axes.set_title(
                f"{title}{array}: {count} sector{'s' if count > 1 else ''}, {'all' if used == 1 else used} used"
            )
            style.limits(axes, IN_A_LINE * (SECTOR + 1), count_lines, 0.2)
    return made


def _first_loads(name: str) -> dict[str, tuple[list[int], int]]:
    """Of each operand, the starts of the lanes of the first request, and the floats of each."""
    found = {}
    for site, requests in version_accesses(name, arch=None).more.items():
        if site.space == "global" and site.kind == "read" and site.array not in found:
            lanes = [start for start in requests[0].tolist() if start != NOT_ACCESSED]
            found[site.array] = (lanes, site.bytes // FLOAT_BYTES)
    return dict(sorted(found.items()))


def _sectors(starts: list[int], floats: int) -> dict[int, set[int]]:
    """The floats that are wanted, by sector."""
    found: dict[int, set[int]] = {}
    for word in sorted(vector_words(starts, floats)):
        found.setdefault(word // SECTOR, set()).add(word % SECTOR)
    return found


def _strips(axes: Axes, load: tuple[list[int], int]) -> None:
    for place, wanted in enumerate(_sectors(*load).values()):
        line, strip = divmod(place, IN_A_LINE)
        for word in range(SECTOR):
            here = word in wanted
            style.cell(axes, strip * (SECTOR + 1) + word, line, 1, 0.8, style.BLUE if here else style.FAINT,
                       hatch=None if here else style.HATCH)  # fmt: skip
