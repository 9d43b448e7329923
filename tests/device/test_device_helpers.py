"""Each device helper three ways: in a kernel (GPU or simulator), as its Python twin, and as plain NumPy.

A twin is the helper's own Python function, called directly on arrays. On a GPU that is other code than
what kernels run; in the simulator it is the same, and the GPU run of the same tests is what tells them apart.
"""

import numpy as np
import pytest
from numba import cuda, float32, types, uint32

from numba_gemm.analysis.code import machine_code, sass
from numba_gemm.compiler import target
from numba_gemm.compiler import unroll as unroll_module
from numba_gemm.compiler.target import device_function, launch_bounds
from numba_gemm.device.shared_memory import shared_view
from numba_gemm.device.vector import load4, store4


def numbered(*shape):
    return np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)


def run(kernel, threads, *arrays, shared_bytes=0):
    """Launch one block on copies of the arrays; what they hold afterwards."""
    on_device = [cuda.to_device(array.copy()) for array in arrays]
    kernel[1, threads, 0, shared_bytes](*on_device)
    return [array.copy_to_host() for array in on_device]


# 16-byte accesses ------------------------------------------------------------------------------------


@cuda.jit
def reverse_fours_2d(source, target):
    """Each thread moves four neighbours, the order turned round, so that every lane is told apart."""
    row, col = uint32(cuda.threadIdx.y), uint32(cuda.threadIdx.x) * uint32(4)
    x, y, z, w = load4(source, (row, col))
    store4(target, (row, col), w, z, y, x)


@cuda.jit
def reverse_fours_3d(source, target):
    row, col = uint32(cuda.threadIdx.y), uint32(cuda.threadIdx.x) * uint32(4)
    for page in range(uint32(source.shape[0])):
        x, y, z, w = load4(source, (page, row, col))
        store4(target, (page, row, col), w, z, y, x)


