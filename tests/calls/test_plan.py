"""`plan`: the products of `sgemm`, chosen and compiled before the first call."""

import numpy as np
import pytest
from numba import cuda
from support.cases import FIRST_TILES
from support.checks import assert_exact, small_integers, units, wide_integers
from support.guarded import Guarded, bits
from support.refusal import ones

from numba_gemm import VERSIONS, Tile, plan, sgemm
from numba_gemm.driver import loading

pytestmark = pytest.mark.device

GENERAL = [version for version in VERSIONS if version.takes_everything]
M, N, K = 17, 13, 9


def shifted_relu(x, row, col):
    return max(x, 0) + 2 * row - col


@pytest.mark.parametrize(("version", "tile"), FIRST_TILES)
@pytest.mark.parametrize("shape", [(M, N, K), (16, 16, 8), (1, 1, 1), (5, 3, 0), (0, 3, 2)], ids=str)
def test_every_version_in_any_shape(version, tile, shape, rng):
    m, n, k = shape
    p = plan(m, n, k, version=version.name, tile=tile)
    for _ in range(2):
        a, b = wide_integers(rng, m, k), units(rng, k, n)
        c = cuda.to_device(np.full((m, n), np.nan, np.float32))
        assert p(cuda.to_device(a), cuda.to_device(b), c) is c
        assert_exact(c.copy_to_host(), a, b)


@pytest.mark.parametrize("version", GENERAL, ids=str)
@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("trans_a", [False, True])
def test_all_that_a_plan_can_be_asked_for(version, trans_a, trans_b, rng):
    p = plan(
        *(M, N, K),
        batch=2,
        trans_a=trans_a,
        trans_b=trans_b,
        bias=True,
        epilogue=shifted_relu,
        version=version.name,
        tile=version.small_tile,
    )
    a, b = small_integers(rng, 2 * M, K).reshape(2, M, K), small_integers(rng, K, N)
    c, bias = small_integers(rng, 2 * M, N).reshape(2, M, N), small_integers(rng, 1, N)[0]
    stored_a = np.ascontiguousarray(a.swapaxes(1, 2)) if trans_a else a
    stored_b = np.ascontiguousarray(b.T) if trans_b else b
    device_c = cuda.to_device(c)
    p(cuda.to_device(stored_a), cuda.to_device(stored_b), device_c, alpha=2, beta=-3, bias=cuda.to_device(bias))
    rows, columns = np.mgrid[:M, :N]
    expected = np.maximum(2 * (a @ b) - 3 * c + bias, 0) + 2 * rows - columns
    np.testing.assert_array_equal(device_c.copy_to_host(), expected)


@pytest.mark.parametrize("version", GENERAL, ids=str)
def test_scalars_and_places_change_from_call_to_call(version, rng):
    p = plan(M, N, K, version=version.name, tile=version.small_tile)
    kernels = len(loading._made)
    for layout in ("contiguous", "unaligned", "pitched", "contiguous", "every second row"):
        for alpha, beta in ((1, 0), (2, 0), (0, 1), (1, 1), (0, 0), (1, 0)):
            a, b, c = (small_integers(rng, *shape) for shape in ((M, K), (K, N), (M, N)))
            device_a, device_b, device_c = (Guarded(array, layout) for array in (a, b, c))
            p(device_a.view, device_b.view, device_c.view, alpha=alpha, beta=beta)
            np.testing.assert_array_equal(device_c.values(), alpha * (a @ b) + beta * c)
            device_c.assert_guards_intact("C")
    assert len(loading._made) == kernels, "a call made a kernel that the plan should have made"


@pytest.mark.parametrize("version", GENERAL, ids=str)
def test_alpha_0_reads_neither_a_nor_b_and_beta_0_not_c(version):
    p = plan(M, N, K, version=version.name, tile=version.small_tile)
    nan_a, nan_b = Guarded.poisoned(M, K), Guarded.poisoned(K, N)
    c = Guarded(np.full((M, N), 3.0))
    p(nan_a.view, nan_b.view, c.view, alpha=0, beta=2)
    np.testing.assert_array_equal(c.values(), np.full((M, N), 6.0))
    c = Guarded.poisoned(M, N)
    p(nan_a.view, nan_b.view, c.view, alpha=0)
    np.testing.assert_array_equal(bits(c.values()), bits(np.zeros((M, N))))


def test_what_was_chosen():
    p = plan(300, 200, 20)
    assert p.version in {version.number or version.name for version in VERSIONS}
    assert isinstance(p.tile, Tile)
    assert np.prod(p.grid) >= 1
    assert np.prod(p.block) == p.tile.threads
    tile = Tile(16, 16, 4, 4, 4)
    p = plan(33, 20, 8, version="vectorized", tile=tile)
    assert (p.version, p.tile, p.grid, p.block) == (4, tile, (2, 3), (16, 1))


@pytest.mark.gpu
def test_resources_are_those_of_the_loaded_kernel():
    p = plan(256, 256, 64, version="vectorized")
    assert 64 < p.registers <= 128
    assert p.shared_bytes == p.tile.shared_bytes


# Refusals -------------------------------------------------------------------------------------------------


def refused(error, *fragments, a=None, b=None, c=None, planned=None, **options):
    p = plan(M, N, K, **{"version": "boundary", "tile": GENERAL[0].small_tile, **(planned or {})})
    a, b = ones(M, K) if a is None else a, ones(K, N) if b is None else b
    result = Guarded.poisoned(M, N)
    with pytest.raises(error) as caught:
        p(a, b, result.view if c is None else c, **options)
    missing = [str(fragment) for fragment in fragments if str(fragment) not in str(caught.value)]
    assert not missing, f"{missing} not in: {caught.value}"
    result.assert_untouched("C")


