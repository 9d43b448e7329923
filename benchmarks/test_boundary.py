"""Rung 6: ragged shapes, what checking costs, padding instead, and what fusing an epilogue saves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.conftest import Measurement, Prepared, Target, clock, shared_problem
from numba_gemm import ladder, plan
from numba_gemm.driver.compare import KnownProduct
from numba_gemm.kernels.interface import Variant

RUNG_5, RUNG_6 = ladder.find(5), ladder.find(6)
CUBE = (4096, 4096, 4096)
RAGGED = [(4095, 4097, 4093), (1023, 1025, 1021)]


def named(shape: tuple[int, int, int]) -> str:
    return "x".join(map(str, shape))


@pytest.mark.parametrize("shape", RAGGED, ids=named)
@pytest.mark.benchmark(group="ragged", timer=clock)
def test_ragged_against_cublas(measurement: Measurement, problem: KnownProduct) -> None:
    measurement.version_against_cublas(RUNG_6, RUNG_6.default_tile, problem)


@pytest.mark.parametrize("shape", RAGGED[:1], ids=named)
@pytest.mark.benchmark(group="edges", timer=clock)
def test_edges_against_padding(measurement: Measurement, problem: KnownProduct) -> None:
    """Rung 6 as it is, against rung 5 with its operands copied into zero-padded scratch and back."""
    target = Target(problem)
    candidate = Prepared(RUNG_6, RUNG_6.default_tile, target.operands)
    padded = Prepared(RUNG_5, RUNG_5.default_tile, target.operands)
    target.verify(candidate, "rung 6")
    target.verify(padded, "rung 5 with padding")
    m, n, k = problem.shape
    extra = {"candidate": "rung 6, edges in the kernel", "baseline": "rung 5, padded", "m": m, "n": n, "k": k}
    measurement.compare(candidate, padded, flops=2 * m * n * k, **extra)


@pytest.mark.parametrize("shape", [CUBE], ids=named)
@pytest.mark.benchmark(group="edges", timer=clock)
def test_whole_against_edge_kernel(measurement: Measurement, problem: KnownProduct) -> None:
    """The kernel that checks nothing, against the one for ragged shapes, on a shape that both can do."""
    target = Target(problem)
    launches = [
        Prepared(RUNG_6, RUNG_6.default_tile, target.operands, variant=Variant(whole=whole)) for whole in (True, False)
    ]
    for launch in launches:
        target.verify(launch, "rung 6")
    m, n, k = problem.shape
    extra = {"candidate": "whole-tile kernel", "baseline": "edge kernel", "m": m, "n": n, "k": k}
    measurement.compare(*launches, flops=2 * m * n * k, **extra)


@pytest.mark.parametrize("shape", [CUBE, (4096, 4096, 64)], ids=named)
@pytest.mark.benchmark(group="edges", timer=clock)
def test_through_shared_against_direct_store(measurement: Measurement, problem: KnownProduct) -> None:
    """Outputs through shared memory in whole lines, against stores from the registers; with much K, and with little."""
    target = Target(problem)
    launches = []
    for version in (ladder.find("through_shared"), RUNG_6):
        launches.append(Prepared(version, version.default_tile, target.operands))
        target.verify(launches[-1], str(version))
    m, n, k = problem.shape
    extra = {"candidate": "store through shared memory", "baseline": "direct store", "m": m, "n": n, "k": k}
    measurement.compare(*launches, flops=2 * m * n * k, **extra)


@pytest.mark.parametrize("shape", [CUBE, (512, 14336, 4096)], ids=named)
@pytest.mark.benchmark(group="fusion", timer=clock)
def test_fused_against_separate(measurement: Measurement, shape: tuple[int, int, int]) -> None:
    """gelu(A·B + bias) in one kernel, against PyTorch's matmul, addition and gelu."""
    torch: Any = pytest.importorskip("torch", reason="compares with PyTorch")
    m, n, k = shape
    problem = shared_problem(m, n, k)
    a, b = (torch.as_tensor(array, device="cuda") for array in (problem.a, problem.b))
    bias, c = torch.randn(n, device="cuda"), torch.empty(m, n, device="cuda")
    torch.backends.cuda.matmul.allow_tf32 = False
    planned = plan(m, n, k, bias=True, activation="gelu")

    def fused() -> None:
        planned(a, b, c, bias=bias)

    def separate() -> Any:
        return torch.nn.functional.gelu(torch.mm(a, b) + bias)

    c.fill_(float("nan"))
    fused()
    expected = torch.nn.functional.gelu(torch.as_tensor(problem.reference.product, device="cuda") + bias.double())
    bound = torch.as_tensor(problem.reference.bound, device="cuda")
    # gelu's slope is below 1.13; its own rounding is a few units in the last place.
    excess = ((c.double() - expected).abs() - 1.13 * bound) / (4 * np.finfo(np.float32).eps * expected.abs() + 1e-6)
    assert excess.max().item() <= 1
    names = {"candidate": f"fused, version {planned.version}", "baseline": "PyTorch: mm, add, gelu"}
    measurement.compare(fused, separate, flops=2 * m * n * k, **names, m=m, n=n, k=k)
