"""`compare`: a version against NumPy in float64, and on a GPU against cuBLAS in the same run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import cuda

from numba_gemm.accuracy import Reference
from numba_gemm.compiler.target import SIMULATOR
from numba_gemm.driver.operands import as_operand
from numba_gemm.driver.product import Operands, in_layout, prepare_product
from numba_gemm.ladder import Version, find
from numba_gemm.tile import Tile


@dataclass(frozen=True)
class Comparison:
    """One version against the float64 product, and on a GPU against cuBLAS in the same run."""

    version: Version
    tile: Tile
    shape: tuple[int, int, int]
    #: Largest error in units of its bound (`numba_gemm.accuracy`); correct is at most 1.
    error: float
    #: Median GPU times with a cold L2; None in the simulator.
    seconds: float | None = None
    cublas_seconds: float | None = None
    registers: int | None = None
    local_bytes: int | None = None

    @property
    def correct(self) -> bool:
        return self.error <= 1

    @property
    def flops(self) -> int:
        m, n, k = self.shape
        return 2 * m * n * k

    @property
    def tflops(self) -> float | None:
        return None if self.seconds is None else self.flops / self.seconds / 1e12

    @property
    def speed_vs_cublas(self) -> float | None:
        """How many times as fast as cuBLAS."""
        if self.seconds is None or self.cublas_seconds is None:
            return None
        return self.cublas_seconds / self.seconds


@dataclass(frozen=True)
class KnownProduct:
    """Random operands on the device, with their exact product. Made once, used often."""

    a: Any
    b: Any
    reference: Reference

    @classmethod
    def random(cls, m: int, n: int, k: int, seed: int = 0) -> KnownProduct:
        """Standard normal operands."""
        rng = np.random.default_rng(seed)
        a = rng.standard_normal((m, k), dtype=np.float32)
        b = rng.standard_normal((k, n), dtype=np.float32)
        return cls(cuda.to_device(a), cuda.to_device(b), Reference(a, b))

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.a.shape[0], self.b.shape[1], self.a.shape[1]


def compare(
    version: int | str,
    m: int,
    n: int,
    k: int,
    *,
    tile: Tile | None = None,
    problem: KnownProduct | None = None,
    rounds: int = 20,
) -> Comparison:
    """Run a version on `numba.cuda` arrays and hold it against NumPy in float64 and against cuBLAS.

    C is full of NaN before the run. Times are medians over `rounds` rounds that run the version and cuBLAS in turn;
    a shape that is not whole tiles is timed with its padding.

    Args:
        version: a number or name of `VERSIONS`.
        m, n, k: C[m, n] = A[m, k] · B[k, n].
        tile: instead of the version's default.
        problem: operands to use again for several versions.
        rounds: how often each is timed.

    Raises:
        CublasError: on a GPU, if there is no cuBLAS.
    """
    chosen = find(version)
    used_tile = tile or chosen.default_tile
    chosen.check(used_tile)
    problem = problem or KnownProduct.random(m, n, k)
    if problem.shape != (m, n, k):
        raise ValueError(f"the problem has m, n, k = {problem.shape}, not {(m, n, k)}")
    c = cuda.to_device(np.full((m, n), np.nan, np.float32))
    operands = Operands(as_operand(problem.a, "a", 0), as_operand(problem.b, "b", 0), as_operand(c, "c", 0))
    product = prepare_product(chosen, used_tile, operands)
    product.launch(operands, 1.0, 0.0, 0)
    error = problem.reference.error(c.copy_to_host())
    if SIMULATOR:
        return Comparison(chosen, used_tile, (m, n, k), error)

    from numba_gemm.driver.cublas import Cublas  # measuring needs the GPU that it measures
    from numba_gemm.driver.timing import GpuTimer

    cublas = Cublas()
    run = product
    if used_tile.padded(m, n, k) == (m, n, k) or not chosen.needs_whole_tiles:
        operands = operands._replace(a=in_layout(chosen, operands.a))
        run = prepare_product(chosen, used_tile, operands)
    candidates: dict[str, Callable[[], object]] = {
        "version": run.bound(operands),
        "cuBLAS": lambda: cublas.sgemm(*operands[:3]),
    }
    times = GpuTimer().compare(candidates, rounds=rounds)
    loaded = run.main.loaded if run.main else None
    return Comparison(
        chosen,
        used_tile,
        (m, n, k),
        error,
        seconds=times["version"].median,
        cublas_seconds=times["cuBLAS"].median,
        registers=loaded.registers if loaded else None,
        local_bytes=loaded.local_bytes if loaded else None,
    )
