"""Batches of matrices: one launch for all, operands that the whole batch shares, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from numba import cuda
from numpy.lib.stride_tricks import as_strided
from support.cases import GENERAL_TILES
from support.checks import assert_same, units, wide_integers
from support.guarded import POISON, DeviceView, Guarded, bits, pointer_of
from support.products import Placement, Product, column_major
from support.refusal import ones, refused, view

from numba_gemm import VERSIONS, sgemm
from numba_gemm.driver import grids

pytestmark = pytest.mark.device

GENERAL = pytest.mark.parametrize(("version", "tile"), GENERAL_TILES)
ABLE = [version for version in VERSIONS if "batch" in version.capabilities]


def negative_minus(x, row, col):
    return x - 2 * row + 5 * col


@GENERAL
@pytest.mark.parametrize("shared", ["", "a", "b"])
@pytest.mark.parametrize("transposes", ["NN", "NT", "TN", "TT"])
def test_shared_operands(version, tile, shared, transposes, rng):
    trans_a, trans_b = (letter == "T" for letter in transposes)
    product = Product(tile.bm - 1, tile.bn, tile.bk + 1, batch=3, shared=shared, trans_a=trans_a, trans_b=trans_b)
    product.check(version, tile, rng)


@GENERAL
@pytest.mark.parametrize("shared", ["", "a", "b"])
@pytest.mark.parametrize("by_columns", ["a", "b", "c", "abc"])
def test_matrices_stored_by_columns(version, tile, shared, by_columns, rng):
    product = Product(tile.bm, tile.bn - 1, tile.bk + 2, batch=2, shared=shared, bias=1, epilogue=negative_minus)
    column_major(product, by_columns).check(version, tile, rng)


@GENERAL
@pytest.mark.parametrize("gap", [1, 4, 7])
@pytest.mark.parametrize("by_columns", ["", "c"])
def test_gaps_between_the_matrices(version, tile, gap, by_columns, rng):
    # What lies in the gaps of C has to be left alone.
    placement = Placement(gap=gap, pitch=gap)
    product = Product(tile.bm, tile.bn, tile.bk, batch=2, a=placement, b=placement, c=placement, beta=-2.0)
    column_major(product, by_columns).check(version, tile, rng)


@GENERAL
def test_one_operand_with_an_unaligned_distance(version, tile, rng):
    # In turn, at one shape: matrices are aligned, the distance between them is not.
    product = Product(tile.bm, tile.bn, tile.bk, batch=2, trans_a=True)
    for name in ("a", "b", "c"):
        replace(product, **{name: Placement(gap=2)}).check(version, tile, rng)


@GENERAL
@pytest.mark.parametrize("batch", [0, 1, 2])
@pytest.mark.parametrize("shared", ["", "a", "b"])
def test_small_batches(version, tile, batch, shared, rng):
    Product(3, 5, 4, batch=batch, shared=shared).check(version, tile, rng)
    Product(3, 5, 0, batch=batch, shared=shared, beta=3.0).check(version, tile, rng)
    Product(0, 5, 4, batch=batch, shared=shared).check(version, tile, rng)


@GENERAL
@pytest.mark.parametrize("shapes", [((1, 3, 4), (2, 4, 5)), ((2, 3, 4), (1, 4, 5)), ((1, 3, 4), (4, 5))], ids=str)
def test_a_batch_of_one_is_shared(version, tile, shapes, rng):
    a, b = (wide_integers(rng, shape[-2] * shape[0] if len(shape) == 3 else shape[-2], shape[-1]) for shape in shapes)
    a, b = a.reshape(shapes[0]), np.sign(b).reshape(shapes[1])
    expected = a.astype(np.float64) @ b
    c = sgemm(cuda.to_device(a), cuda.to_device(b), version=version.name, tile=tile)
    assert_same(c.copy_to_host(), expected)


@GENERAL
@pytest.mark.parametrize("distance", [0, 1, -8])
def test_any_distance_of_what_is_only_read(version, tile, distance, rng):
    # 0 is a broadcast; other distances make matrices overlap, or run backwards through memory.
    values = wide_integers(rng, 1, 100)[0]
    device = cuda.to_device(values)
    strides = (4 * distance, 16, 4)
    a = as_strided(values[40:], (3, 5, 4), strides)
    b = np.array([units(rng, 4, 6) for _ in range(3)])
    view_a = DeviceView(device, data=(pointer_of(device) + 160, True), shape=a.shape, strides=strides)
    c = Guarded(np.full((3, 5, 6), POISON), Placement())
    sgemm(view_a, cuda.to_device(b), c.view, version=version.name, tile=tile)
    assert_same(c.values(), a.astype(np.float64) @ b)
    c.assert_guards_intact("C")


@GENERAL
def test_matrices_side_by_side_in_one_buffer(version, tile, rng):
    # C[p] is the p-th block of columns: address ranges interleave, elements do not.
    a = np.array([wide_integers(rng, 5, 4) for _ in range(3)])
    b = np.array([units(rng, 4, 6) for _ in range(3)])
    buffer = cuda.to_device(np.full((5, 20), POISON))
    view_c = DeviceView(buffer, data=(pointer_of(buffer) + 4, False), shape=(3, 5, 6), strides=(24, 80, 4))
    sgemm(cuda.to_device(a), cuda.to_device(b), view_c, version=version.name, tile=tile)
    after = buffer.copy_to_host()
    assert_same(after[:, 1:19].reshape(5, 3, 6).swapaxes(0, 1), a.astype(np.float64) @ b)
    np.testing.assert_array_equal(bits(after[:, [0, 19]]), bits(np.full((5, 2), POISON)))


@GENERAL
@pytest.mark.parametrize("by_columns", ["", "c"])
def test_more_matrices_than_a_launch_takes(version, tile, by_columns, rng, monkeypatch):
    monkeypatch.setattr(grids, "MAX_GRID_Z", 2)
    product = Product(3, 5, 4, batch=5, beta=2.0, a=Placement(gap=1), c=Placement(gap=3))
    column_major(product, by_columns).check(version, tile, rng)
    replace(column_major(product, by_columns), shared="b").check(version, tile, rng)


@pytest.mark.gpu
@GENERAL
@pytest.mark.parametrize("batch", [65535, 65536, 150001])
def test_more_matrices_than_a_grid_has_layers(version, tile, batch, rng):
    a, b = wide_integers(rng, batch, 2).reshape(batch, 1, 2), units(rng, batch, 2).reshape(batch, 2, 1)
    c = sgemm(cuda.to_device(a), cuda.to_device(b), version=version.name, tile=tile).copy_to_host()
    assert_same(c, a.astype(np.float64) @ b)


# What is refused --------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize("version", ABLE, ids=lambda version: version.name)
class TestRefusals:
    @pytest.mark.parametrize(("of_a", "of_b"), [(2, 3), (3, 2), (0, 2), (4, 0)])
    def test_batches_of_different_sizes(self, version, of_a, of_b):
        a, b = ones(of_a, 5, 3), ones(of_b, 3, 7)
        refused(ValueError, "batches differ", a.shape, b.shape, "or one of them 1", a=a, b=b, version=version.name)

    def test_matrices_that_do_not_fit(self, version):
        a, b = ones(2, 5, 3), ones(2, 4, 7)
        refused(ValueError, "inner dimensions differ", "5 × 3", "4 × 7", a=a, b=b, version=version.name)

    @pytest.mark.parametrize("shape", [(5, 7), (1, 5, 7), (3, 5, 7), (2, 7, 5), (7, 2, 5)])
    def test_shape_of_c(self, version, shape):
        a, b, c = ones(2, 5, 3), ones(3, 7), ones(*shape)
        refused(ValueError, f"c has shape {shape}", (2, 5, 3), (3, 7), (2, 5, 7), a=a, b=b, c=c, version=version.name)

    @pytest.mark.parametrize(
        "strides",
        [
            pytest.param((0, 7, 1), id="all matrices are one"),
            pytest.param((34, 7, 1), id="the last element is the next matrix's first"),
            pytest.param((-34, 7, 1), id="backwards"),
            pytest.param((1, 7, 1), id="one column further"),
            pytest.param((6, 14, 1), id="side by side, one column in common"),
            pytest.param((1, 1, 8), id="by columns"),
            pytest.param((100, 6, 1), id="each overlaps itself"),
        ],
    )
    def test_a_c_that_overlaps_itself(self, version, strides):
        c = view((2, 5, 7), tuple(4 * stride for stride in strides))
        expected = ["c of shape (2, 5, 7)", strides, "overlaps itself", "an array of its own"]
        refused(ValueError, *expected, a=ones(2, 5, 3), b=ones(3, 7), c=c, version=version.name)

    def test_a_c_between_the_matrices_of_an_operand(self, version):
        buffer = view((2, 5, 3), (4 * 64, 12, 4))
        pointer, _ = buffer.__cuda_array_interface__["data"]
        # A[0] is floats 0 … 14, A[1] 64 … 78; C[0] would be 15 + shift …, C[1] ends at 15 + shift + 40 + 35.
        c = DeviceView(buffer.owner, data=(pointer + 4 * 30, False), shape=(2, 5, 7), strides=(4 * 40, 28, 4))
        refused(ValueError, "overlaps a", a=buffer, b=ones(3, 7), c=c, version=version.name)


@GENERAL
def test_a_c_in_the_gaps_of_an_operand(version, tile, rng):
    # A[p] and C[p] take turns in one buffer.
    before = np.full((2, 64), POISON)
    a = np.array([wide_integers(rng, 5, 3) for _ in range(2)])
    before[:, :15] = a.reshape(2, 15)
    b = units(rng, 3, 7)
    buffer = cuda.to_device(before)
    pointer = pointer_of(buffer)
    view_a = DeviceView(buffer, data=(pointer, False), shape=(2, 5, 3), strides=(256, 12, 4))
    view_c = DeviceView(buffer, data=(pointer + 60, False), shape=(2, 5, 7), strides=(256, 28, 4))
    sgemm(view_a, cuda.to_device(b), view_c, version=version.name, tile=tile)
    after = buffer.copy_to_host()
    assert_same(after[:, 15:50].reshape(2, 5, 7), a.astype(np.float64) @ b)
    after[:, 15:50] = POISON
    np.testing.assert_array_equal(bits(after), bits(before))


def test_every_version_that_takes_batches_is_tested():
    assert {param.values[0] for param in GENERAL_TILES} == set(ABLE)
