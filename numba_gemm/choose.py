"""`version="auto"`: which version to use for a shape, on a device."""

from __future__ import annotations

from numba_gemm.ladder import RUNGS, Version


def choose_version(
    compute_capability: tuple[int, int], multiprocessors: int, m: int, n: int, batch: int = 1
) -> Version:
    """The version that should be fastest for C[m, n], by what it gives the busiest multiprocessor to do.

    A rung whose blocks are larger computes each of them faster, but has fewer: on a small C they leave
    multiprocessors idle. Among the rungs that take any shape, this one has the fewest outputs on the
    multiprocessor that has most; the later rung, if that is the same. A device that can run none of
    them gets the last rung that it can run.

    Raises:
        RuntimeError: for a device that no version runs on.
    """
    runnable = [version for version in RUNGS if version.min_cc <= compute_capability]
    if not runnable:
        least, found = (".".join(map(str, cc)) for cc in (min(v.min_cc for v in RUNGS), compute_capability))
        raise RuntimeError(f"every version needs compute capability {least} or above; the device has {found}")
    general = [version for version in runnable if version.takes_variants]
    if not general:
        return runnable[-1]
    return min(reversed(general), key=lambda version: outputs_of_the_busiest(version, multiprocessors, m, n, batch))


def outputs_of_the_busiest(version: Version, multiprocessors: int, m: int, n: int, batch: int) -> int:
    """Outputs, counting those outside C, that the multiprocessor with most blocks computes."""
    tile = version.default_tile
    blocks_n, blocks_m = tile.grid(m, n)
    return -(-blocks_m * blocks_n * batch // multiprocessors) * tile.bm * tile.bn
