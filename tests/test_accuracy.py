"""The checks themselves: each has to fail for the mistakes that it is there to find, and pass a right product.

The products here are NumPy's, wrong on purpose; no kernel runs.
"""

import numpy as np
import pytest
from support.checks import assert_close, assert_exact, normals, small_integers, units, wide_integers, wide_range

from numba_gemm.accuracy import Reference


def float32_product(a, b):
    """One accumulator, k in order, a rounding after each product and each sum: what the simulator computes."""
    c = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        c += a[:, k : k + 1] * b[k]
    return c


def fma_product(a, b):
    """The same with one rounding a step: a float64 holds a product of float32 exactly."""
    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    c = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        c = (c + a64[:, k : k + 1] * b64[k]).astype(np.float32)
    return c


def tf32(x):
    """Rounded to nearest even at 10 mantissa bits, as tensor cores read float32."""
    as_bits = x.view(np.uint32).astype(np.uint64)
    rounded = as_bits + 0xFFF + ((as_bits >> 13) & 1) & ~np.uint64(0x1FFF)
    return rounded.astype(np.uint32).view(np.float32)


# Mistakes: from operands to a wrong product.


def dropped_last_k(a, b):
    return float32_product(a[:, :-1], b[:-1])


def dropped_first_k(a, b):
    return float32_product(a[:, 1:], b[1:])


def tf32_product(a, b):
    return float32_product(tf32(a), tf32(b))


def tf32_a(a, b):
    return float32_product(tf32(a), b)


def tf32_b(a, b):
    return float32_product(a, tf32(b))


def swapped_operands(a, b):
    return float32_product(b, a)


def transposed(a, b):
    return np.ascontiguousarray(float32_product(a, b).T)


def stale_tile(a, b, bk=4):
    """The last tile of A is still the one before."""
    old = a.copy()
    old[:, -bk:] = a[:, -2 * bk : -bk]
    return float32_product(old, b)


def one_wrong_element(a, b):
    """The last one is its neighbour's."""
    c = float32_product(a, b)
    c[-1, -1] = c[-1, -2]
    return c


