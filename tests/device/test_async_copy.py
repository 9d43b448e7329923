"""cp.async three ways: in kernels by each route to the instruction, and as the queue that simulates it.

On a GPU the three routes are three pieces of machine code; in the simulator all are the queue, which is also
called directly here. How early a copy arrives cannot be seen on a GPU: that a wait is too shallow shows in the
simulator (NaN), and the depth in the machine code is read in test_machine_code.py.
"""

import re

import numpy as np
import pytest
from numba import cuda, float32, uint32

from numba_gemm.device import async_copy
from numba_gemm.device.async_copy import MAX_PENDING, cp_async16, cp_async_commit, cp_async_wait, foreign_source
from numba_gemm.device.shared_memory import shared_view
from numba_gemm.device.vector import load4, store4

WAYS = {
    "intrinsic": async_copy.intrinsic,
    "foreign cu": lambda pending: async_copy.foreign("cp_async.cu", pending),
    "foreign ptx": lambda pending: async_copy.foreign("cp_async.ptx", pending),
}


def numbered(*shape):
    return np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)


def run(kernel, threads, *arrays, shared_bytes=0):
    """Launch one block on copies of the arrays; what they hold afterwards."""
    on_device = [cuda.to_device(array.copy()) for array in arrays]
    kernel[1, threads, 0, shared_bytes](*on_device)
    return [array.copy_to_host() for array in on_device]


GROUPS, LANES = 3, 8


def ring_kernel(way, pending):
    """Three groups under way; what has to be there after a wait that leaves `pending` of them unfinished."""
    copy16, commit, wait = WAYS[way](pending)
    ring_shape = (GROUPS, 4 * LANES)
    arrived = np.uint32(GROUPS - pending)

    @cuda.jit
    def kernel(source, target):
        memory = cuda.shared.array(0, float32, 16)
        ring = shared_view(memory, ring_shape, 0)
        col = uint32(cuda.threadIdx.x) * uint32(4)
        for group in range(uint32(GROUPS)):
            copy16(ring, (group, col), source, (group, col))
            commit()
        wait()
        cuda.syncthreads()
        other = uint32(4 * LANES - 4) - col  # a neighbour's copy: visible after the barrier
        for group in range(arrived):
            store4(target, (group, col), *load4(ring, (group, other)))

    return kernel


@pytest.mark.device
@pytest.mark.parametrize("pending", [0, 1, 2])
@pytest.mark.parametrize("way", WAYS)
def test_cp_async_in_a_kernel(way, pending):
    source = numbered(GROUPS, 4 * LANES)
    kernel = ring_kernel(way, pending)
    _, result = run(kernel, LANES, source, np.zeros_like(source), shared_bytes=4 * source.size)
    expected = source.reshape(GROUPS, LANES, 4)[:, ::-1].reshape(source.shape).copy()
    expected[GROUPS - pending :] = 0
    np.testing.assert_array_equal(result, expected)


@pytest.mark.simulator
def test_simulator_shows_a_wait_that_is_too_shallow():
    copy16, commit, wait = async_copy.intrinsic(pending=1)

    @cuda.jit
    def kernel(source, target):
        memory = cuda.shared.array(0, float32, 16)
        i = cuda.threadIdx.x * 4
        copy16(memory, (i,), source, (i,))
        commit()
        wait()  # leaves the only group unfinished
        cuda.syncthreads()
        store4(target, (i,), *load4(memory, (i,)))

    _, result = run(kernel, 2, numbered(8), np.zeros(8, np.float32), shared_bytes=32)
    assert np.isnan(result).all()


@pytest.fixture
def queue(monkeypatch):
    """Copies of this test alone."""
    fresh = async_copy._Queue()
    monkeypatch.setattr(async_copy, "_queue", fresh)
    return fresh


@pytest.mark.usefixtures("queue")
def test_cp_async_twin_delivers_at_the_wait_oldest_group_first():
    source, target = numbered(3, 4), np.zeros((3, 4), np.float32)
    for group in range(3):
        cp_async16(target, (group, 0), source, (group, 0))
        assert np.isnan(target[group]).all(), "the destination is undefined until the wait"
        cp_async_commit()
    for pending in (3, 2, 1, 0):
        cp_async_wait(pending)
        np.testing.assert_array_equal(target[: 3 - pending], source[: 3 - pending])
        assert np.isnan(target[3 - pending :]).all()


@pytest.mark.usefixtures("queue")
def test_cp_async_twin_reads_the_source_when_the_copy_arrives():
    source, target = numbered(8), np.zeros(8, np.float32)
    cp_async16(target, (4,), source, (0,))
    cp_async_commit()
    source[:4] = 9
    cp_async_wait(0)
    np.testing.assert_array_equal(target, [0, 0, 0, 0, 9, 9, 9, 9])


@pytest.mark.usefixtures("queue")
def test_cp_async_twin_counts_empty_groups_and_skips_open_ones():
    source, target = numbered(8), np.zeros(8, np.float32)
    cp_async16(target, (0,), source, (0,))
    cp_async_commit()
    cp_async_commit()  # empty: it makes the first group the second newest
    cp_async_wait(1)
    np.testing.assert_array_equal(target[:4], source[:4])
    cp_async16(target, (4,), source, (4,))
    cp_async_wait(0)  # not committed, so not waited for
    assert np.isnan(target[4:]).all()


@pytest.mark.simulator
def test_simulated_copies_belong_to_their_thread():
    @cuda.jit
    def kernel(source, target):
        i = cuda.threadIdx.x * 4
        cp_async16(target, (i,), source, (i,))
        cp_async_commit()
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            cp_async_wait(0)

    _, result = run(kernel, 2, numbered(8), np.zeros(8, np.float32))
    np.testing.assert_array_equal(result, [1, 2, 3, 4, *[np.nan] * 4])


@pytest.mark.parametrize("pending", [-1, MAX_PENDING + 1])
def test_foreign_refuses_a_depth_without_a_function(pending):
    message = rf"pending is {pending}; ptx/cp_async\.cu has waits for 0 … {MAX_PENDING} pending groups"
    with pytest.raises(ValueError, match=message):
        async_copy.foreign("cp_async.cu", pending)


def test_foreign_files_have_a_function_for_each_depth():
    depths = [str(pending) for pending in range(MAX_PENDING + 1)]
    expected = {f"numba_gemm_cp_async{suffix}" for suffix in ("16", "_commit", *(f"_wait{depth}" for depth in depths))}
    ptx = foreign_source("cp_async.ptx").read_text(encoding="utf-8")
    assert set(re.findall(r"\.func .*?(numba_gemm\w+)\(", ptx)) == expected
    assert re.findall(r"wait(\d)\(\).*?cp\.async\.wait_group (\d);", ptx, re.DOTALL) == [
        (depth, depth) for depth in depths
    ]
    cuda_source = foreign_source("cp_async.cu").read_text(encoding="utf-8")
    assert re.findall(r"^WAIT_GROUP\((\d)\)", cuda_source, re.MULTILINE) == depths


def test_foreign_source_says_where_it_looked():
    with pytest.raises(FileNotFoundError, match=r"none\.cu is neither at .*numba_gemm/ptx/none\.cu nor at .*reinstall"):
        foreign_source("none.cu")
