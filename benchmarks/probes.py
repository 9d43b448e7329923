"""What `benchmarks/counters.py` counts besides products: single accesses to shared memory, and crowds of stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import cuda, float32, uint32

LANES = 32

# Single accesses -------------------------------------------------------------------------------------

SHARED_FLOATS = 8192


@dataclass(frozen=True)
class Pattern:
    """An access of one warp: lane t accesses `width` floats from float `start(t)` on."""

    name: str
    width: int
    start: Callable[[int], int]

    @property
    def starts(self) -> list[int]:
        return [self.start(t) for t in range(LANES)]


def patterns() -> Iterator[Pattern]:
    """For each width: broadcasts and shares of all kinds, with and without conflicts, and what the rungs do."""
    for w in (1, 2, 4):

        def element(index: Callable[[int], int], w: int = w) -> Callable[[int], int]:
            return lambda t: w * index(t)

        yield Pattern("one after the other", w, element(lambda t: t))
        yield Pattern("all the same", w, element(lambda _: 0))
        yield Pattern("alike but for bit 0", w, element(lambda t: t >> 1))
        yield Pattern("alike but for bit 1", w, element(lambda t: t & 1 | (t >> 2) << 1))
        yield Pattern("alike but for bit 2", w, element(lambda t: t & 3 | (t >> 3) << 2))
        yield Pattern("alike but for bit 3", w, element(lambda t: t & 7 | (t >> 4) << 3))
        yield Pattern("halves alike", w, element(lambda t: t & 15))
        yield Pattern("every second", w, element(lambda t: 2 * t))
        yield Pattern("all in one bank", w, lambda t: 32 * t)
        yield Pattern("bit 0 alike, all in one bank", w, lambda t: 32 * (t >> 1))
        yield Pattern("bit 0 alike in the first half only", w, element(lambda t: t >> 1 if t < 16 else t))
        yield Pattern("halves of one address, one bank", w, lambda t: 64 * (t >> 4))
        yield Pattern("quarters of one address, one bank", w, lambda t: 64 * (t >> 3))
        yield Pattern("bit 0 alike, halves in the same banks", w, lambda t, w=w: 64 * (t >> 4) + w * (t % 16 >> 1))
        yield Pattern("bit 0 alike, four in one bank, then one", w, lambda t: 32 * (t >> 1) if t < 8 else 16)
    yield Pattern("A of rung 4: two groups of 8 rows", 4, lambda t: 8 * (t >> 4))
    yield Pattern("A of rungs 3 and 5: two rows, 64 apart", 4, lambda t: 64 * (t >> 4))
    yield Pattern("B of rungs 3 to 6: tn · 8", 4, lambda t: 8 * (t & 15))
    yield Pattern("B split: tn · 4", 4, lambda t: 4 * (t & 15))
    yield Pattern("A of rung 7", 4, lambda t: 4 * (t >> 1 & 3))
    yield Pattern("B of rung 7", 4, lambda t: 4 * (t & 1 | (t >> 3) << 1))


def make_pattern_kernels(width: int) -> tuple[Any, Any]:
    """Kernels of one warp that read or write `width` floats a lane at a place given in units of `width`."""
    LANES_U, WIDTH, FLOATS = np.uint32(LANES), np.uint32(width), SHARED_FLOATS

    @cuda.jit
    def pattern_load(units, out):
        memory = cuda.shared.array(FLOATS, float32, 16)
        lane = uint32(cuda.threadIdx.x)
        for i in range(lane, FLOATS, LANES_U):
            memory[i] = float32(i)
        cuda.syncthreads()
        start = units[lane] * WIDTH
        total = float32(0)
        for q in range(WIDTH):
            total += memory[start + q]
        out[lane] = total

    @cuda.jit
    def pattern_store(units, out):
        memory = cuda.shared.array(FLOATS, float32, 16)
        lane = uint32(cuda.threadIdx.x)
        start = units[lane] * WIDTH
        x = out[lane]
        for q in range(WIDTH):
            memory[start + q] = x + float32(q)
        cuda.syncthreads()
        out[lane] = memory[units[lane + LANES_U]]

    return pattern_load, pattern_store


# Stores beside loads of global memory -----------------------------------------------------------------

CROWD_BLOCKS, CROWD_THREADS, CROWD_TURNS = 264, 256, 256


def make_crowd_kernel(loading: bool) -> Any:
    """A kernel of many warps that do nothing but store to shared memory; with `loading`, what they have just loaded."""
    LOADING, FLOATS = loading, 4 * CROWD_THREADS
    THREADS, TURNS, ROWS = np.uint32(CROWD_THREADS), np.uint32(CROWD_TURNS), np.uint32(4)

    @cuda.jit
    def crowd_store(values, out):
        memory = cuda.shared.array(FLOATS, float32, 16)
        thread, block = uint32(cuda.threadIdx.x), uint32(cuda.blockIdx.x)
        x = float32(thread)
        for turn in range(TURNS):
            if LOADING:
                x = values[(block * TURNS + turn) * THREADS + thread]
            memory[turn % ROWS * THREADS + thread] = x
            x += float32(1)
        cuda.syncthreads()
        out[thread] = memory[thread ^ uint32(64)] + memory[thread + THREADS]

    return crowd_store
