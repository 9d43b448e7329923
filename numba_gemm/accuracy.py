"""How far a correct float32 product may be from the exact one, and a reference to measure it by.

For C = A·B with K terms an element, accumulated in float32 with one rounding a term (FMA):

- rigorous (Higham, Accuracy and Stability of Numerical Algorithms, §3.1): |error| ≤ K·u·(|A|·|B|), with
  u = 2⁻²⁴. Nothing correct can break it, but at K = 4096 it is so wide that a dropped term or a TF32
  product hides in it.
- statistical, for operands of mean zero: the running sum is a random walk that reaches S, S² = Σ aₖ²bₖ²,
  and each of its K roundings errs independently, with a standard deviation of 0.21·eps of the sum so far
  (eps/√12 of the power of two below it). So the error of an element is 0.21·eps·√K·S · z·√x, with z
  standard normal and x the walk's mean square, P(x > t) ≈ exp(−π²t/8). Both have tails; the largest
  product among N elements has z² = L, x = 4L/π², L = ln N, which makes 0.134·L·eps·√K·S: 2.2 for 4096²
  elements (2.06 was measured on an H200) and 2.9 for 2³¹. STATISTICAL_FACTOR = 4 is passed by
  chance once in 10¹³ elements. Other orders of summation are only better.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

EPS = float(np.finfo(np.float32).eps)  # 2⁻²³, twice the unit roundoff u
#: See above. The tests prove that a dropped k and TF32 fail it.
STATISTICAL_FACTOR = 4.0
#: A product may underflow; each such term is wrong by at most one subnormal step.
_SUBNORMAL = float(np.finfo(np.float32).smallest_subnormal)

Matrix = NDArray[np.float32]


class Reference:
    """The exact product of two float32 matrices (in float64), and the error bounds of each element."""

    def __init__(self, a: Matrix, b: Matrix) -> None:
        self._a, self._b = a.astype(np.float64), b.astype(np.float64)
        self._k = a.shape[1]
        #: Computed in float64 by NumPy: K·2⁻⁵³ relative, far below what it judges.
        self.product: NDArray[np.float64] = self._a @ self._b

    @cached_property
    def statistical(self) -> NDArray[np.float64]:
        """STATISTICAL_FACTOR · eps · √K · S, and the underflow floor."""
        size = np.sqrt(np.square(self._a) @ np.square(self._b))
        return STATISTICAL_FACTOR * EPS * np.sqrt(self._k) * size + self._floor

    @cached_property
    def rigorous(self) -> NDArray[np.float64]:
        """K · u · (|A|·|B|), and the underflow floor."""
        return self._k * EPS / 2 * (np.abs(self._a) @ np.abs(self._b)) + self._floor

    @property
    def _floor(self) -> float:
        return (self._k + 1) * _SUBNORMAL

    @cached_property
    def bound(self) -> NDArray[np.float64]:
        """The smaller of the two bounds. |A|·|B| ≥ S, so from √K = 2·STATISTICAL_FACTOR on it is the statistical."""
        if self._k >= (2 * STATISTICAL_FACTOR) ** 2:
            return self.statistical
        return np.minimum(self.statistical, self.rigorous)

    def prepare(self) -> None:
        """Compute the bounds now rather than at the first `error`."""
        _ = self.bound

    def error(self, c: Matrix) -> float:
        """Largest error of `c`, in units of its bound: correct is at most 1.

        NaN anywhere gives NaN, which is not at most 1 either.
        """
        if c.size == 0:
            return 0.0
        return float(np.max(np.abs(c.astype(np.float64) - self.product) / self.bound))
