"""The built-in activations by themselves: how exact they are, over all of float32.

In the simulator, where exp and the reciprocal are NumPy's; a GPU's are off by up to an ulp, and so they are here.
tests/calls/test_epilogue.py has the same functions in kernels.
"""

import math

import numpy as np
import pytest

from numba_gemm.device import activation

pytestmark = pytest.mark.simulator

ULP = 2.0**-23  # of a number just above a power of two: as a relative error, the largest that an ulp can be
LEAST = 2.0**-149

EXACT = {
    "gelu": lambda x: 0.5 * x * math.erfc(-x * math.sqrt(0.5)),
    "gelu_tanh": lambda x: x / (1 + math.exp(min(-twice_u(x), 700))),
    "silu": lambda x: x / (1 + math.exp(min(-x, 700))),
}


def twice_u(x):
    return 2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)


def grid():
    """32 numbers of each exponent, and steps through where the functions bend, up to where they are 0."""
    exponents = np.ldexp(1 + np.arange(32) / 32, np.arange(-149, 128)[:, None]).ravel()
    steps = [np.linspace(0, 16, 8001), np.linspace(16, 110, 2000)]
    positive = np.unique(np.concatenate([exponents, *steps]).astype(np.float32))
    return np.concatenate([positive, -positive])


def off(function, ulps):
    """A function that is so many ulp too large."""
    return lambda x: np.float32(np.float64(function(x)) * (1 + ulps * ULP))


@pytest.mark.parametrize(("exp", "reciprocal"), [(0, 0), (1, 1), (-1, -1), (1, -1), (-1, 1)])
@pytest.mark.parametrize("name", EXACT)
def test_relative_errors(name, exp, reciprocal, monkeypatch):
    monkeypatch.setattr(activation, "exp", off(activation.exp, exp))
    monkeypatch.setattr(activation, "reciprocal", off(activation.reciprocal, reciprocal))
    function = activation.ACTIVATIONS[name]
    x = grid()
    found = np.array([function(value) for value in x], np.float64)
    exact = np.array([EXACT[name](float(value)) for value in x])
    # A factor that is subnormal, as exp is for large |x|, has lost digits; x multiplies what it lacks.
    far = np.clip(np.abs(x), 1, 128).astype(np.float64)
    relative = 5 * ULP
    if name == "gelu_tanh":  # the argument of exp is rounded three times
        relative = relative + 1.5 * ULP * np.abs([twice_u(float(value)) for value in np.clip(x, -16, 16)])
    error = np.abs(found - exact) / (relative * np.abs(exact) + 1.5 * far * LEAST)
    worst = np.argmax(error)
    print(f"{name}: {error[worst]:.2f} of what is allowed, at {x[worst]!r}")
    assert error[worst] <= 1, f"{name}({x[worst]!r}) = {found[worst]!r}, not {exact[worst]!r}: {error[worst]}"


@pytest.mark.parametrize("name", activation.ACTIVATIONS)
def test_zeros_infinities_and_nan(name):
    function = activation.ACTIVATIONS[name]
    for zero in (np.float32(0), np.float32(-0.0)):
        found = function(zero)
        assert found == 0
        assert np.signbit(found) == np.signbit(zero)
    assert function(np.float32(math.inf)) == math.inf
    assert function(np.float32(-math.inf)) == 0
    assert np.isnan(function(np.float32(math.nan)))


@pytest.mark.parametrize("name", activation.ACTIVATIONS)
def test_results_are_float32(name):
    assert isinstance(activation.ACTIVATIONS[name](np.float32(-1.5)), np.float32)
