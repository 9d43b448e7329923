"""`version="auto"`: which version and tile to use."""

from __future__ import annotations

from numba_gemm.ladder import VERSIONS, Version, find


def choose_version(compute_capability: tuple[int, int]) -> Version:
    """The fastest version that the device can run.

    Of the rungs so far each is faster than the one before on large shapes, and rung 5 is fastest when
    its copies are inlined by Numba, which also lets it be cached on disk.
    """
    fastest_first = [find("cp_async_intrinsic"), *(v for v in reversed(VERSIONS) if v.number is not None)]
    return next(version for version in fastest_first if version.min_cc <= compute_capability)
