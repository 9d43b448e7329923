"""Host time of one call: what an inner loop over small matrices pays, next to the launch alone and PyTorch's own call.

Wall time of calls that are not waited for. The product is so small that the GPU keeps up with the host.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from conftest import stop_unless_timed

import numba_gemm
from numba_gemm import blas, ladder
from numba_gemm.arrange import arrange
from numba_gemm.device.epilogue import Epilogue
from numba_gemm.operands import as_operand

torch = pytest.importorskip("torch", reason="compares with PyTorch")

SIZE, CALLS = 64, 200


def _calls() -> dict[str, Callable[[], Any]]:
    a, b, c = (torch.randn(SIZE, SIZE, device="cuda") for _ in range(3))
    planned = numba_gemm.plan(SIZE, SIZE, SIZE)
    version = ladder.find(planned.version)
    operands = (as_operand(tensor, "tensor", 0) for tensor in (a, b, c))
    arrangement = arrange(*operands, few_rows=version.few_rows)
    (launch,) = blas.prepare(version, planned.tile, arrangement, Epilogue(), None, 1.0, 0.0, 0)
    return {
        "launch": launch,
        "plan": lambda: planned(a, b, c),
        "sgemm": lambda: numba_gemm.sgemm(a, b, c),
        "torch.mm": lambda: torch.mm(a, b, out=c),
    }


@pytest.mark.parametrize("name", ["launch", "plan", "sgemm", "torch.mm"])
@pytest.mark.benchmark(group="host time", timer=time.perf_counter)
def test_call(benchmark: Any, name: str) -> None:
    call = _calls()[name]
    call()
    stop_unless_timed(benchmark)

    def many() -> None:
        for _ in range(CALLS):
            call()

    benchmark.pedantic(many, setup=torch.cuda.synchronize, rounds=30, iterations=1, warmup_rounds=3)
    benchmark.extra_info.update(call=name, seconds_per_call=benchmark.stats.stats.median / CALLS, size=SIZE)
