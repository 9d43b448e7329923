"""Straight-line code for a loop whose body is too large for the compiler to unroll by itself.

Numba has no unroll hint, and the optimiser leaves the K loop inside a tile alone. Here each step
becomes a device function with its own constant `k`, joined pairwise so that inlining stays shallow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from numba_gemm.device.target import SIMULATOR, device_function


def unroll(step: Callable[..., None], count: int) -> Any:
    """A device function that calls `step(k, *arguments)` for k = 0 … count−1, without a loop."""
    if SIMULATOR:

        def loop(*arguments):
            for k in range(count):
                step(np.uint32(k), *arguments)

        return loop
    return _chain(step, 0, count)


def _chain(step: Callable[..., None], first: int, end: int) -> Any:
    if end - first == 1:
        k = np.uint32(first)

        @device_function
        def leaf(*arguments):
            step(k, *arguments)

        return leaf

    middle = (first + end) // 2
    lower, upper = _chain(step, first, middle), _chain(step, middle, end)

    @device_function
    def node(*arguments):
        lower(*arguments)
        upper(*arguments)

    return node
