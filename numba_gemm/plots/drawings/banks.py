"""Banks of shared memory before and after a swizzle: the fragment of B that a warp reads at once."""

from __future__ import annotations

from matplotlib.figure import Figure

from numba_gemm import ladder
from numba_gemm.plots import style
from numba_gemm.plots.bank_rows import draw_wavefronts, first_request, wavefronts_of
from numba_gemm.plots.subjects import B_LAYOUTS


def draw() -> Figure:
    """A panel for each layout of Bs."""
    made = style.figure(
        6.0,
        "Two ways out of bank conflicts: spread a thread's columns, or swizzle",
        "The first read of a fragment of B by a warp, traced. Columns are the banks of shared memory, lines the "
        "wavefronts in which the hardware serves the read; the number in a cell is the first lane that gets its float. "
        "Empty cells are bandwidth that is lost.",
    )
    requests = {name: wavefronts_of(*first_request(name, "Bs", "read"), load=True) for name in B_LAYOUTS}
    heights = [len(found) + 2 for found in requests.values()]
    panels = made.subplots(len(requests), 1, height_ratios=heights)
    for axes, (name, found) in zip(panels, requests.items(), strict=True):
        draw_wavefronts(axes, found, len(found))
        version = ladder.find(name)
        axes.set_title(f"{version if version.number else version.summary}: {len(found)} wavefronts", pad=9)
    return made
