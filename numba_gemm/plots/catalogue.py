"""`PICTURES`: the list of all pictures as data, for the command, the README and the site. Needs no matplotlib."""

from __future__ import annotations

from numba_gemm.plots.picture import Picture

_MODELS, _CODE = "numba_gemm.analysis.models", "numba_gemm.analysis.code"
_OUTPUTS = "numba_gemm.plots.outputs"
_BANKS = "numba_gemm.plots.bank_rows"
_LADDER, _TILE = "numba_gemm.ladder", "numba_gemm.tile"

#: In the order of the story: what was reached, why, and how it is done.
PICTURES: tuple[Picture, ...] = (
    Picture(
        "ladder",
        "TFLOP/s of each rung, against cuBLAS and the limit of FFMA",
        (_LADDER, f"{_MODELS}.roofline", "numba_gemm.plots.results"),
        group="ladder",
    ),
    Picture(
        "roofline",
        "Every rung on the rooflines of global and of shared memory",
        (f"{_MODELS}.explain", "numba_gemm.hardware.devices", f"{_MODELS}.bounds", "numba_gemm.plots.results"),
        group="ladder",
    ),
    Picture(
        "suite",
        "Times as fast as cuBLAS, shape by shape",
        ("numba_gemm.plots.results",),
        group="suite",
    ),
    Picture(
        "predictions",
        "The range of time that the model predicts for each version, and the time that was measured",
        ("numba_gemm.plots.comparison", "numba_gemm.plots.results"),
        group="ladder",
    ),
    Picture(
        "bottlenecks",
        "What bounds each rung, and what the next rung does about it",
        (f"{_MODELS}.explain", _LADDER),
    ),
    Picture(
        "warp_access",
        "The sectors of global memory that one load of a warp fetches, and how much of them it uses",
        (f"{_CODE}.accesses", f"{_CODE}.sectors", f"{_CODE}.tracing"),
    ),
    Picture(
        "tiling",
        "A block's tile of C, and the tiles of A and B that one step of K copies",
        ("numba_gemm.plots.subjects",),
    ),
    Picture(
        "outer_product",
        "A thread's step of k: a column of A times a row of B, for three sizes of a thread's tile",
        (_LADDER, f"{_MODELS}.traffic"),
    ),
    Picture(
        "reuse",
        "Multiply-adds for each float that a thread, a warp and a block fetch",
        (_OUTPUTS, f"{_MODELS}.traffic"),
    ),
    Picture("lanes", "Which warp and which lane compute which outputs of a block", (_OUTPUTS,)),
    Picture(
        "a_layouts",
        "Four layouts of A in shared memory, with the bank conflicts of writing and of reading",
        (_BANKS, _LADDER),
    ),
    Picture("banks", "The banks that a warp's read of B takes, before and after a swizzle", (_BANKS,)),
    Picture(
        "pipeline",
        "Copying and computing in turn, and in a ring of stages, as a timeline",
        (f"{_MODELS}.ring", f"{_MODELS}.bounds"),
    ),
    Picture("ring", "What lies in each buffer of the ring, turn by turn", (f"{_MODELS}.ring",)),
    Picture("padding", "A ragged shape in whole tiles, and what the padding costs", (f"{_MODELS}.padding",)),
    Picture(
        "waves",
        "The waves of blocks of small and large grids, and the idle rest of the last",
        (f"{_MODELS}.explain",),
    ),
    Picture(
        "few_rows",
        "Few rows of C dealt out by tiles, by split-K and by stream-K",
        (f"{_MODELS}.segments",),
    ),
    Picture(
        "stream_k",
        "A last wave that is nearly empty, and the same tiles dealt out by stream-K",
        (f"{_MODELS}.segments", "numba_gemm.device.work"),
    ),
)


def find(name: str) -> Picture:
    """The picture of that name.

    Raises:
        ValueError: if there is none; the message lists all.

    """
    found = next((picture for picture in PICTURES if picture.name == name), None)
    if found is None:
        raise ValueError(f"unknown picture {name!r}; there are {', '.join(picture.name for picture in PICTURES)}")
    return found
