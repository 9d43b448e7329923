"""`version="auto"`: which version and tile to use."""

from __future__ import annotations

from numba_gemm.ladder import RUNGS, Version


def choose_version(compute_capability: tuple[int, int]) -> Version:
    """The fastest version that the device can run: of the rungs so far each is faster than the one before.

    Raises:
        RuntimeError: for a device that no version runs on.
    """
    for version in reversed(RUNGS):
        if version.min_cc <= compute_capability:
            return version
    least, found = (".".join(map(str, cc)) for cc in (min(v.min_cc for v in RUNGS), compute_capability))
    raise RuntimeError(f"every version needs compute capability {least} or above; the device has {found}")
