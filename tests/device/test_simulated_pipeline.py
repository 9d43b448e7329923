"""The simulator's cp.async finds what would be wrong on a GPU: a pipeline that is wrong on purpose gives NaN.

Everything here runs rung 5's own kernel, over an `AsyncCopy` or a schedule with one mistake.
"""

import numpy as np
import pytest
from numba import cuda
from support.checks import small_integers

from numba_gemm import VERSIONS, Tile
from numba_gemm.device import async_copy
from numba_gemm.device.async_copy import intrinsic
from numba_gemm.driver.operands import as_operand
from numba_gemm.driver.product import Operands, in_layout, prepare_product
from numba_gemm.kernels import v5_cp_async
from numba_gemm.kernels.interface import Variant
from numba_gemm.problem import Problem

pytestmark = pytest.mark.simulator

STAGES = [2, 3, 4]


def tile_of(stages):
    return Tile(8, 8, 4, 4, 4, stages)


def pipelined(copy, tile, rng, turns=7):
    """C of one block and its exact value; C starts as zeros, so that every NaN comes through the pipeline."""
    a, b = small_integers(rng, tile.bm, turns * tile.bk), small_integers(rng, turns * tile.bk, tile.bn)
    device_a, device_b, c = map(cuda.to_device, (a, b, np.zeros((tile.bm, tile.bn), np.float32)))
    problem = Problem.contiguous(tile.bm, tile.bn, turns * tile.bk)
    config = v5_cp_async.steps(tile, Variant(), problem, 1).main.config
    v5_cp_async.make_pipelined_kernel(tile, copy)[config.grid, config.block, 0, config.shared_bytes](
        device_a, device_b, c
    )
    return c.copy_to_host(), a @ b


def wait_for(pending):
    return lambda: async_copy.cp_async_wait(pending)


def commit_unless_empty():
    if async_copy._queue.open:
        async_copy.cp_async_commit()


def commit_nothing():
    pass


@pytest.mark.parametrize("turns", [1, 2, 3, 4, 5, 6, 7])
@pytest.mark.parametrize("stages", STAGES)
def test_the_right_pipeline_is_exact(stages, turns, rng):
    c, expected = pipelined(intrinsic(stages - 2), tile_of(stages), rng, turns)
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("stages", [3, 4])
def test_a_deeper_wait_is_slower_and_right(stages, rng):
    c, expected = pipelined(intrinsic(stages - 2)._replace(wait=wait_for(0)), tile_of(stages), rng)
    np.testing.assert_array_equal(c, expected)


#: One mistake each, for a ring of so many stages.
MISTAKES = {
    "wait one group too shallow": lambda right, stages: right._replace(wait=wait_for(stages - 1)),
    "wait that does nothing": lambda right, _: right._replace(wait=lambda: None),
    "no commit": lambda right, _: right._replace(commit=commit_nothing),
}


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("stages", STAGES)
def test_mistakes_show_everywhere(mistake, stages, rng):
    c, _ = pipelined(MISTAKES[mistake](intrinsic(stages - 2), stages), tile_of(stages), rng)
    assert np.isnan(c).all(), c


@pytest.mark.parametrize("stages", [3, 4])
def test_leaving_out_the_empty_commits_shows(stages, rng):
    # Only at the end of K: with S = 2 the wait is for all groups, and there is nothing to miscount.
    c, _ = pipelined(intrinsic(stages - 2)._replace(commit=commit_unless_empty), tile_of(stages), rng)
    assert np.isnan(c).all(), c


def test_copies_that_read_the_wrong_place_show(rng):
    right = intrinsic(1)

    def copy16(dst, dst_index, src, src_index):
        right.copy16(dst, dst_index, src, (src_index[0], src_index[1] ^ np.uint32(4)))

    c, expected = pipelined(right._replace(copy16=copy16), tile_of(3), rng, turns=2)
    assert (c != expected).any()


@pytest.mark.parametrize("turns", [1, 2, 3, 7])
@pytest.mark.parametrize("stages", STAGES)
def test_no_copy_reads_outside_its_operand(stages, turns, rng):
    # A tile beyond K that nobody waits for does not show in C, only as a fault on a GPU: look when it is issued.
    right = intrinsic(stages - 2)

    def copy16(dst, dst_index, src, src_index):
        row, column = (int(index) for index in src_index)
        if row >= src.shape[0] or column + 4 > src.shape[1]:
            raise IndexError(f"a copy reads {src_index} of an operand of shape {tuple(src.shape)}")
        right.copy16(dst, dst_index, src, src_index)

    c, expected = pipelined(right._replace(copy16=copy16), tile_of(stages), rng, turns)
    np.testing.assert_array_equal(c, expected)


def product_of(version, rng, turns):
    """The same for any version of the ladder."""
    tile = version.small_tile
    a, b = small_integers(rng, tile.bm, turns * tile.bk), small_integers(rng, turns * tile.bk, tile.bn)
    arrays = [cuda.to_device(array) for array in (a, b, np.zeros((tile.bm, tile.bn), np.float32))]
    a_operand, *others = (as_operand(array, "operand", 0) for array in arrays)
    operands = Operands(in_layout(version, a_operand), *others)
    prepare_product(version, tile, operands).launch(operands, 1.0, 0.0, 0)
    return arrays[-1].copy_to_host(), a @ b


BARRIERS = [version for version in VERSIONS if version.default_tile.bk > 1]  # the others share nothing


@pytest.fixture
def no_barriers(monkeypatch):
    """A schedule that a missing barrier allows: each thread of a block runs to its end before the next starts."""
    from numba.cuda.simulator.kernel import BlockThread

    start = BlockThread.start

    def start_and_finish(self):
        start(self)
        self.join()

    monkeypatch.setattr(BlockThread, "start", start_and_finish)
    monkeypatch.setattr(BlockThread, "syncthreads", lambda _: None)


@pytest.mark.parametrize("version", BARRIERS, ids=lambda version: version.name)
@pytest.mark.usefixtures("no_barriers")
def test_kernels_without_barriers_are_found(version, rng):
    c, _ = product_of(version, rng, turns=3)
    assert np.isnan(c).any(), c


@pytest.mark.parametrize("version", BARRIERS, ids=lambda version: version.name)
def test_the_same_kernels_with_barriers_are_exact(version, rng):
    c, expected = product_of(version, rng, turns=3)
    np.testing.assert_array_equal(c, expected)
