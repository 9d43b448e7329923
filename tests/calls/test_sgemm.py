"""The numbers that `sgemm` computes, for every version of the ladder."""

import numpy as np
import pytest
from numba import cuda
from support.cases import ALL_SHAPES, ALL_TILES, EMPTY_SHAPES, FIRST_TILES, large_tiles, own_layout, whole_shape
from support.checks import assert_close, assert_exact, normals, small_integers, units, wide_integers, wide_range
from support.guarded import Guarded, bits

from numba_gemm import VERSIONS, sgemm
from numba_gemm.calls import sgemm as sgemm_module
from numba_gemm.compiler.target import SIMULATOR
from numba_gemm.driver import grids
from numba_gemm.driver.product import ThreadProducts
from numba_gemm.kernels.interface import Launches

pytestmark = pytest.mark.device


def multiply(version, tile, a, b, **options):
    """A·B into a C full of NaN; the operands have to come through unchanged, and so has the memory around C."""
    device_a, device_b = Guarded(a, own_layout(version, "a")), Guarded(b)
    c = Guarded.poisoned(a.shape[0], b.shape[1])
    returned = sgemm(device_a.view, device_b.view, c.view, version=version.number or version.name, tile=tile, **options)
    assert returned is c.view
    result = c.values()
    device_a.assert_untouched("A")
    device_b.assert_untouched("B")
    c.assert_guards_intact("C")
    return result


@pytest.mark.parametrize(("version", "tile", "shape"), ALL_SHAPES)
def test_integers_that_tf32_cannot_hold_are_exact(version, tile, shape, rng):
    a, b = wide_integers(rng, shape.m, shape.k), units(rng, shape.k, shape.n)
    assert_exact(multiply(version, tile, a, b), a, b)


@pytest.mark.parametrize(("version", "tile"), ALL_TILES)
def test_small_integers_are_exact(version, tile, rng):
    shape = whole_shape(tile)
    a, b = small_integers(rng, shape.m, shape.k), small_integers(rng, shape.k, shape.n)
    assert_exact(multiply(version, tile, a, b, pad=False), a, b)


@pytest.mark.parametrize(("version", "tile"), FIRST_TILES)
def test_wide_integers_in_b_are_exact(version, tile, rng):
    # A kernel that rounds only one operand is caught by the other test or by this one.
    shape = whole_shape(tile)
    a, b = units(rng, shape.m, shape.k), wide_integers(rng, shape.k, shape.n)
    assert_exact(multiply(version, tile, a, b), a, b)


@pytest.mark.parametrize("data", [normals, wide_range])
@pytest.mark.parametrize(("version", "tile"), ALL_TILES)
def test_random_data_are_within_the_bounds(version, tile, data, rng):
    shape = whole_shape(tile)
    a, b = data(rng, shape.m, shape.k), data(rng, shape.k, shape.n)
    assert_close(multiply(version, tile, a, b), a, b)


@pytest.mark.parametrize(("version", "tile"), FIRST_TILES)
def test_long_sums_are_within_the_bounds(version, tile, rng):
    a, b = normals(rng, tile.bm, 256), normals(rng, 256, tile.bn)
    assert_close(multiply(version, tile, a, b), a, b)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("version", "tile"),
    [pytest.param(v, tile, id=f"{v.name}-{tile}") for v in VERSIONS for tile in large_tiles(v) or (v.default_tile,)],
)
def test_many_blocks_and_long_sums_on_a_gpu(version, tile, rng):
    # Enough blocks that several share an SM; ragged in every dimension.
    a, b = wide_integers(rng, 1000, 2049), units(rng, 2049, 777)
    assert_exact(multiply(version, tile, a, b), a, b)
    a, b = normals(rng, 1000, 4100), normals(rng, 4100, 777)
    assert_close(multiply(version, tile, a, b), a, b)


@pytest.mark.parametrize(("version", "tile"), FIRST_TILES)
@pytest.mark.parametrize("shape", EMPTY_SHAPES, ids=str)
def test_empty_shapes(version, tile, shape):
    a, b = np.empty((shape.m, shape.k), np.float32), np.empty((shape.k, shape.n), np.float32)
    c = cuda.to_device(np.full((shape.m, shape.n), np.nan, np.float32))
    returned = sgemm(cuda.to_device(a), cuda.to_device(b), c, version=version.name, tile=tile)
    assert returned is c
    np.testing.assert_array_equal(c.copy_to_host(), np.zeros((shape.m, shape.n), np.float32))


