"""GPU time of asynchronous work, by events, with a cold or a warm L2 cache.

Candidates are interleaved: each round times every one of them once, so that a drift of clocks or
temperature meets all alike and their ratio is honest.

**Cold**: each timed launch follows a kernel that reads a buffer of more than twice the L2, so that nothing of an
earlier round is left in it. (Writing the buffer would leave dirty lines, whose write-back would be charged to the
candidate.) **Warm**: the candidate runs once untimed after that kernel, then several times between two events; the
time is divided by their number.

No host time is measured. The reading kernel keeps the GPU busy, about 40 µs on an H200, while the host enqueues events
and launches; where the host needs longer, the GPU reaches the first event too early, which is noticed, and the kernel
is launched twice as often. So a candidate is best prepared (`product.prepare_product`), not `sgemm`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from cuda.bindings import driver as cu
from numba import cuda, float32, types, uint32

from numba_gemm.driver import cuda_api
from numba_gemm.driver.launch import prepare_on
from numba_gemm.driver.operands import as_operand
from numba_gemm.kernels.interface import Array, Kernel, Step
from numba_gemm.tile import LaunchConfig

Launch = Callable[[], object]

WARM_UPS = 10
ROUNDS = 50
_BLOCKS, _THREADS = 1024, 256
#: The buffer that is read, in units of the L2.
_FLUSHED_L2S = 2.5
#: Most launches of the reading kernel in front of one timed launch: about 0.6 ms on an H200.
_MOST_FLUSHES = 16
#: A warm time is of as many launches as take about this long, but not more than so many.
_WARM_SECONDS, _MOST_LAUNCHES = 200e-6, 20


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


class Events:
    """A start and an end on a stream."""

    def __init__(self, stream: int) -> None:
        self._stream = stream
        cuda_api.current_device()  # a thread may have no context yet, which events need
        self._start, self._end = (cuda_api.checked("cuEventCreate", cu.cuEventCreate(0)) for _ in range(2))

    def start(self) -> None:
        cuda_api.checked("cuEventRecord", cu.cuEventRecord(self._start, self._stream))

    def end(self) -> None:
        cuda_api.checked("cuEventRecord", cu.cuEventRecord(self._end, self._stream))

    def started(self) -> bool:
        """Whether the GPU has come to the start; does not wait."""
        (status,) = cu.cuEventQuery(self._start)
        if status == cu.CUresult.CUDA_ERROR_NOT_READY:
            return False
        cuda_api.checked("cuEventQuery", (status,))
        return True

    def wait(self) -> None:
        """Until the GPU has come to the end."""
        cuda_api.checked("cuEventSynchronize", cu.cuEventSynchronize(self._end))

    def seconds(self) -> float:
        """From start to end. A DriverError if the GPU has not come to the end: without `wait` there is no time."""
        return float(cuda_api.checked("cuEventElapsedTime", cu.cuEventElapsedTime(self._start, self._end))) / 1e3


class GpuTimer:
    """Times work on one stream of the current device."""

    def __init__(self, stream: int = 0) -> None:
        self._events = Events(stream)
        self._flush_l2 = prepare_flush(stream)
        self._flushes = 1
        #: How often work was timed although the GPU may have waited for the host in the middle of it.
        self.late = 0

    def time(self, launch: Launch) -> float:
        """Seconds that the work enqueued by `launch` takes on the GPU after an L2 flush; waits for it."""
        return self._time(launch, launches=1, warm=False)

    def time_warm(self, launch: Launch, launches: int) -> float:
        """Seconds of one of so many launches in a row, the L2 being as one more of them has left it; waits for all."""
        return self._time(launch, launches, warm=True) / launches

    def _time(self, launch: Launch, launches: int, warm: bool) -> float:
        while True:
            seconds, waited = self._time_once(launch, launches, warm)
            if not waited:
                return seconds
            if self._flushes >= _MOST_FLUSHES:
                self.late += 1
                return seconds
            self._flushes *= 2

    def _time_once(self, launch: Launch, launches: int, warm: bool) -> tuple[float, bool]:
        """The time, and whether the GPU may have had to wait for the host."""
        for _ in range(self._flushes):
            self._flush_l2()
        if warm:
            launch()
        self._events.start()
        for _ in range(launches):
            launch()
        self._events.end()
        waited = self._events.started()
        self._events.wait()
        return self._events.seconds(), waited

    def compare(
        self, candidates: Mapping[str, Launch], *, rounds: int = ROUNDS, warm_ups: int = WARM_UPS
    ) -> dict[str, Times]:
        """Time all candidates with a cold L2, interleaved."""
        turns = Turns(self, candidates)
        turns.warm_up(warm_ups)
        for _ in range(rounds):
            turns.round()
        return turns.times


class Turns:
    """Candidates that take turns, round by round."""

    def __init__(self, timer: GpuTimer, candidates: Mapping[str, Launch], *, warm: bool = False) -> None:
        self._timer, self._candidates, self._warm = timer, dict(candidates), warm
        self._seconds: dict[str, list[float]] = {name: [] for name in candidates}
        self._launches: dict[str, int] = {}

    def warm_up(self, count: int = WARM_UPS) -> None:
        """Run each so often without looking at the time."""
        for launch in self._candidates.values():
            for _ in range(count):
                launch()

    def round(self) -> dict[str, float]:
        """Time each once, in seconds."""
        found = {name: self._time(name, launch) for name, launch in self._candidates.items()}
        for name, seconds in found.items():
            self._seconds[name].append(seconds)
        return found

    def _time(self, name: str, launch: Launch) -> float:
        if not self._warm:
            return self._timer.time(launch)
        if name not in self._launches:
            self._launches[name] = launches_for(self._timer.time_warm(launch, 1))
        return self._timer.time_warm(launch, self._launches[name])

    @property
    def times(self) -> dict[str, Times]:
        """All rounds so far."""
        return {name: Times(tuple(seconds)) for name, seconds in self._seconds.items()}


def launches_for(seconds: float) -> int:
    """How many launches of that length a warm time is taken of."""
    return min(max(math.ceil(_WARM_SECONDS / max(seconds, 1e-9)), 1), _MOST_LAUNCHES)


def flush_floats(l2_bytes: int) -> int:
    """Floats of the buffer that is read to flush an L2 of that size: more than twice as much."""
    return int(l2_bytes * _FLUSHED_L2S) // 4


def prepare_flush(stream: int) -> Launch:
    """A launch that reads 2.5 times the L2."""
    l2_bytes = int(cuda.gpus[cuda_api.current_device()].L2_CACHE_SIZE)
    count = flush_floats(l2_bytes)
    operands = {
        "buffer": as_operand(cuda.to_device(np.ones(count, np.float32)), "buffer", 0),
        "sink": as_operand(cuda.to_device(np.zeros(1, np.float32)), "sink", 0),
    }
    kernel = Kernel(_read_kernel, (), types.void(float32[::1], float32[::1]), cacheable=False)
    config = LaunchConfig(grid=(_BLOCKS, 1), block=(_THREADS, 1))
    return prepare_on(Step(kernel, config, (Array("buffer", (count,)), Array("sink", (1,)))), operands, stream)


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
