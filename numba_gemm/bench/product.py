"""`Product`: one C = A·B on the device that candidates run on, and whether what they wrote is right.

Verification is by `tuning.trial.Judge`: sampled rows and columns against NumPy's float64 product, all of C against the
first result that passed, which is cuBLAS's where there is one. A whole float64 product of 8192³ would take NumPy longer
than all measurements of the suite together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from numba_gemm.analysis.models.roofline import flops, minimum_bytes
from numba_gemm.bench.suite import Shape
from numba_gemm.bench.trial import Judge
from numba_gemm.driver.operands import as_operand
from numba_gemm.driver.timing import Launch


class Product:
    """Fresh standard normal operands, row-major and contiguous, and a C."""

    def __init__(self, shape: Shape, seed: int = 0) -> None:
        m, n, k = self.shape = shape
        rng = np.random.default_rng(seed)
        a = rng.standard_normal((m, k), dtype=np.float32)
        b = rng.standard_normal((k, n), dtype=np.float32)
        self._judge = Judge(a[np.newaxis], b[np.newaxis], rng)
        #: On the device, as Numba's arrays.
        self.arrays: tuple[Any, Any, Any] = cuda.to_device(a), cuda.to_device(b), cuda.device_array((m, n), np.float32)
        self._nans = cuda.to_device(np.full((m, n), np.nan, np.float32))
        self.a, self.b, self.c = (as_operand(array, name, 0) for array, name in zip(self.arrays, "abc", strict=True))

    @property
    def flops(self) -> int:
        return flops(*self.shape)

    @property
    def least_bytes(self) -> int:
        """What has to be moved at least: A and B read once, C written once."""
        return minimum_bytes(*self.shape)

    def error(self, launch: Launch) -> float:
        """Run it once on a C full of NaN: the largest error in units of the bound; right is at most 1.

        What is not written stays NaN, and gives NaN, which is not at most 1.
        """
        array = self.arrays[2]
        array.copy_to_device(self._nans)
        launch()
        return self._judge.error(array.copy_to_host()[np.newaxis])