@pytest.mark.parametrize(("version", "tile"), FIRST_TILES)
def test_subnormal_numbers_are_not_flushed(version, tile):
    # Each element of C is one term: k · 2⁻¹⁴⁹ · 1.
    shape = whole_shape(tile)
    step = np.finfo(np.float32).smallest_subnormal
    a = np.zeros((shape.m, shape.k), np.float32)
    a[:, -1] = np.arange(1, shape.m + 1) * step
    b = np.ones((shape.k, shape.n), np.float32)
    expected = np.repeat(a[:, -1:], shape.n, axis=1)
    if not version.traits.deterministic and not SIMULATOR:  # the GPU's atomic additions do flush, see `split_k_atomic`
        expected = np.zeros_like(expected)
    np.testing.assert_array_equal(bits(multiply(version, tile, a, b)), bits(expected))


# The simulator computes with NumPy, which warns of ∞ · 0, ∞ − ∞ and overflow; that they happen is what is tested.
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize("ragged", [0, 1])
@pytest.mark.parametrize(("version", "tile"), FIRST_TILES)
def test_nan_and_infinity_propagate(version, tile, ragged):
    m, n, k = tile.bm + ragged, tile.bn + ragged, 3 * tile.bk + ragged
    a, b = np.ones((m, k), np.float32), np.ones((k, n), np.float32)
    a[0, -1] = np.inf
    a[1, 0] = np.finfo(np.float32).max
    b[0, 0] = 2  # overflows in row 1
    b[-1, 1] = 0  # ∞ · 0 in row 0
    b[:, 2] = -1  # −∞ in row 0
    b[k // 2, 3] = np.nan
    with np.errstate(invalid="ignore", over="ignore"):
        expected = np.sum(a[:, :, np.newaxis] * b, axis=1)
    assert np.array_equal(np.isnan(expected[:2, :4]), [[False, True, False, True], [False, False, False, True]])
    assert np.array_equal(np.isinf(expected[:2, :4]), [[True, False, True, False], [True, False, False, False]])
    np.testing.assert_array_equal(multiply(version, tile, a, b), expected)


@pytest.mark.parametrize(("version", "tile"), FIRST_TILES)
def test_repeating_gives_the_same_bits(version, tile, rng):
    shape = whole_shape(tile)
    a, b = normals(rng, shape.m, shape.k), normals(rng, shape.k, shape.n)
    first, second = (multiply(version, tile, a, b) for _ in range(2))
    np.testing.assert_array_equal(bits(first), bits(second))


@pytest.mark.parametrize(("version", "tile"), FIRST_TILES)
def test_number_and_name_are_one_version(version, tile, monkeypatch):
    chosen = []
    monkeypatch.setattr(grids, "launches_of", lambda *arguments: chosen.append(arguments[:2]) or Launches(()))
    a, b = Guarded(np.ones((1, 1))), Guarded(np.ones((1, 1)))
    names = [name for name in (version.number, version.name) if name is not None]
    for name in names:
        monkeypatch.setattr(sgemm_module, "_products", ThreadProducts())  # else it remembers what it launched before
        sgemm(a.view, b.view, version=name, tile=tile)
    assert chosen == [(version, tile)] * len(names)


def test_auto_with_its_defaults(rng):
    a, b = wide_integers(rng, 5, 9), units(rng, 9, 7)
    c = sgemm(cuda.to_device(a), cuda.to_device(b)).copy_to_host()
    assert_exact(c, a, b)


BEYOND = {"10**400": (10**400, np.inf), "-10**400": (-(10**400), -np.inf), "1e39": (1e39, np.inf)}


@pytest.mark.parametrize(("value", "expected"), BEYOND.values(), ids=BEYOND)
def test_scalars_beyond_float32_are_infinite(value, expected):
    a, b = (cuda.to_device(np.ones(shape, np.float32)) for shape in ((3, 2), (2, 4)))
    tile = next(version for version in VERSIONS if version.number == 6).small_tile
    found = sgemm(a, b, alpha=value, version=6, tile=tile).copy_to_host()
    np.testing.assert_array_equal(found, np.full((3, 4), expected))
    c = cuda.to_device(np.ones((3, 4), np.float32))
    sgemm(a, b, c, beta=value, version=6, tile=tile)
    np.testing.assert_array_equal(c.copy_to_host(), np.full((3, 4), expected))
