"""`version="auto"`: which version and tile to use."""

from __future__ import annotations

from numba_gemm.ladder import VERSIONS, Version, find


def choose_version(compute_capability: tuple[int, int]) -> Version:
    """The fastest version that the device can run.

    Of the rungs so far each is faster than the one before on large shapes, and rung 5 is fastest when
    its copies are inlined by Numba, which also lets it be cached on disk.

    Raises:
        RuntimeError: for a device that no version runs on.
    """
    fastest_first = [find("cp_async_intrinsic"), *(v for v in reversed(VERSIONS) if v.number is not None)]
    for version in fastest_first:
        if version.min_cc <= compute_capability:
            return version
    least, found = (".".join(map(str, cc)) for cc in (min(v.min_cc for v in VERSIONS), compute_capability))
    raise RuntimeError(f"every version needs compute capability {least} or above; the device has {found}")