def one_nan(a, b):
    c = float32_product(a, b)
    c[c.shape[0] // 2, 0] = np.nan
    return c


def one_infinity(a, b):
    c = float32_product(a, b)
    c[0, -1] = np.inf
    return c


GENERAL_MISTAKES = [
    dropped_last_k,
    dropped_first_k,
    swapped_operands,
    transposed,
    stale_tile,
    one_wrong_element,
    one_nan,
    one_infinity,
]
SIDE = 24

#: What each exact check is run on, and what it is there to find.
EXACT_CASES = [
    *[(small_integers, small_integers, mistake) for mistake in GENERAL_MISTAKES],
    *[(wide_integers, units, mistake) for mistake in (*GENERAL_MISTAKES, tf32_product, tf32_a)],
    *[(units, wide_integers, mistake) for mistake in (*GENERAL_MISTAKES, tf32_product, tf32_b)],
]


@pytest.mark.parametrize(("make_a", "make_b", "mistake"), EXACT_CASES)
@pytest.mark.parametrize("k", [8, 24, 200])
def test_the_exact_check_finds(make_a, make_b, mistake, k, rng):
    k = SIDE if mistake is swapped_operands else k  # B·A has to exist
    a, b = make_a(rng, SIDE, k), make_b(rng, k, SIDE)
    assert_exact(float32_product(a, b), a, b)
    with pytest.raises(AssertionError):
        assert_exact(mistake(a, b), a, b)


@pytest.mark.parametrize("mistake", [*GENERAL_MISTAKES, tf32_product, tf32_a, tf32_b])
@pytest.mark.parametrize("data", [normals, wide_range])
@pytest.mark.parametrize("k", [8, 24, 4096])
def test_the_bounds_find(data, mistake, k, rng):
    k = SIDE if mistake is swapped_operands else k  # B·A has to exist
    a, b = data(rng, SIDE, k), data(rng, k, SIDE)
    assert_close(float32_product(a, b), a, b)
    with pytest.raises(AssertionError):
        assert_close(mistake(a, b), a, b)


def rigorous_error(c, reference):
    return float(np.max(np.abs(c.astype(np.float64) - reference.product) / reference.rigorous))


def test_the_rigorous_bound_alone_misses_a_dropped_term(rng):
    # Terms of ±1: at K = 4096 the rigorous bound is K · 2⁻²⁴ · K = 1, just the term that is missing.
    k = 4096
    a, b = rng.choice([-1, 1], (SIDE, k)).astype(np.float32), rng.choice([-1, 1], (k, SIDE)).astype(np.float32)
    reference, wrong = Reference(a, b), dropped_last_k(a, b)
    assert np.all(np.abs(wrong - reference.product) == 1)
    assert rigorous_error(wrong, reference) <= 1
    assert reference.error(wrong) > 100


def test_the_rigorous_bound_alone_misses_tf32(rng):
    # It allows for roundings that all go one way; TF32's go both ways, and so do float32's.
    a, b = normals(rng, SIDE, 4096), normals(rng, 4096, SIDE)
    reference, wrong = Reference(a, b), tf32_product(a, b)
    assert rigorous_error(wrong, reference) <= 1
    assert reference.error(wrong) > 10


@pytest.mark.parametrize("product", [float32_product, fma_product, np.matmul])
@pytest.mark.parametrize("data", [normals, wide_range])
@pytest.mark.parametrize("k", [1, 2, 7, 64, 1024, 4096])
def test_correct_products_pass(product, data, k, rng, record_property):
    a, b = data(rng, 64, k), data(rng, k, 64)
    error = Reference(a, b).error(product(a, b))
    record_property("error", error)
    assert error <= 1


@pytest.mark.parametrize("k", [1, 2, 7, 64, 1024, 4096])
def test_the_bound_is_not_wide(k, rng):
    # Correct products use 0.3 to 0.4 of it at large K, all of it at K = 1: much wider, and it would miss mistakes.
    a, b = normals(rng, 64, k), normals(rng, k, 64)
    assert Reference(a, b).error(float32_product(a, b)) > 0.1


def test_the_bound_is_for_terms_around_zero(rng):
    # Sums of positive terms grow like K and not like √K: a right product can be outside. Tests use signed data.
    a, b = rng.random((SIDE, 4096), np.float32), rng.random((4096, SIDE), np.float32)
    reference, product = Reference(a, b), fma_product(a, b)
    assert rigorous_error(product, reference) <= 1
    assert reference.error(product) > 1


def test_underflowing_terms_are_allowed_for():
    # 2⁻⁷⁵ · 2⁻⁷⁵ = 2⁻¹⁵⁰ rounds to zero, each term; both other bounds are far below the float32 step.
    a, b = np.full((1, 8), 2.0**-75, np.float32), np.full((8, 1), 2.0**-75, np.float32)
    assert Reference(a, b).error(np.zeros((1, 1), np.float32)) <= 1
    assert Reference(a, b).error(np.full((1, 1), 2.0**-144, np.float32)) > 1


def test_an_empty_sum_is_zero():
    reference = Reference(np.empty((2, 0), np.float32), np.empty((0, 3), np.float32))
    assert reference.error(np.zeros((2, 3), np.float32)) == 0
    assert reference.error(np.ones((2, 3), np.float32)) > 1
    assert np.isnan(reference.error(np.full((2, 3), np.nan, np.float32)))


def test_an_empty_product_has_no_error():
    reference = Reference(np.empty((0, 2), np.float32), np.empty((2, 3), np.float32))
    assert reference.error(np.empty((0, 3), np.float32)) == 0


def test_data_that_float32_cannot_sum_exactly_are_refused():
    a, b = np.full((1, 4098), 4095, np.float32), np.ones((4098, 1), np.float32)
    with pytest.raises(AssertionError, match="unfit"):
        assert_exact(a @ b, a, b)


def test_a_wrong_shape_is_refused(rng):
    a, b = small_integers(rng, 4, 3), small_integers(rng, 3, 1)
    for check in (assert_exact, assert_close):
        with pytest.raises(AssertionError, match=r"shape \(4,\), not \(4, 1\)"):
            check((a @ b)[:, 0], a, b)


@pytest.mark.parametrize(("exact", "rounded"), [(2049, 2048), (2051, 2052), (4095, 4096), (-2049, -2048), (2048, 2048)])
def test_tf32_is_what_it_says(exact, rounded):
    assert tf32(np.array([exact], np.float32))[0] == rounded


def test_no_wide_integer_fits_tf32(rng):
    values = wide_integers(rng, 100, 100)
    assert np.all(tf32(values) != values)
    assert np.all(values == np.round(values))
