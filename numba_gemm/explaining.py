"""`explain`: the public name. The models are imported when it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba_gemm.tile import Tile

if TYPE_CHECKING:
    from numba_gemm.analysis.models.explain import Explanation
    from numba_gemm.hardware.devices import Hardware


def explain(
    version: int | str,
    m: int,
    n: int,
    k: int,
    device: str | Hardware | None = None,
    tile: Tile | None = None,
    *,
    detail: bool = False,
) -> Explanation:
    """What bounds a version on a shape, in what order, how long it should take, and what the next rung does about it.

    A model: bytes, intensity, occupancy, waves, wavefronts of shared memory, and from them a range of time. Nothing is
    launched and no GPU is needed. How far it is from what was measured is in notes/predictions.md.

    Args:
        version: a number or a name of `VERSIONS`.
        m, n, k: C[m, n] = A[m, k]·B[k, n], row-major; each at least 0.
        device: "A100", "H100", "H200", "RTX A6000", "RTX 4090", "RTX 5080" in any case, or a `Hardware`. By default
            the GPU at hand, and an H200, which the stored results are from, where there is none.
        tile: the tile to explain instead of the version's default.
        detail: compile the version, which takes seconds, and take registers and instructions from its machine code;
            otherwise they are what the tile needs. Needs what `inspect` needs.

    Returns:
        An `Explanation`: figures as attributes, `.to_dict()` for machines, tables by `rich.print`.

    Raises:
        TypeError: for an argument of another type.
        ValueError: for an unknown version or device, a negative size, a tile that the version cannot use, or a version
            that the device cannot run.
        RuntimeError: with `detail`, in Numba's simulator or without nvdisasm.

    """
    from numba_gemm.analysis.models.explain import explain_version

    return explain_version(version, m, n, k, device, tile, detail=detail)
