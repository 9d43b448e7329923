"""Where kernels run: on a GPU, or in Numba's simulator (`NUMBA_ENABLE_CUDASIM=1` before the import)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import config, cuda

from numba_gemm.compiler import simulator

SIMULATOR: bool = bool(config.ENABLE_CUDASIM)

if SIMULATOR:
    simulator.install()


def launch_bounds(threads: int, blocks_per_sm: int) -> dict[str, Any]:
    """Keyword arguments for `cuda.jit` that promise the compiler a block size and ask for residency.

    With `threads` in a block and `blocks_per_sm` of them resident, a thread may use
    65536 / (threads · blocks_per_sm) registers; the compiler then fits the kernel into that.
    The simulator has no registers and refuses the option.
    """
    return {} if SIMULATOR else {"launch_bounds": (threads, blocks_per_sm)}


def device_function(function: Callable[..., Any]) -> Any:
    """A function that kernels call and that is always inlined; in the simulator, the function itself."""
    if SIMULATOR:
        simulator.register(function)
        return function
    return cuda.jit(device=True, forceinline=True)(function)
