"""C = activation(alpha · A·B + beta · C + bias): what is read, in which order things happen, and how exactly."""

import math

import numpy as np
import pytest
from numba import cuda
from support.cases import GENERAL_TILES, ragged_shape, whole_shape
from support.checks import assert_same, units, wide_integers
from support.guarded import POISON, Guarded
from support.products import Placement, Product, column_major, every

from numba_gemm import sgemm
from numba_gemm.compiler.target import SIMULATOR

pytestmark = [
    pytest.mark.device,
    # The simulator computes with NumPy, which warns where the GPU makes ∞ and NaN; that it does is tested here.
    pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning"),
]

GENERAL = pytest.mark.parametrize(("version", "tile"), GENERAL_TILES)
BY_COLUMNS = pytest.mark.parametrize("by_columns", ["", "c", "abc"], ids=lambda names: f"by columns {names or 'none'}")
NAN, INF = math.nan, math.inf


def product_of(shape, **options):
    return Product(shape.m, shape.n, shape.k, **options)


def plus_position(x, row, col):
    return 2 * x - 3 * row + 5 * col


# Scaling and adding -------------------------------------------------------------------------------------


@GENERAL
@BY_COLUMNS
def test_all_together(version, tile, by_columns, rng):
    # relu(−3·A·B + ½·C + bias), then f: any other order gives other numbers.
    options = {"alpha": -3.0, "beta": 0.5, "bias": 1, "activation": "relu", "epilogue": plus_position}
    for shape in (whole_shape(tile), ragged_shape(tile)):
        column_major(product_of(shape, **options), by_columns).check(version, tile, rng)


@GENERAL
@pytest.mark.parametrize(
    ("alpha", "beta"), [(2.0, 0.0), (1.0, 1.0), (-1.0, 0.25), (0.0, -3.0), (0.0, 0.0), (0.5, -0.0)]
)
def test_alpha_and_beta(version, tile, alpha, beta, rng):
    for shape in (whole_shape(tile), ragged_shape(tile)):
        product_of(shape, alpha=alpha, beta=beta).check(version, tile, rng)


@GENERAL
@pytest.mark.parametrize("beta", [2.0, 0.0])
def test_c_is_read_as_it_is_written(version, tile, beta, rng):
    for placement in (Placement(shift=1), Placement(pitch=3), Placement(pitch=4), Placement(True, pitch=5, shift=2)):
        product_of(whole_shape(tile), beta=beta, c=placement).check(version, tile, rng)


@GENERAL
@BY_COLUMNS
@pytest.mark.parametrize("stride", [1, 3, 100])
def test_bias(version, tile, by_columns, stride, rng):
    for shape in (whole_shape(tile), ragged_shape(tile)):
        column_major(product_of(shape, bias=stride), by_columns).check(version, tile, rng)


@GENERAL
@BY_COLUMNS
def test_no_k_at_all(version, tile, by_columns, rng):
    for options in (
        {},
        {"beta": -2.0},
        {"bias": 2, "activation": "relu"},
        {"alpha": 0.5, "beta": 0.25, "bias": 1, "activation": "relu", "epilogue": plus_position},
    ):
        column_major(Product(tile.bm + 1, tile.bn - 1, 0, **options), by_columns).check(version, tile, rng)


def scaled(version, tile, a, b, c, **options):
    """The result for float32 operands as they are; C and its guards are looked after."""
    place = Guarded(c)
    sgemm(cuda.to_device(a), cuda.to_device(b), place.view, version=version.name, tile=tile, **options)
    place.assert_guards_intact("C")
    return place.values()


@GENERAL
@pytest.mark.parametrize("fill", [NAN, INF])
@pytest.mark.parametrize("k", [0, 9])
def test_alpha_0_reads_neither_a_nor_b(version, tile, fill, k, rng):
    m, n = tile.bm + 1, tile.bn
    a, b = np.full((m, k), fill, np.float32), np.full((k, n), fill, np.float32)
    c, bias = wide_integers(rng, m, n), wide_integers(rng, 1, n)[0]
    for alpha in (0.0, -0.0, 1e-60):  # the last one is 0 in float32
        found = scaled(version, tile, a, b, c, alpha=alpha, beta=2.0, bias=cuda.to_device(bias))
        assert_same(found, 2 * c + bias)


