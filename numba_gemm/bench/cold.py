"""Is the L2 cold when it should be? A chain of dependent loads tells: each waits for the one before it.

A load that misses the L2 takes about twice as long as one that hits it (H100: 270 cycles and 550), so a chain through
memory that was read before takes visibly longer after a flush, or the flush does not flush.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from functools import cache

import numpy as np
from numba import cuda, float32, types, uint32

from numba_gemm.driver.launch import prepare_on
from numba_gemm.driver.operands import as_operand
from numba_gemm.driver.timing import GpuTimer, Launch
from numba_gemm.kernels.interface import Array, Kernel, Step
from numba_gemm.tile import LaunchConfig

#: Links of the chain, and how far apart they are, in floats: each in a line of its own, all in 2 MB.
LINKS, STRIDE = 2048, 256
#: What has to lie between a cold and a warm chain.
LEAST_RATIO = 1.2
_REPEATS = 5

SIGNATURE = types.void(float32[::1], float32[::1], types.uint32)


class NotColdError(RuntimeError):
    """What was measured as cold was not."""


@dataclass(frozen=True)
class Latencies:
    """Seconds of one dependent load, with the L2 as the timer leaves it."""

    cold: float
    warm: float


def latencies(timer: GpuTimer) -> Latencies:
    """Measured with the timer that is to be trusted.

    Raises:
        NotColdError: if a cold chain is not clearly slower than a warm one.
    """
    chain = prepare_chain()
    chain()
    cold = statistics.median(timer.time(chain) for _ in range(_REPEATS)) / LINKS
    warm = statistics.median(timer.time_warm(chain, 1) for _ in range(_REPEATS)) / LINKS
    if not cold > LEAST_RATIO * warm:
        raise NotColdError(
            f"a load takes {cold * 1e9:.0f} ns after the L2 was flushed and {warm * 1e9:.0f} ns when it was not: "
            "the flush does not flush, and cold times would be warm ones"
        )
    return Latencies(cold, warm)


def prepare_chain() -> Launch:
    """One thread that follows the chain once. Links are numbers of elements, as floats, which hold them exactly."""
    order = np.random.default_rng(0).permutation(LINKS)
    links = np.zeros(LINKS * STRIDE, np.float32)
    links[order * STRIDE] = np.roll(order, -1) * STRIDE
    operands = {
        "links": as_operand(cuda.to_device(links), "links", 0),
        "result": as_operand(cuda.to_device(np.zeros(1, np.float32)), "result", 0),
    }
    kernel = Kernel(make_kernel, (), SIGNATURE, cacheable=False)
    arguments = Array("links", links.shape), Array("result", (1,)), LINKS
    return prepare_on(Step(kernel, LaunchConfig((1, 1), (1, 1)), arguments), operands, 0)


@cache
def make_kernel() -> object:
    """One thread goes from link to link."""

    @cuda.jit
    def follow(links, result, count):  # type: ignore[no-untyped-def]
        at = uint32(0)
        i = uint32(0)
        while i < count:
            at = uint32(links[at])
            i = uint32(i + uint32(1))
        result[0] = float32(at)

    return follow