@pytest.mark.device
@pytest.mark.parametrize(("kernel", "shape"), [(reverse_fours_2d, (3, 8)), (reverse_fours_3d, (2, 3, 8))])
def test_load4_and_store4_in_a_kernel(kernel, shape):
    source = numbered(*shape)
    _, result = run(kernel, (shape[-1] // 4, shape[-2]), source, np.full(shape, np.nan, np.float32))
    np.testing.assert_array_equal(result, source.reshape(-1, 4)[:, ::-1].reshape(shape))


@pytest.mark.parametrize("index", [(4,), (1, 4), (1, 2, 4)])
def test_load4_twin(index):
    source = numbered(*(3,) * (len(index) - 1), 8)
    four = load4(source, index)
    assert isinstance(four, tuple)
    np.testing.assert_array_equal(four, source[index[:-1]][4:8])


@pytest.mark.parametrize("index", [(4,), (1, 4), (1, 2, 4)])
def test_store4_twin(index):
    result = np.zeros((*(3,) * (len(index) - 1), 12), np.float32)
    expected = result.copy()
    expected[index[:-1]][4:8] = 1, 2, 3, 4
    store4(result, index, 1, 2, 3, 4)
    np.testing.assert_array_equal(result, expected)


# Views of shared memory ------------------------------------------------------------------------------

FLAT = 40
PLANE, PLANE_OFFSET = (3, 4), 4
BOX, BOX_OFFSET = (2, 3, 4), 16


@cuda.jit
def read_through_views(plane_values, box_values):
    memory = cuda.shared.array(0, float32, 16)
    plane = shared_view(memory, PLANE, PLANE_OFFSET)
    box = shared_view(memory, BOX, BOX_OFFSET)
    i = uint32(cuda.threadIdx.x)
    memory[i] = float32(i)
    cuda.syncthreads()
    if i < uint32(12):
        plane_values[i // uint32(4), i % uint32(4)] = plane[i // uint32(4), i % uint32(4)]
    if i < uint32(24):
        page, rest = i // uint32(12), i % uint32(12)
        box_values[page, rest // uint32(4), rest % uint32(4)] = box[page, rest // uint32(4), rest % uint32(4)]


@cuda.jit
def write_through_views(flat):
    memory = cuda.shared.array(0, float32, 16)
    plane = shared_view(memory, PLANE, PLANE_OFFSET)
    box = shared_view(memory, BOX, BOX_OFFSET)
    i = uint32(cuda.threadIdx.x)
    memory[i] = float32(-1)
    cuda.syncthreads()
    if i == uint32(0):
        plane[2, 1] = float32(7)
        box[1, 2, 3] = float32(8)
    cuda.syncthreads()
    flat[i] = memory[i]


def views_of(flat):
    return shared_view(flat, PLANE, PLANE_OFFSET), shared_view(flat, BOX, BOX_OFFSET)


@pytest.mark.device
def test_shared_view_reads_in_a_kernel():
    empty = [np.full(shape, np.nan, np.float32) for shape in (PLANE, BOX)]
    plane, box = run(read_through_views, FLAT, *empty, shared_bytes=4 * FLAT)
    np.testing.assert_array_equal(plane, np.arange(4, 16).reshape(PLANE))
    np.testing.assert_array_equal(box, np.arange(16, 40).reshape(BOX))


@pytest.mark.device
def test_shared_view_writes_in_a_kernel():
    (flat,) = run(write_through_views, FLAT, np.zeros(FLAT, np.float32), shared_bytes=4 * FLAT)
    expected = np.full(FLAT, -1, np.float32)
    expected[[4 + 2 * 4 + 1, 16 + 12 + 2 * 4 + 3]] = 7, 8
    np.testing.assert_array_equal(flat, expected)


def test_shared_view_twin_reads_and_writes_the_same_memory():
    flat = np.arange(FLAT, dtype=np.float32)
    plane, box = views_of(flat)
    np.testing.assert_array_equal(plane, np.arange(4, 16).reshape(PLANE))
    np.testing.assert_array_equal(box, np.arange(16, 40).reshape(BOX))
    plane[2, 1], box[1, 2, 3] = 107, 108
    assert flat[13] == 107
    assert flat[39] == 108


@pytest.mark.machine_code
@pytest.mark.parametrize("kernel", [read_through_views, write_through_views])
def test_stores_that_only_a_view_reads_are_compiled(kernel):
    """Numba drops a store to an array that nobody reads, unless it knows what the array's views are."""
    arrays = [float32[:, ::1], float32[:, :, ::1]] if kernel is read_through_views else [float32[::1]]
    code = machine_code.compile_kernel(kernel, types.void(*arrays), "sm_90")
    stores = sass.count(sass.parse(code.sass), "STS")
    assert stores == (1 if kernel is read_through_views else 3), code.sass


@pytest.mark.simulator
def test_simulated_shared_memory_starts_as_nan_and_is_one_for_the_block():
    @cuda.jit
    def kernel(before, after):
        static = cuda.shared.array(2, float32, 16)
        dynamic = cuda.shared.array(0, float32, 16)
        i = cuda.threadIdx.x
        before[i] = static[i] + dynamic[i]
        cuda.syncthreads()
        static[i], dynamic[i] = i, i + 10
        cuda.syncthreads()
        after[i] = static[1 - i] + dynamic[1 - i]

    before, after = run(kernel, 2, np.zeros(2, np.float32), np.zeros(2, np.float32), shared_bytes=8)
    assert np.isnan(before).all()
    np.testing.assert_array_equal(after, [12, 10])


# Unrolling -------------------------------------------------------------------------------------------


def note_step(k, steps, state):
    """Append k to `steps`; the first element of `state` counts, the second folds the order into a number."""
    position = state[0]
    steps[position] = k
    state[0] = position + uint32(1)
    state[1] = state[1] * uint32(3) + k


def expected_steps(count):
    folded = 0
    for k in range(count):
        folded = folded * 3 + k
    return np.arange(count, dtype=np.uint32), np.array([count, folded], np.uint32)


@pytest.mark.device
@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_unroll_in_a_kernel(count):
    chain = unroll_module.unroll(device_function(note_step), count)

    @cuda.jit
    def kernel(steps, state):
        chain(steps, state)

    results = run(kernel, 1, np.full(count, 99, np.uint32), np.zeros(2, np.uint32))
    for result, expected in zip(results, expected_steps(count), strict=True):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_unroll_twin(count, monkeypatch):
    monkeypatch.setattr(unroll_module, "SIMULATOR", True)
    calls = []
    unroll_module.unroll(lambda *arguments: calls.append(arguments), count)("x", "y")
    assert calls == [(k, "x", "y") for k in range(count)]
    assert all(isinstance(k, np.uint32) for k, *_ in calls), "a signed k would not be what kernels see on a GPU"


# Options of the compiler -----------------------------------------------------------------------------


@pytest.mark.parametrize("simulator", [True, False])
def test_launch_bounds_exist_only_outside_the_simulator(monkeypatch, simulator):
    monkeypatch.setattr(target, "SIMULATOR", simulator)
    assert launch_bounds(256, 2) == ({} if simulator else {"launch_bounds": (256, 2)})


@pytest.mark.device
def test_device_function_and_launch_bounds_in_a_kernel():
    @device_function
    def square_plus(x, y):
        return x * x + y

    @cuda.jit(**launch_bounds(32, 2))
    def kernel(x, y):
        i = uint32(cuda.threadIdx.x)
        y[i] = square_plus(x[i], y[i])

    x, y = numbered(32), numbered(32) * 2
    np.testing.assert_array_equal(run(kernel, 32, x, y)[1], x * x + y)


def test_device_function_is_the_function_itself_in_the_simulator(monkeypatch):
    monkeypatch.setattr(target, "SIMULATOR", True)
    assert device_function(note_step) is note_step


@pytest.mark.machine_code  # Numba itself, not the simulator
def test_device_function_is_always_inlined():
    options = device_function(note_step).targetoptions
    assert options["device"]
    assert options["forceinline"]
