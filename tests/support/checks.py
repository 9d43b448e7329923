"""What a right product is. test_accuracy.py proves that each check fails for the mistakes it is there for."""

import numpy as np

from numba_gemm.accuracy import Reference


def assert_exact(c, a, b):
    """For integers whose sums stay below 2²⁴, where float32 arithmetic makes no error in any order."""
    assert np.max(np.abs(a.astype(np.int64)) @ np.abs(b.astype(np.int64)), initial=0) < 2**24, "the data are unfit"
    assert_same(c, a.astype(np.int64) @ b.astype(np.int64))


def assert_same(c, expected):
    """All elements equal, and none of them NaN."""
    assert c.shape == expected.shape, f"shape {c.shape}, not {expected.shape}"
    _assert_none(c != expected, c, expected)


def assert_close(c, a, b):
    """For any data: within the bounds of `Reference`, each element."""
    reference = Reference(a, b)
    assert c.shape == reference.product.shape, f"shape {c.shape}, not {reference.product.shape}"
    error = reference.error(c)
    assert error <= 1, f"an element of the {c.shape} product is {error:.3g} times its error bound off"


def _assert_none(wrong, c, expected):
    if wrong.any():
        first = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise AssertionError(
            f"{int(wrong.sum())} of {wrong.size} elements are wrong, first C{first} = {c[first]!r}, "
            f"which should be {expected[first]!r}"
        )


def small_integers(rng, rows, columns):
    """±1 … ±8, never 0, so that no term of a sum can be dropped unseen."""
    return (rng.integers(1, 9, (rows, columns)) * rng.choice([-1, 1], (rows, columns))).astype(np.float32)


def wide_integers(rng, rows, columns):
    """Odd numbers between 2¹¹ and 2¹²: 12 significant bits, one more than TF32 has."""
    magnitudes = 2 * rng.integers(2**10, 2**11, (rows, columns)) + 1
    return (magnitudes * rng.choice([-1, 1], (rows, columns))).astype(np.float32)


def units(rng, rows, columns):
    """−1, 0 or 1; the edges are not 0, since that is where terms get lost."""
    values = rng.integers(-1, 2, (rows, columns))
    for edge in (values[:1], values[-1:], values[:, :1], values[:, -1:]):
        edge[edge == 0] = 1
    return values.astype(np.float32)


def normals(rng, rows, columns):
    return rng.standard_normal((rows, columns), np.float32)


def wide_range(rng, rows, columns):
    """Normal numbers times powers of two from 2⁻²⁰ to 2²⁰: neighbours differ by up to twelve decimals."""
    return (normals(rng, rows, columns) * 2.0 ** rng.integers(-20, 21, (rows, columns))).astype(np.float32)
