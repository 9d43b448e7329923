"""GPU time of asynchronous work, by events, with a cold L2 cache.

Candidates are interleaved: each round times every one of them once, so that a drift of clocks or
temperature meets all alike and their ratio is honest. Each timed launch follows a kernel that reads a
buffer of more than twice the L2, so that nothing of an earlier round is left in it. (Writing the
buffer would leave dirty lines, whose write-back would be charged to the candidate.) That kernel also
keeps the GPU busy while the host enqueues the events and the launch: as long as enqueuing takes less, about 40 µs
on an H200, no host time is measured. So a candidate has to be prepared (`launch.prepare`), not `sgemm`.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from cuda.bindings import driver as cu
from numba import cuda, float32, types, uint32

from numba_gemm import runtime
from numba_gemm.launch import prepare
from numba_gemm.operands import as_operand
from numba_gemm.tile import LaunchConfig

Launch = Callable[[], object]

WARM_UPS = 10
ROUNDS = 50
_BLOCKS, _THREADS = 1024, 256


@dataclass(frozen=True)
class Times:
    """GPU times of one candidate, in seconds, in the order measured."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def tflops(self, flops: int) -> float:
        """Rate in TFLOP/s for an operation of `flops` floating-point operations."""
        return flops / self.median / 1e12


class GpuTimer:
    """Times work on one stream of the current device."""

    def __init__(self, stream: int = 0) -> None:
        self._stream = stream
        self._start, self._end = (runtime.checked("cuEventCreate", cu.cuEventCreate(0)) for _ in range(2))
        self._flush_l2 = _prepare_flush(stream)

    def time(self, launch: Launch) -> float:
        """Seconds that the work enqueued by `launch` takes on the GPU after an L2 flush; waits for it."""
        self._flush_l2()
        runtime.checked("cuEventRecord", cu.cuEventRecord(self._start, self._stream))
        launch()
        runtime.checked("cuEventRecord", cu.cuEventRecord(self._end, self._stream))
        runtime.checked("cuEventSynchronize", cu.cuEventSynchronize(self._end))
        milliseconds = runtime.checked("cuEventElapsedTime", cu.cuEventElapsedTime(self._start, self._end))
        return float(milliseconds) / 1e3

    def compare(
        self, candidates: Mapping[str, Launch], *, rounds: int = ROUNDS, warm_ups: int = WARM_UPS
    ) -> dict[str, Times]:
        """Time all candidates, interleaved."""
        for launch in candidates.values():
            for _ in range(warm_ups):
                launch()
        seconds: dict[str, list[float]] = {name: [] for name in candidates}
        for _ in range(rounds):
            for name, launch in candidates.items():
                seconds[name].append(self.time(launch))
        return {name: Times(tuple(values)) for name, values in seconds.items()}


def _prepare_flush(stream: int) -> Launch:
    """A launch that reads 2.5 times the L2."""
    l2_bytes = int(cuda.gpus[runtime.current_device()].L2_CACHE_SIZE)
    buffer = cuda.to_device(np.ones(l2_bytes * 5 // 2 // 4, np.float32))
    sink = cuda.to_device(np.zeros(1, np.float32))
    arguments = as_operand(buffer, "buffer", 0), as_operand(sink, "sink", 0)
    config = LaunchConfig(grid=(_BLOCKS, 1), block=(_THREADS, 1))
    return prepare(_read_kernel(), types.void(float32[::1], float32[::1]), config, arguments, stream)


@cache
def _read_kernel() -> object:
    STEP = np.uint32(_BLOCKS * _THREADS)
    THREADS = np.uint32(_THREADS)

    @cuda.jit
    def read_all(buffer, sink):  # type: ignore[no-untyped-def]
        total = float32(0)
        first = uint32(cuda.blockIdx.x) * THREADS + uint32(cuda.threadIdx.x)
        for i in range(first, uint32(buffer.shape[0]), STEP):
            total += buffer[i]
        if total < float32(0):  # never, but the compiler cannot know and must do the reads
            sink[0] = total

    return read_all
