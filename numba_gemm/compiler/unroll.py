"""Straight-line code for a loop whose body is too large for the compiler to unroll by itself.

Numba has no unroll hint, and the optimiser leaves the K loop inside a tile alone. Here the loop is written out as
Python source: one function with a call for each step, so that each has its own constant `k`. (A device function for
each step makes the same machine code, but Numba takes as long for each as for a small kernel: over a third more
compile time for rung 7.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from numba_gemm.compiler.target import SIMULATOR, device_function


def unroll(step: Callable[..., None], count: int) -> Any:
    """A device function (*arguments) that calls `step(k, *arguments)` for k = 0 … count−1, without a loop.

    Each k is a np.uint32 that the compiler knows as a constant.
    """
    if SIMULATOR:

        def loop(*arguments):
            for k in range(count):
                step(np.uint32(k), *arguments)

        return loop

    steps = [f"    step(k{k}, *arguments)" for k in range(count)]
    names: dict[str, Any] = {f"k{k}": np.uint32(k) for k in range(count)}
    names["step"] = step
    exec("\n".join(["def loop(*arguments):", *steps]), names)
    return device_function(names["loop"])
