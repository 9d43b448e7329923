"""What the device can do at most, measured in the run that it is compared with: FP32 multiply-adds a second.

The arithmetic peak by the data sheet (multiprocessors × lanes × 2 × clock) supposes a clock that a busy device need
not keep. So a kernel that does nothing but multiply-adds on registers says what is possible here and now: 65.1 TFLOP/s
was measured on an H200, whose data sheet says 67.
"""

from __future__ import annotations

import statistics
from functools import cache
from typing import Any

import numpy as np
from numba import cuda, float32, types, uint32

from numba_gemm.compiler.target import device_function, launch_bounds
from numba_gemm.compiler.unroll import unroll
from numba_gemm.driver import cuda_api
from numba_gemm.driver.launch import prepare_on
from numba_gemm.driver.operands import as_operand
from numba_gemm.driver.timing import GpuTimer
from numba_gemm.kernels.interface import Array, Kernel, Step
from numba_gemm.tile import LaunchConfig

#: Independent sums a thread: more than a multiply-add's latency in cycles, so that none waits for another.
SUMS = 16
#: Steps over all sums in the body of the loop: the loop's own instructions are then one in a hundred.
STEPS = 16
THREADS, BLOCKS_PER_SM = 256, 4
#: Times through the loop: about 4 ms on an H200, and as much on others of its time.
_TURNS = 4096
_REPEATS = 5

SIGNATURE = types.void(float32[::1], float32, float32, types.uint32)


@cache
def make_kernel() -> Any:
    """sumⱼ = sumⱼ · x + y, again and again, in registers."""

    @device_function
    def multiply_add(_step, sums, x, y):  # type: ignore[no-untyped-def]
        for j in range(SUMS):
            sums[j] = sums[j] * x + y

    all_steps = unroll(multiply_add, STEPS)

    @cuda.jit(**launch_bounds(THREADS, BLOCKS_PER_SM))
    def ffma_only(result, x, y, turns):  # type: ignore[no-untyped-def]
        sums = cuda.local.array(SUMS, float32)
        for j in range(SUMS):
            sums[j] = float32(uint32(cuda.threadIdx.x) + uint32(j))
        turn = uint32(0)
        while turn < turns:
            all_steps(sums, x, y)
            turn = uint32(turn + uint32(1))
        total = float32(0)
        for j in range(SUMS):
            total += sums[j]
        # One number a thread, so that the compiler has to compute all sums.
        result[uint32(cuda.blockIdx.x) * uint32(cuda.blockDim.x) + uint32(cuda.threadIdx.x)] = total

    return ffma_only


def flops_of(blocks: int, turns: int) -> int:
    """FLOP of a launch: two a multiply-add."""
    return 2 * blocks * THREADS * turns * STEPS * SUMS


def ffma_limit(timer: GpuTimer) -> float:
    """FLOP/s of FP32 multiply-adds that the current device reaches, and nothing that adds products can pass."""
    blocks = cuda_api.multiprocessors(cuda_api.current_device()) * BLOCKS_PER_SM
    result = as_operand(cuda.device_array(blocks * THREADS, np.float32), "result", 0)
    # x < 1 keeps the sums from growing without end.
    arguments = (Array("result", (blocks * THREADS,)), 0.5, 1.0, _TURNS)
    kernel = Kernel(make_kernel, (), SIGNATURE, cacheable=False)
    step = Step(kernel, LaunchConfig(grid=(blocks, 1), block=(THREADS, 1)), arguments)
    prepared = prepare_on(step, {"result": result}, 0)
    prepared()  # the clock rises with the first work
    return flops_of(blocks, _TURNS) / statistics.median(timer.time(prepared) for _ in range(_REPEATS))
