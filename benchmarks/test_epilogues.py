"""What an epilogue costs that is compiled into the kernel: each against the plain product of the same version and tile.

At 4096³ it should vanish next to the sum over k; with K = 64 the product is bound by writing C, and reading the old C
for beta is work of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import cuda

from benchmarks.conftest import Measurement, Prepared, Target, clock
from numba_gemm.accuracy import Reference
from numba_gemm.auto.choose import choose
from numba_gemm.calls import checks
from numba_gemm.driver import cuda_api
from numba_gemm.driver.compare import KnownProduct
from numba_gemm.driver.operands import as_operand
from numba_gemm.driver.product import prepare_product
from numba_gemm.problem import Problem

SHAPES = [pytest.param((4096, 4096, k), id=f"4096x4096x{k}") for k in (4096, 64)]
#: Of how many rows the outputs are held against float64.
ROWS = 32

Array = Any


def relu(x: Array) -> Array:
    return np.maximum(x, 0)


def gelu(x: Array) -> Array:
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def gelu_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def silu(x: Array) -> Array:
    return x / (1 + np.exp(-x))


#: Activation, whether with a bias, beta, and what it computes of alpha·A·B + beta·C + bias, in float64. No slope of an
#: activation is above 1.13.
EPILOGUES: dict[str, tuple[str | None, bool, float, Callable[[Array], Array]]] = {
    "bias": (None, True, 0.0, lambda x: x),
    "beta": (None, False, 0.5, lambda x: x),
    "relu": ("relu", False, 0.0, relu),
    "gelu": ("gelu", False, 0.0, gelu),
    "gelu_tanh": ("gelu_tanh", False, 0.0, gelu_tanh),
    "silu": ("silu", False, 0.0, silu),
    "bias, gelu, beta": ("gelu", True, 0.5, gelu),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", EPILOGUES)
@pytest.mark.benchmark(group="epilogues", timer=clock)
def test_epilogue(measurement: Measurement, problem: KnownProduct, name: str) -> None:
    activation, with_bias, beta, function = EPILOGUES[name]
    m, n, k = problem.shape
    target = Target(problem)
    choice = choose(cuda_api.current_device(), Problem.of(*target.operands[:3]).key)
    version, tile = choice.version, choice.tile
    bias = np.random.default_rng(1).standard_normal(n, dtype=np.float32)
    on_device = cuda.to_device(bias)
    plain = Prepared(version, tile, target.operands)
    operands = target.operands._replace(bias=as_operand(on_device, "bias", 0) if with_bias else None)
    fused = prepare_product(version, tile, operands, epilogue=checks.epilogue_of(with_bias, activation, None)).bound(
        operands, 1.0, beta
    )
    target.verify(plain, f"{version}, {tile}")

    # What plain has left is the old C; without beta nobody may read it, so it is NaN.
    old = target.array.copy_to_host() if beta else np.zeros((m, n), np.float32)
    if not beta:
        target.array.copy_to_device(np.full((m, n), np.nan, np.float32))
    fused()
    rows = np.linspace(0, m - 1, ROWS).astype(int)
    reference = Reference(problem.a.copy_to_host()[rows], problem.b.copy_to_host())
    x = reference.product + beta * old[rows] + (bias if with_bias else 0)
    found, expected = target.array.copy_to_host()[rows], function(x)
    rounding = 8 * np.finfo(np.float32).eps * (np.abs(x) + np.abs(expected)) + 1e-6
    excess = np.abs(found - expected) / (1.13 * reference.bound + rounding)
    assert excess.max() <= 1, f"{name} is wrong: its error is {excess.max()} times the bound"

    extra = {"epilogue": name, "version": version.name, "tile": str(tile), "candidate": name, "baseline": "plain"}
    measurement.compare(fused, plain, flops=2 * m * n * k, m=m, n=n, k=k, **extra)
