"""Kernels as calls of the library get them."""

from typing import Any

from numba_gemm.driver import loading
from numba_gemm.kernels.interface import Kernel, Variant
from numba_gemm.ladder import Version
from numba_gemm.tile import Tile


def gemm_kernel(version: Version, tile: Tile | None = None, variant: Variant | None = None) -> Any:
    """The kernel of a version, with its place on disk."""
    made_for: tuple[Any, ...] = (tile or version.default_tile,)
    if version.traits.takes_variants:
        made_for = (*made_for, variant or Variant())
    cacheable = not version.traits.foreign_files
    return loading.made(Kernel(version.module.make_kernel, made_for, version.signature, cacheable))
