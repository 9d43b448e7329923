"""A random problem with its exact product, and what holding a version against it gave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import cuda

from numba_gemm.accuracy import Reference
from numba_gemm.ladder import Version
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
class Problem:
    """Random operands on the host and on the device, with their exact product. Made once, used often."""

    a: Any
    b: Any
    reference: Reference

    @classmethod
    def random(cls, m: int, n: int, k: int, seed: int = 0) -> Problem:
        """Standard normal operands."""
        rng = np.random.default_rng(seed)
        a = rng.standard_normal((m, k), dtype=np.float32)
        b = rng.standard_normal((k, n), dtype=np.float32)
        return cls(cuda.to_device(a), cuda.to_device(b), Reference(a, b))

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.a.shape[0], self.b.shape[1], self.a.shape[1]
