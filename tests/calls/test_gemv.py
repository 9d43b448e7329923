"""`gemv`: numbers, strides, and what it refuses."""

import numpy as np
import pytest
from numba import cuda
from support.checks import assert_exact, assert_same, normals, small_integers, units, wide_integers
from support.guarded import POISON, Guarded, bits
from support.products import Placement, every
from support.refusal import view

from numba_gemm import gemv
from numba_gemm.calls import gemv as gemv_module
from numba_gemm.kernels.skinny import SMALL_TILE

pytestmark = pytest.mark.device

M, K = 7, 5


@pytest.fixture(autouse=True)
def small_tile(monkeypatch):
    """512 threads are many for the simulator; on a GPU both are worth a look, and products in between are forgotten."""
    monkeypatch.setattr(gemv_module, "GEMV_TILE", SMALL_TILE)
    monkeypatch.setattr(gemv_module, "_products", type(gemv_module._products)())


@pytest.fixture
def own_tile(monkeypatch):
    monkeypatch.undo()


def check(rng, m, k, *, trans_a=False, place="contiguous", x_step=1, y_step=1, alpha=1.0, beta=0.0):
    """Exact, into a y full of NaN if nothing is to be read there; operands and surroundings unchanged."""
    op_a, x, y = wide_integers(rng, m, k), units(rng, 1, k)[0], wide_integers(rng, 1, m)[0]
    a = Guarded(op_a.T if trans_a else op_a, place)
    guarded_x = Guarded(x, every(x_step))
    guarded_y = Guarded(y if beta else np.full_like(y, POISON), every(y_step))
    returned = gemv(a.view, guarded_x.view, guarded_y.view, alpha=alpha, beta=beta, trans_a=trans_a)
    assert returned is guarded_y.view
    expected = alpha * (op_a.astype(np.float64) @ x) + beta * y.astype(np.float64)
    assert_same(guarded_y.values(), expected.astype(np.float32))
    a.assert_untouched("A")
    guarded_x.assert_untouched("x")
    guarded_y.assert_guards_intact("y")


@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("m", [1, 3, 16, 17])
@pytest.mark.parametrize("k", [1, 4, 9, 70])
def test_shapes(m, k, trans_a, rng):
    check(rng, m, k, trans_a=trans_a)


@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize(
    "place",
    [
        "unaligned",
        "pitched",
        "column-major",
        "pitched column-major",
        Placement(multiple=4, pitch=4),
        Placement(column_major=True, multiple=4),
    ],
    ids=str,
)
def test_layouts_of_the_matrix(place, trans_a, rng):
    check(rng, 9, 12, trans_a=trans_a, place=place)
    check(rng, 8, 16, trans_a=trans_a, place=place)


@pytest.mark.parametrize(("x_step", "y_step"), [(2, 1), (1, 3), (5, 4)])
@pytest.mark.parametrize("trans_a", [False, True])
def test_strides_of_the_vectors(x_step, y_step, trans_a, rng):
    check(rng, 9, 12, trans_a=trans_a, x_step=x_step, y_step=y_step, beta=2.0)


@pytest.mark.parametrize(
    ("alpha", "beta"), [(1.0, 0.0), (0.5, -2.0), (0.0, 3.0), (0.0, 0.0), (2, 1), (np.float32(3), 0)]
)
def test_scalars(alpha, beta, rng):
    check(rng, 6, 8, alpha=alpha, beta=beta)
    check(rng, 6, 8, alpha=alpha, beta=beta)  # the second time it is known


def test_a_new_y(rng):
    a, x = small_integers(rng, M, K), small_integers(rng, K, 1)[:, 0]
    y = gemv(cuda.to_device(a), cuda.to_device(x))
    assert y.shape == (M,)
    assert_exact(y.copy_to_host()[:, np.newaxis], a, x[:, np.newaxis])


@pytest.mark.parametrize(("m", "k"), [(0, 3), (3, 0), (0, 0)])
def test_empty(m, k):
    a, x = cuda.to_device(np.ones((m, k), np.float32)), cuda.to_device(np.ones(k, np.float32))
    np.testing.assert_array_equal(gemv(a, x).copy_to_host(), np.zeros(m))
    y = cuda.to_device(np.full(m, 3, np.float32))
    assert gemv(a, x, y, beta=2) is y
    np.testing.assert_array_equal(y.copy_to_host(), np.full(m, 6))


def test_alpha_0_reads_neither_a_nor_x():
    a, x = Guarded.poisoned(M, K), Guarded(np.full(K, POISON), every(1))
    y = Guarded(np.full(M, 3.0), every(1))
    gemv(a.view, x.view, y.view, alpha=0, beta=2)
    np.testing.assert_array_equal(y.values(), np.full(M, 6))


