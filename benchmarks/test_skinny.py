"""Few rows: how much of the bandwidth of a copy a product with M = 1 … 16 uses, and how its time grows with M.

Weights are the K×N operand, row-major or, as `torch.nn.Linear` stores them, as N×K. The bandwidth is that of the
driver's own copy from device to device, bytes read and written, in the same run. cuBLAS reads row-major weights in both
cases.
"""

from __future__ import annotations

import statistics
from functools import cache
from typing import Any

import numpy as np
import pytest
from cuda.bindings import driver as cu
from numba import cuda

from benchmarks.conftest import Measurement, Prepared, Target, clock, shared_problem
from numba_gemm import Tile, ladder, plan
from numba_gemm.analysis.models import gemv
from numba_gemm.bench.limits import ffma_limit
from numba_gemm.driver import cuda_api
from numba_gemm.driver.compare import KnownProduct
from numba_gemm.driver.operands import as_operand
from numba_gemm.driver.product import Operands
from numba_gemm.driver.timing import GpuTimer
from numba_gemm.kernels.skinny import DEFAULT_TILE, GEMV_TILE
from numba_gemm.problem import Operand

SKINNY = ladder.find("skinny")
#: Less a thread and more threads, and narrower blocks: what else might be fastest.
ONE_SQUARE = Tile(16, 128, 32, 16, 4, stages=3, tk=4)
NARROW = Tile(16, 64, 64, 16, 4, stages=3, tk=4)
SHAPES = [(1, 4096, 4096), (8, 4096, 4096), (16, 4096, 14336), (16, 14336, 4096), (4096, 1, 4096), (14336, 8, 4096)]
#: A tile for each shape, and other tiles for some.
TILES = [
    *(("gemv" if min(shape[:2]) == 1 else "default", shape) for shape in SHAPES),
    ("default", (1, 4096, 4096)),
    *((tile, shape) for tile in ("one square", "narrow") for shape in ((8, 4096, 4096), (16, 4096, 14336))),
]
BY_NAME = {"default": DEFAULT_TILE, "one square": ONE_SQUARE, "narrow": NARROW, "gemv": GEMV_TILE}
#: 24 is between a whole group of rows and the ridge.
GROWTH = [1, 2, 4, 8, 16, 24, 32, 64, 128]
_COPIED_BYTES, _COPIES = 2**30, 20

LAYOUTS = pytest.mark.parametrize("stored_by_outputs", [False, True], ids=["KxN", "NxK"])


def named(shape: tuple[int, int, int]) -> str:
    return "x".join(map(str, shape))


@cache
def copy_bandwidth() -> float:
    """Bytes read and written in a second by a copy of 1 GiB from device to device, the median of several."""
    source, target = (cuda.device_array(_COPIED_BYTES, np.uint8) for _ in range(2))
    cuda.synchronize()
    pointers = [array.__cuda_array_interface__["data"][0] for array in (target, source)]

    def copy() -> None:
        cuda_api.checked("cuMemcpyDtoDAsync", cu.cuMemcpyDtoDAsync(*pointers, _COPIED_BYTES, 0))

    timer = GpuTimer()
    copy()
    return 2 * _COPIED_BYTES / statistics.median(timer.time(copy) for _ in range(_COPIES))


@cache
def peak() -> float:
    return ffma_limit(GpuTimer())


class Weights(Target):
    """A target whose larger input is also there transposed."""

    def __init__(self, problem: KnownProduct, transposed: bool) -> None:
        super().__init__(problem)
        m, n, _ = problem.shape
        self.trans_a, self.trans_b = transposed and n < m, transposed and m <= n
        a, b, self._c, _ = self.operands
        self._a = _transposed(problem.a) if self.trans_a else a
        self._b = _transposed(problem.b) if self.trans_b else b

    def prepare(self, version: ladder.Version, tile: Tile) -> Prepared:
        """A product of the weights as they are stored."""
        operands = Operands(self._a, self._b, self._c)
        return Prepared(version, tile, operands, trans_a=self.trans_a, trans_b=self.trans_b)


def _transposed(array: Any) -> Operand:
    return as_operand(cuda.to_device(np.ascontiguousarray(array.copy_to_host().T)), "operand", 0)


def against_cublas(
    measurement: Measurement, version: ladder.Version, tile: Tile, problem: KnownProduct, transposed: bool
) -> None:
    weights = Weights(problem, transposed)
    candidate = weights.prepare(version, tile)
    measurement.against_cublas(
        candidate,
        weights,
        str(version),
        version=version.name,
        weights="by outputs" if transposed else "by k",
        tile=str(tile),
        grid=list(candidate.config.grid),
    )
    m, n, k = problem.shape
    seconds = measurement.benchmark.stats.stats.median
    bandwidth = (m * k + k * n + m * n) * 4 / seconds
    measurement.benchmark.extra_info.update(
        bandwidth=bandwidth,
        copy_bandwidth=copy_bandwidth(),
        of_copy=bandwidth / copy_bandwidth(),
        predicted_seconds=gemv.bound_seconds(min(m, n), max(m, n), k, copy_bandwidth(), peak()),
        # The rows from which arithmetic is the bound, by what is measured here.
        ridge_rows=gemv.ridge_batch(peak() / copy_bandwidth(), max(m, n), k),
    )


@pytest.mark.parametrize(("tile", "shape"), [pytest.param(*each, id=f"{each[0]}-{named(each[1])}") for each in TILES])
@LAYOUTS
@pytest.mark.benchmark(group="few rows", timer=clock)
def test_few_rows(measurement: Measurement, problem: KnownProduct, stored_by_outputs: bool, tile: str) -> None:
    against_cublas(measurement, SKINNY, BY_NAME[tile], problem, stored_by_outputs)


@pytest.mark.parametrize("m", GROWTH)
@LAYOUTS
@pytest.mark.benchmark(group="batch growth", timer=clock)
def test_growth(measurement: Measurement, m: int, stored_by_outputs: bool) -> None:
    """The kernel for few rows in groups of 16: flat up to there, in steps beyond."""
    tile = GEMV_TILE if m == 1 else DEFAULT_TILE
    against_cublas(measurement, SKINNY, tile, shared_problem(m, 4096, 4096), stored_by_outputs)


@pytest.mark.parametrize("m", GROWTH)
@LAYOUTS
@pytest.mark.benchmark(group="batch growth, auto", timer=clock)
def test_growth_of_auto(measurement: Measurement, m: int, stored_by_outputs: bool) -> None:
    planned = plan(m, 4096, 4096, trans_b=stored_by_outputs)
    version = ladder.find(planned.version)
    against_cublas(measurement, version, planned.tile, shared_problem(m, 4096, 4096), stored_by_outputs)