@GENERAL
@pytest.mark.parametrize("fill", [NAN, INF, POISON])
def test_beta_0_does_not_read_c(version, tile, fill, rng):
    a, b = wide_integers(rng, tile.bm + 1, 5), units(rng, 5, tile.bn)
    for beta in (0.0, -0.0, 1e-60):
        c = np.full((tile.bm + 1, tile.bn), fill, np.float32)
        assert_same(scaled(version, tile, a, b, c, alpha=2.0, beta=beta), 2 * (a @ b))


@GENERAL
@pytest.mark.parametrize("alpha", [2.0, NAN, INF, -INF])
@pytest.mark.parametrize("beta", [0.0, NAN, INF, -INF, np.float32(1e-45)])
def test_scalars_that_are_no_numbers(version, tile, alpha, beta):
    # Sums of products 1, −1, 0, and C of 1, −1, 0, in every combination.
    a, b = np.array([[1], [-1], [0]], np.float32), np.ones((1, 3), np.float32)
    c = np.repeat(np.array([[1, -1, 0]], np.float32), 3, axis=0)
    with np.errstate(invalid="ignore"):
        expected = np.float32(alpha) * (a @ b)
        if beta != 0:
            expected = expected + np.float32(beta) * c
    np.testing.assert_array_equal(scaled(version, tile, a, b, c, alpha=alpha, beta=beta), expected)


@GENERAL
def test_alpha_does_not_matter_without_k(version, tile, rng):
    # In turn, at one shape: an empty sum is 0, and ∞ times it as well.
    a, b, c = np.empty((3, 0), np.float32), np.empty((0, 5), np.float32), wide_integers(rng, 3, 5)
    for alpha in (1.0, INF, NAN, 2.0, 0.0, -INF):
        assert_same(scaled(version, tile, a, b, c, alpha=alpha, beta=2.0), 2 * c)


@GENERAL
def test_scalars_change_from_call_to_call(version, tile, rng):
    a, b, c = wide_integers(rng, 5, 6), units(rng, 6, 7), wide_integers(rng, 5, 7)
    for alpha, beta in [(1, 0), (2, 0), (2, 1), (0, 1), (0, 0), (1, 0), (-3, 2), (0, 2), (1, 1)]:
        assert_same(scaled(version, tile, a, b, c, alpha=alpha, beta=beta), alpha * (a @ b) + beta * c)


@GENERAL
def test_nan_in_c_and_bias_stays_where_it_is(version, tile):
    c, bias = np.ones((3, 5), np.float32), np.ones(5, np.float32)
    c[1, 2], bias[4] = NAN, NAN
    a, b = np.ones((3, 1), np.float32), np.ones((1, 5), np.float32)
    found = scaled(version, tile, a, b, c, beta=1.0, bias=cuda.to_device(bias), activation="relu")
    expected = np.full((3, 5), 3, np.float32)
    expected[1, 2] = expected[:, 4] = NAN
    np.testing.assert_array_equal(found, expected)


@GENERAL
def test_bias_is_not_written(version, tile, rng):
    vector = Guarded(wide_integers(rng, 1, 7)[0], every(2))
    sgemm(
        cuda.to_device(units(rng, 5, 3)),
        cuda.to_device(units(rng, 3, 7)),
        bias=vector.view,
        version=version.name,
        tile=tile,
    )
    vector.assert_untouched("bias")


# Activations -----------------------------------------------------------------------------------------------

SIGNED = {
    "relu": lambda x: max(x, 0.0),
    "gelu": lambda x: 0.5 * x * math.erfc(-x * math.sqrt(0.5)),
    "gelu_tanh": lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + math.exp(-x)) if x > -700 else 0.0,
}


def grid_of_x():
    """Both signs of: subnormals, tiny and huge numbers, steps through where the functions bend; and their borders."""
    steps = np.linspace(0, 20, 480 if SIMULATOR else 200_000)
    powers = 2.0 ** np.linspace(-149, 127.99, 240 if SIMULATOR else 20_000)
    special = [0, 2.0**-149, 3 * 2.0**-149, 2.0**-126, np.finfo(np.float32).max, 88.72, 88.73, 103.97, 103.98, 10, 100]
    positive = np.concatenate([steps, powers, special]).astype(np.float32)
    return np.concatenate([positive, -positive])