@pytest.mark.usefixtures("own_tile")
def test_its_own_tile(rng):
    check(rng, 9, 12)


@pytest.mark.gpu
@pytest.mark.usefixtures("own_tile")
@pytest.mark.parametrize("trans_a", [False, True])
def test_large_products_on_a_gpu(trans_a, rng):
    for m, k in ((4096, 4096), (14336, 4096), (130, 20000), (1, 10000), (20000, 1)):
        check(rng, m, k, trans_a=trans_a, beta=-1.0) if k <= 1000 else _check_values(rng, m, k, trans_a)


def _check_values(rng, m, k, trans_a):
    op_a, x = small_integers(rng, m, k), units(rng, 1, k)[0]
    y = gemv(cuda.to_device(np.ascontiguousarray(op_a.T) if trans_a else op_a), cuda.to_device(x), trans_a=trans_a)
    assert_exact(y.copy_to_host()[:, np.newaxis], op_a, x[:, np.newaxis])


def test_repeating_gives_the_same_bits(rng):
    a, x = cuda.to_device(normals(rng, 20, 90)), cuda.to_device(normals(rng, 1, 90)[0])
    first, second = (gemv(a, x).copy_to_host() for _ in range(2))
    np.testing.assert_array_equal(bits(first), bits(second))


def test_known_layouts_are_told_apart(rng):
    # Square and contiguous: nothing but the flag differs.
    a, x = small_integers(rng, 8, 8), small_integers(rng, 8, 1)[:, 0]
    device_a, device_x = cuda.to_device(a), cuda.to_device(x)
    for trans_a, op_a in ((False, a), (True, a.T), (False, a)):
        y = gemv(device_a, device_x, trans_a=trans_a).copy_to_host()
        np.testing.assert_array_equal(y, op_a @ x)


# Refusals -----------------------------------------------------------------------------------------------------


def vector(length):
    return cuda.to_device(np.ones(length, np.float32))


def refused(error, *fragments, a=None, x=None, y=None, **options):
    a = cuda.to_device(np.ones((M, K), np.float32)) if a is None else a
    result = Guarded(np.full(M, POISON), every(1))
    with pytest.raises(error) as caught:
        gemv(a, vector(K) if x is None else x, result.view if y is None else y, **options)
    assert type(caught.value) is error
    missing = [str(fragment) for fragment in fragments if str(fragment) not in str(caught.value)]
    assert not missing, f"{missing} not in: {caught.value}"
    result.assert_untouched("y")


@pytest.mark.usefixtures("nothing_runs")
class TestRefusals:
    def test_shapes(self):
        refused(ValueError, "x has shape (7,)", (M, K), f"({K},)", x=vector(M))
        refused(ValueError, "y has shape (5,)", f"({M},)", y=vector(K))
        refused(ValueError, "x has shape (5,)", "the transpose of a", f"({M},)", trans_a=True)
        refused(ValueError, "x has shape (5, 1)", f"({K},)", x=cuda.to_device(np.ones((K, 1), np.float32)))
        refused(ValueError, "a has shape (2, 7, 5)", "two dimensions", a=cuda.to_device(np.ones((2, M, K), np.float32)))
        refused(ValueError, "a has shape (5,)", "two dimensions", a=vector(K))

    def test_strides(self):
        refused(ValueError, "x has a stride of -1", "positive", x=view((K,), (-4,)))
        refused(ValueError, "x has a stride of 0", "positive", x=view((K,), (0,)))
        refused(ValueError, "y has a stride of 0", "positive", y=view((M,), (0,)))
        refused(ValueError, "a of shape (7, 5)", "positive strides", a=view((M, K), (80, 8)))

    def test_a_y_that_cannot_be_written(self):
        refused(ValueError, "y is read-only", y=view((M,), read_only=True))
        square = cuda.to_device(np.ones((M, M), np.float32))
        refused(ValueError, "y (from 0x", "overlaps a", a=square, x=vector(M), y=square[1])
        x = vector(M)
        refused(ValueError, "y (from 0x", "overlaps x", a=square, x=x, y=x)

    def test_beta_without_y(self):
        with pytest.raises(ValueError, match=r"beta is 2\.0.*there is no y"):
            gemv(cuda.to_device(np.ones((M, K), np.float32)), vector(K), beta=2)

    def test_types(self):
        refused(TypeError, "a is a numpy.ndarray in host memory", a=np.ones((M, K), np.float32))
        refused(TypeError, "x is a builtins.list in host memory", x=[1.0] * K)
        refused(TypeError, "y has dtype float64", y=cuda.to_device(np.ones(M)))
        refused(TypeError, "alpha is 1j", alpha=1j)
        refused(TypeError, "beta is '0'", beta="0")
        refused(TypeError, "trans_a is 1", trans_a=1)
        refused(TypeError, "stream is 1.5", stream=1.5)
