"""Four layouts of the tile of A in shared memory: what writing it costs, and what reading a fragment costs."""

from __future__ import annotations

from matplotlib.figure import Figure

from numba_gemm import ladder
from numba_gemm.plots import style
from numba_gemm.plots.bank_rows import draw_wavefronts, first_request, wavefronts_of
from numba_gemm.plots.subjects import A_LAYOUTS


def draw() -> Figure:
    """A row for each layout, with a write on the left and a read on the right."""
    made = style.figure(
        6.4,
        "Where A lies in shared memory decides which side pays for conflicts",
        "The first request of a warp, traced. Columns are banks, lines the wavefronts in which a request is served, "
        "numbers the first lane that a bank serves. A read of four neighbouring floats at once serves four steps of k "
        "where rows are lines of A, As[m, k], and one step where they are columns, As[k, m].",
    )
    both = {
        name: [wavefronts_of(*first_request(name, "As", kind), load=kind == "read") for kind in ("write", "read")]
        for name in A_LAYOUTS
    }
    heights = [max(map(len, found)) + 2.5 for found in both.values()]
    for panels, (name, found) in zip(
        made.subplots(len(both), 2, height_ratios=heights, width_ratios=[2, 1]), both.items(), strict=True
    ):
        for axes, kind, wavefronts in zip(panels, ("write", "read"), found, strict=True):
            floats = first_request(name, "As", "write" if kind == "write" else "read")[1]
            draw_wavefronts(axes, wavefronts, max(map(len, found)))
            wide = f"{floats} floats a lane" if floats > 1 else "one float a lane"
            each = sum(map(len, wavefronts)) / len(wavefronts)
            count = f"{len(wavefronts)} wavefront{'s' if len(wavefronts) > 1 else ''} of {each:.0f} floats"
            title = f"{_layout(name)}, {name}\n" if kind == "write" else "\n"
            axes.set_title(f"{title}{kind}, {wide}: {count}", fontsize=style.SMALL, pad=9)
    return made


def _layout(name: str) -> str:
    """Rows and row length of As."""
    version = ladder.find(name)
    tile, facts = version.default_tile, version.structure
    rows, row = (tile.bm, tile.bk) if facts.a_in_lines else (tile.bk, tile.bm)
    padding = f"+{facts.a_padding}" if facts.a_padding else ""
    return f"As[{rows}][{row}{padding}]"