def test_operands_that_were_not_planned():
    refused(ValueError, "a has shape (18, 9)", (M, K), a=ones(M + 1, K))
    refused(ValueError, "b has shape (13, 9)", (K, N), b=ones(N, K))
    refused(ValueError, "c has shape (17, 14)", (M, N), c=ones(M, N + 1))
    refused(ValueError, "a has shape (2, 17, 9)", (M, K), a=ones(2, M, K))
    refused(ValueError, "b has shape (3, 9, 13)", (2, K, N), b=ones(3, K, N), planned={"batch": 2}, c=ones(2, M, N))
    refused(TypeError, "a has dtype float64", "float32", a=ones(M, K, dtype=np.float64))
    refused(TypeError, "b is a numpy.ndarray in host memory", b=np.ones((K, N), np.float32))


def test_a_c_that_cannot_be_written():
    square = ones(5, 5)
    p = plan(5, 5, 5, version="boundary", tile=GENERAL[0].small_tile)
    with pytest.raises(ValueError, match=r"c \(from 0x.*overlaps a"):
        p(square, ones(5, 5), square)
    refused(ValueError, "overlaps bias", bias=(c := ones(M, N))[0], c=c, planned={"bias": True})


def test_column_major_operands_need_a_transpose():
    for name, shape in (("a", (M, K)), ("b", (K, N)), ("c", (M, N))):
        operand = Guarded(np.ones(shape), "column-major").view
        refused(ValueError, "unit stride along their last axis", "trans_a or trans_b", **{name: operand})


def test_a_bias_exactly_if_planned():
    refused(ValueError, "made with bias=True; pass a bias", planned={"bias": True})
    refused(ValueError, "made without bias=True", bias=ones(N))
    refused(ValueError, "bias has shape (12,)", f"({N},)", planned={"bias": True}, bias=ones(N - 1))


def test_scalars_and_streams():
    refused(TypeError, "alpha is 1j", "real scalar", alpha=1j)
    refused(TypeError, "alpha is (1+0j)", "real scalar", alpha=1 + 0j)  # equal to the default, and no real scalar
    refused(TypeError, "beta is '1'", "real scalar", beta="1")
    refused(TypeError, "stream is 1.5", stream=1.5)


@pytest.mark.parametrize("name", ["m", "n", "k", "batch"])
@pytest.mark.parametrize(("value", "error"), [(1.5, TypeError), (True, TypeError), ("8", TypeError), (-1, ValueError)])
def test_extents(name, value, error):
    extents = {"m": M, "n": N, "k": K, name: value}
    with pytest.raises(error, match=rf"{name} is {value!r}"):
        plan(**extents)


def test_options_are_checked_like_those_of_sgemm():
    for options, error, text in (
        ({"version": 99}, ValueError, "unknown version 99"),
        ({"activation": "tanh"}, ValueError, "unknown activation 'tanh'"),
        ({"epilogue": 1}, TypeError, "epilogue is 1"),
        ({"tile": 128}, TypeError, "tile is 128"),
        ({"trans_a": 1}, TypeError, "trans_a is 1"),
        ({"version": 3, "bias": True}, ValueError, "capability 'epilogue'"),
        ({"version": 3, "batch": 2}, ValueError, "capability 'batch'"),
        ({"version": 4, "tile": Tile(16, 16, 6, 4, 4)}, ValueError, "bk = 6"),
    ):
        with pytest.raises(error, match=text):
            plan(M, N, K, **options)


# On a GPU -------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize(("version", "tile"), FIRST_TILES)
def test_the_first_call_can_be_captured_in_a_graph(version, tile, rng):
    from cuda.bindings import driver as cu

    from numba_gemm.driver.cuda_api import checked

    m, n, k = 2 * tile.bm, 2 * tile.bn, 3 * tile.bk
    a, b = (cuda.to_device(np.zeros(shape, np.float32)) for shape in ((m, k), (k, n)))
    c = cuda.to_device(np.full((m, n), np.nan, np.float32))
    p = plan(m, n, k, version=version.name, tile=tile)
    cuda.synchronize()
    stream = checked("create", cu.cuStreamCreate(cu.CUstream_flags.CU_STREAM_NON_BLOCKING))
    mode = cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    cu.cuStreamBeginCapture(stream, mode)
    p(a, b, c, stream=int(stream))
    graph = checked("capture", cu.cuStreamEndCapture(stream))
    executable = checked("instantiate", cu.cuGraphInstantiate(graph, 0))
    assert np.isnan(c.copy_to_host()).all(), "the capture ran the kernel"
    for _ in range(2):
        host_a, host_b = wide_integers(rng, m, k), units(rng, k, n)
        a.copy_to_device(host_a)
        b.copy_to_device(host_b)
        cu.cuGraphLaunch(executable, stream)
        cu.cuStreamSynchronize(stream)
        assert_exact(c.copy_to_host(), host_a, host_b)


@pytest.mark.gpu
def test_a_plan_gives_the_bits_of_sgemm(rng):
    a, b = (cuda.to_device(rng.standard_normal(shape, np.float32)) for shape in ((500, 700), (700, 300)))
    by_plan = cuda.device_array((500, 300), np.float32)
    plan(500, 300, 700)(a, b, by_plan)
    np.testing.assert_array_equal(bits(by_plan.copy_to_host()), bits(sgemm(a, b).copy_to_host()))