@GENERAL
@pytest.mark.parametrize("activation", SIGNED)
def test_activations_are_within_4_ulp(version, tile, activation):
    # With alpha = 0 and beta = 1, x is C.
    x = grid_of_x()
    columns = 16
    c = np.resize(x, (-(-x.size // columns), columns))
    empty_a, empty_b = np.empty((len(c), 0), np.float32), np.empty((0, columns), np.float32)
    found = scaled(version, tile, empty_a, empty_b, c, beta=1.0, activation=activation).astype(np.float64)
    exact = np.vectorize(SIGNED[activation])(c.astype(np.float64))
    rounded = exact.astype(np.float32)
    allowed = 4 * np.spacing(np.abs(rounded)).astype(np.float64) + 1e-7
    error = np.abs(found - rounded) / allowed
    worst = np.unravel_index(np.argmax(np.where(np.isnan(error), INF, error)), c.shape)
    assert error[worst] <= 1, f"{activation}({c[worst]!r}) = {found[worst]!r}, not {rounded[worst]!r}: {error[worst]}"
    if activation == "relu":
        np.testing.assert_array_equal(found, rounded)


@GENERAL
@pytest.mark.parametrize(("activation", "least"), [("gelu", -12.5), ("silu", -88.0)])
def test_tails_keep_their_digits(version, tile, activation, least):
    # Down to 10⁻³⁴ and 10⁻³⁷, where the bound above says nothing.
    x = np.linspace(least, 0, 800 if SIMULATOR else 400_000, endpoint=False).astype(np.float32)
    c = x.reshape(-1, 16)
    empty_a, empty_b = np.empty((len(c), 0), np.float32), np.empty((0, 16), np.float32)
    found = scaled(version, tile, empty_a, empty_b, c, beta=1.0, activation=activation).astype(np.float64)
    exact = np.vectorize(SIGNED[activation])(c.astype(np.float64))
    error = np.abs(found / exact - 1)
    worst = np.unravel_index(np.argmax(error), c.shape)
    print(f"{activation}: a relative error of {error[worst] * 2**23:.2f} · 2⁻²³, at {c[worst]!r}")
    assert error[worst] <= 6 * 2.0**-23, f"{activation}({c[worst]!r}) = {found[worst]!r}, not {exact[worst]!r}"


@GENERAL
@pytest.mark.parametrize("activation", SIGNED)
def test_activations_of_nan_and_infinity(version, tile, activation):
    c = np.array([[NAN, INF, -INF]], np.float32)
    empty_a, empty_b = np.empty((1, 0), np.float32), np.empty((0, 3), np.float32)
    found = scaled(version, tile, empty_a, empty_b, c, beta=1.0, activation=activation)[0]
    assert np.isnan(found[0])
    assert found[1] == INF
    assert found[2] == 0


@GENERAL
@pytest.mark.parametrize("activation", SIGNED)
@pytest.mark.parametrize(
    "function", [lambda x: x + 64, lambda x: math.sqrt((x + 64) * (x + 64))], ids=["short", "long"]
)
def test_activations_come_after_the_bias_and_before_the_epilogue(version, tile, activation, function):
    # x = 2·1 + 3·2 − 10 = −2 for all: not 0, and not what f(−2) would be.
    c = np.full((2, 3), 2, np.float32)
    ones = np.ones((2, 1), np.float32), np.ones((1, 3), np.float32)
    bias = cuda.to_device(np.full(3, -10, np.float32))
    options = {"alpha": 2.0, "beta": 3.0, "bias": bias, "activation": activation, "epilogue": function}
    found = scaled(version, tile, *ones, c, **options)
    expected = SIGNED[activation](-2.0) + 64
    np.testing.assert_allclose(found, expected, rtol=2**-22, atol=0)


@GENERAL
def test_activations_know_their_number(version, tile):
    # Four functions, four results: none is taken for another.
    a, b = np.ones((1, 1), np.float32), np.full((1, 1), -1, np.float32)
    zero = np.zeros((1, 1), np.float32)
    found = [float(scaled(version, tile, a, b, zero, activation=name)[0, 0]) for name in (None, *SIGNED)]
    assert len(set(found)) == 5, found
