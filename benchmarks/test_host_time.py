"""Host time of one call: what an inner loop over small matrices pays, next to the launch alone and PyTorch's own call.

Wall time of calls that are not waited for. The product is so small that the GPU keeps up with the host. The calls are
timed in turn, round by round: from one second to the next the same call was seen to take a third longer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from statistics import median
from typing import Any

import pytest

import numba_gemm
from benchmarks.conftest import clock, stop_unless_timed
from numba_gemm import ladder
from numba_gemm.driver.operands import as_operand
from numba_gemm.driver.product import Operands, prepare_product

torch = pytest.importorskip("torch", reason="compares with PyTorch")

#: 200 launches are fewer than the driver's queue holds: none waits for the GPU.
SIZE, CALLS, ROUNDS, WARM_UPS = 64, 200, 200, 5
BASELINE = "torch.mm"


def _calls() -> dict[str, Callable[[], Any]]:
    a, b, c = (torch.randn(SIZE, SIZE, device="cuda") for _ in range(3))
    bias = torch.randn(SIZE, device="cuda")
    planned = numba_gemm.plan(SIZE, SIZE, SIZE)
    operands = Operands(*(as_operand(tensor, "tensor", 0) for tensor in (a, b, c)))
    launch = prepare_product(ladder.find(planned.version), planned.tile, operands).bound(operands)
    return {
        "launch": launch,
        "plan": lambda: planned(a, b, c),
        "sgemm": lambda: numba_gemm.sgemm(a, b, c),
        "sgemm, bias": lambda: numba_gemm.sgemm(a, b, c, bias=bias),
        "sgemm, no c": lambda: numba_gemm.sgemm(a, b),
        BASELINE: lambda: torch.mm(a, b, out=c),
    }


def _seconds_per_call(call: Callable[[], Any]) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - start) / CALLS


@cache
def _rounds() -> dict[str, list[float]]:
    """Seconds per call of every call, one figure a round."""
    calls = _calls()
    rounds = [{name: _seconds_per_call(call) for name, call in calls.items()} for _ in range(WARM_UPS + ROUNDS)]
    return {name: [times[name] for times in rounds[WARM_UPS:]] for name in calls}


@pytest.mark.parametrize("name", ["launch", "plan", "sgemm", "sgemm, bias", "sgemm, no c", BASELINE])
@pytest.mark.benchmark(group="host time", timer=clock)
def test_call(benchmark: Any, name: str) -> None:
    _calls()[name]()
    stop_unless_timed(benchmark)
    rounds = _rounds()
    times = iter(rounds[name])

    def one_round() -> None:
        clock.now += next(times)

    benchmark.pedantic(one_round, rounds=ROUNDS, iterations=1, warmup_rounds=0)
    seconds, baseline_seconds = median(rounds[name]), median(rounds[BASELINE])
    benchmark.extra_info.update(
        call=name,
        seconds_per_call=seconds,
        size=SIZE,
        baseline=BASELINE,
        baseline_seconds=baseline_seconds,
        vs_baseline=baseline_seconds / seconds,
    )
