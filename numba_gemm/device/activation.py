"""Activations, of float32, in straight-line code: no branch, no call, so that those of several outputs overlap.

A thread has up to 128 outputs and little company on its multiprocessor: what hides the latency of one activation is
the next one. All but relu are x · S(x) with an S that rises from 0 to 1 and S(x) = 1 − S(−x), and are computed as

    x · S(x) = relu(x) − |x| · S(−|x|)

where the tail S(−|x|), at most ½, is the only thing to be approximated, with nothing to overflow and nothing to cancel.
±∞ gives ∞ and 0, by a bound on |x| beyond which the tail is 0 in float32; NaN passes through relu.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import float32

from numba_gemm.compiler.target import device_function
from numba_gemm.device.arithmetic import exp, fused, reciprocal

_ONE, _MINUS_HALF = np.float32(1), np.float32(-0.5)

#: From here on the tail is 0, and products with it exact.
_FAR_GELU, _FAR_SILU = np.float32(15), np.float32(128)

#: −u = |x| (linear + cubic · x²) of gelu_tanh.
_LINEAR = np.float32(-2 * math.sqrt(2 / math.pi))
_CUBIC = np.float32(-2 * math.sqrt(2 / math.pi) * 0.044715)

#: a · Φ(−a) = exp(−a²/2) · y (C0 + C1 y + … + C8 y⁸), y = a/(a + 2.875), within 2⁻²⁵ of its value for a = 0 … 15: the
#: minimax polynomial, by scripts/fit_normal_tail.py.
_SHIFT = np.float32(2.875)
_C0, _C1, _C2 = np.float32(1.4374999626), np.float32(-1.8599998802), np.float32(0.78315697394)
_C3, _C4, _C5 = np.float32(0.28561574916), np.float32(-0.1929940073), np.float32(-0.053654727578)
_C6, _C7, _C8 = np.float32(-0.16522627951), np.float32(0.24743743469), np.float32(-0.082925465392)


@device_function
def relu(x):
    """max(x, 0); NaN stays NaN."""
    return float32(0) if x < float32(0) else x


@device_function
def gelu(x):
    """The Gaussian error linear unit x · Φ(x), Φ the distribution function of the normal distribution."""
    a = min(abs(x), _FAR_GELU)
    y = a * reciprocal(a + _SHIFT)
    rest = y * (_C0 + y * (_C1 + y * (_C2 + y * (_C3 + y * (_C4 + y * (_C5 + y * (_C6 + y * (_C7 + y * _C8))))))))
    return relu(x) - _normal_density(a) * rest


@device_function
def gelu_tanh(x):
    """The tanh approximation of gelu, ½x (1 + tanh(u/2)) = x / (1 + exp(−u))."""
    a = min(abs(x), _FAR_GELU)
    return relu(x) - a * _logistic_tail(a * (_LINEAR + _CUBIC * (a * a)))


@device_function
def silu(x):
    """The sigmoid linear unit x / (1 + exp(−x))."""
    a = min(abs(x), _FAR_SILU)
    return relu(x) - a * _logistic_tail(-a)


@device_function
def _logistic_tail(x):
    """exp(x) / (1 + exp(x)) for x ≤ 0: the divisor is 1 … 2, where its approximate reciprocal is good."""
    z = exp(x)
    return z * reciprocal(_ONE + z)


@device_function
def _normal_density(a):
    """exp(−a²/2) for a = 0 … 15.

    An absolute error in the argument of exp is a relative one in its value, and half of the last digit of a²/2 is up
    to 2⁻¹⁸. So what rounding took from it is put back: exp(s + e) = exp(s) (1 + e) for an e as small as that.
    """
    half = _MINUS_HALF * a
    square = half * a
    lost = fused(half, a, -square)
    z = exp(square)
    return z + z * lost


ACTIVATIONS: dict[str, Callable[[Any], Any]] = {"relu": relu, "gelu": gelu, "gelu_tanh": gelu_tanh, "silu": silu}
#: Names of the activations that take more than a few instructions.
LONG = frozenset({"gelu", "gelu_tanh", "silu"})
