"""The suite: "auto" on the shapes that count, against cuBLAS, and on large cubes against Triton, PyTorch and rung 7.

One benchmark a shape. Its statistics are the cold GPU times of "auto"; `extra_info` has the warm ones, the host time of
a call, what "auto" stood for, and all peers.
"""

from __future__ import annotations

import pytest

from benchmarks.conftest import Measurement, clock, stop_unless_timed
from numba_gemm import ladder
from numba_gemm.bench.candidates import AUTO
from numba_gemm.bench.measure import ROUNDS, Harness, ShapeRun, silent
from numba_gemm.bench.peers import ALL_PEERS_AT
from numba_gemm.bench.suite import SUITE, Shape

SHAPES = [pytest.param(shape, id="x".join(map(str, shape))) for group in SUITE.values() for shape in group]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.benchmark(group="suite", timer=clock)
def test_shape(measurement: Measurement, harness: Harness, shape: Shape) -> None:
    run = ShapeRun(shape, [AUTO, ladder.find(7)] if shape in ALL_PEERS_AT else [AUTO], harness)
    run.prepare(silent)
    (auto,) = (row for row in run.result().rows if row.name == AUTO)
    assert auto.problem is None, auto.problem
    stop_unless_timed(measurement.benchmark)

    run.cold.warm_up()
    measurement.rounds(run.cold, AUTO, ROUNDS)
    for _ in range(ROUNDS):
        run.warm.round()
    run.measure_host()
    result = run.result()
    measurement.benchmark.extra_info.update(result.extra_info(AUTO))
    wrong = [f"{row.name}: {row.problem}" for row in result.rows if row.wrong]
    assert not wrong, wrong
