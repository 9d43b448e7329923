"""`inspect`: the public name. The compiler and the reading of machine code are imported when it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba_gemm.tile import Tile

if TYPE_CHECKING:
    from numba_gemm.analysis.code.inspection import Inspection


def inspect(version: int | str, *, arch: str = "sm_90", tile: Tile | None = None) -> Inspection:
    """What a version is compiled to for a GPU architecture: registers, spills, shared memory, the main loop.

    Nothing is launched and no GPU is needed, but nvdisasm is: `pip install 'numba-gemm[inspect]'`. Versions that
    take any shape and layout are compiled for whole row-major matrices at aligned addresses.

    Args:
        version: a number or a name of `VERSIONS`.
        arch: "sm_80", "sm_86", "sm_89", "sm_90", "sm_100" or "sm_120".
        tile: the tile to compile for instead of the version's default.

    Returns:
        An `Inspection`: figures as attributes, `.to_dict()` for machines, tables by `rich.print`.

    Raises:
        TypeError: for a version or a tile of another type.
        ValueError: for an unknown version or architecture, or a tile that the version or the architecture cannot use.
        RuntimeError: in Numba's simulator, or without nvdisasm.

    """
    from numba_gemm.analysis.code.inspection import inspect_version

    return inspect_version(version, arch=arch, tile=tile)
