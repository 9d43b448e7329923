"""How far a correct float32 product may be from the exact one, and a reference to measure it by.

For C = A·B with K terms an element, accumulated in float32 with one rounding a term (FMA):

- rigorous (Higham, Accuracy and Stability of Numerical Algorithms, §3.1): |error| ≤ K·u·(|A|·|B|), with
  u = 2⁻²⁴. Nothing correct can break it, but at K = 4096 it is so wide that a dropped term or a TF32
  product hides in it.
- statistical: roundings are independent and the running sum is a random walk. After k of K terms it has
  size √(k/K)·S, S² = Σ aₖ²bₖ²; each step rounds with a standard deviation of about u/√3 of that; the sum of
  the variances is u²·K·S²/6. So errors have a standard deviation of about 0.4·u·√K·S = 0.2·eps·√K·S,
  and the largest of 10⁷ elements, at 5.3 deviations on a walk that itself wanders, stays within
  STATISTICAL_FACTOR · eps · √K · S. Other orders of summation are only better.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

EPS = float(np.finfo(np.float32).eps)  # 2⁻²³, twice the unit roundoff u
#: 10 standard deviations by the estimate above. The tests prove that a dropped k and TF32 fail it.
STATISTICAL_FACTOR = 2.0
#: A product may underflow; each such term is wrong by at most one subnormal step.
_SUBNORMAL = float(np.finfo(np.float32).smallest_subnormal)

Matrix = NDArray[np.float32]


@dataclass(frozen=True)
class Reference:
    """The exact product (in float64) and the two error bounds, element by element."""

    product: NDArray[np.float64]
    statistical: NDArray[np.float64]
    rigorous: NDArray[np.float64]

    @classmethod
    def of(cls, a: Matrix, b: Matrix) -> Reference:
        """Computed in float64 by NumPy: K·2⁻⁵³ relative, far below what it judges."""
        a64, b64 = a.astype(np.float64), b.astype(np.float64)
        k = a.shape[1]
        floor = (k + 1) * _SUBNORMAL
        size = np.sqrt((a64 * a64) @ (b64 * b64))
        return cls(
            product=a64 @ b64,
            statistical=STATISTICAL_FACTOR * EPS * np.sqrt(k) * size + floor,
            rigorous=k * EPS / 2 * (np.abs(a64) @ np.abs(b64)) + floor,
        )

    def error(self, c: Matrix) -> float:
        """Largest error of `c`, in units of the smaller bound of each element: correct is at most 1.

        NaN anywhere gives NaN, which is not at most 1 either.
        """
        if c.size == 0:
            return 0.0
        bound = np.minimum(self.statistical, self.rigorous)
        return float(np.max(np.abs(c.astype(np.float64) - self.product) / bound))
