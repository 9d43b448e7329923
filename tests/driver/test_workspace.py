"""Workspaces: who gets which memory, when it is cleared, and when it goes."""

import gc
import threading

import numpy as np
import pytest
from numba import cuda, float32, types, uint32
from support.device_words import set_words, words

from numba_gemm.calls.sgemm import _products
from numba_gemm.compiler.target import SIMULATOR
from numba_gemm.driver import cuda_api, workspace
from numba_gemm.driver.launch import prepare
from numba_gemm.driver.streams import stream_handle
from numba_gemm.driver.workspace import Size, Workspaces
from numba_gemm.kernels.interface import Array, Kernel, Part, Step, sums_and_flags
from numba_gemm.tile import LaunchConfig

pytestmark = pytest.mark.device


def size_of(sums, flags):
    return Size.of(sums_and_flags(sums, flags))


SUMS, FLAGS = 1000, 7
SIZE = size_of(SUMS, FLAGS)
SMALLER, MORE_SUMS, MORE_FLAGS = size_of(1, 1), size_of(5000, 3), size_of(10, 900)


def streams(count):
    """Handles of as many streams, with what keeps them alive."""
    if SIMULATOR:
        return list(range(100, 100 + count)), None
    made = [cuda.stream() for _ in range(count)]
    return [stream_handle(stream) for stream in made], made


def test_one_stream_has_one_and_two_streams_have_two():
    owner = Workspaces()
    (first, second), _alive = streams(2)
    place = owner.get(SIZE, first)
    assert owner.get(SIZE, first) is place
    assert owner.get(SMALLER, first) is place, "a smaller launch takes what is there"
    other = owner.get(SIZE, second)
    assert len(owner) == 2
    ends = sorted([(p.plain, p.zeroed + 4 * FLAGS) for p in (place, other)])
    assert ends[0][1] <= ends[1][0], "the memory of two streams overlaps"
    assert owner.get(SIZE, first) is place


def test_two_owners_have_two():
    (stream,), _alive = streams(1)
    one, two = Workspaces(), Workspaces()
    assert one.get(SIZE, stream).plain != two.get(SIZE, stream).plain


@pytest.mark.parametrize(("sums", "flags"), [(1000, 7), (1, 1), (5000, 3), (10, 900), (0, 5), (33, 0)])
def test_layout_and_flags(sums, flags):
    place = workspace.allocate(size_of(sums, flags), 0)
    assert place.plain % 16 == 0, "partial sums are written by 16 bytes"
    assert place.zeroed >= place.plain + 4 * sums
    np.testing.assert_array_equal(words(place.zeroed, flags), np.zeros(flags))


def test_parts_lie_one_behind_the_other():
    parts = [Part("x", 3), Part("flags", 5, np.uint32, zeroed=True), Part("y", 40), Part("more", 1, zeroed=True)]
    place = workspace.allocate(Size.of(parts), 0)
    places = place.places(parts)
    assert places["x"] == place.plain
    assert places["x"] + 3 * 4 <= places["y"]
    assert places["y"] + 40 * 4 <= places["flags"] == place.zeroed
    assert places["flags"] + 5 * 4 <= places["more"]
    assert places["more"] + 4 <= place.plain + sum(Size.of(parts))
    assert all(address % 128 == place.plain % 128 for address in places.values())
    # One with room for more has its zeros elsewhere, and the parts with them.
    larger = workspace.allocate(Size.of([*parts, Part("z", 1000)]), 0)
    assert larger.places(parts)["flags"] == larger.zeroed >= larger.plain + 4000


@pytest.mark.simulator
def test_partial_sums_have_no_initial_value():
    place = workspace.allocate(SIZE, 0)
    assert np.isnan(words(place.plain, SUMS).view(np.float32)).all()


def test_it_grows_and_never_shrinks():
    owner = Workspaces()
    owner.get(SIZE, 0)
    place = owner.get(MORE_SUMS, 0)
    set_words(place.plain, np.full(5000, 0xFFFFFFFF))
    assert words(place.zeroed, FLAGS).sum() == 0, "as many flags as before, beyond as many sums as now"
    place = owner.get(MORE_FLAGS, 0)
    assert place.zeroed >= place.plain + 4 * 5000
    assert words(place.zeroed, 900).sum() == 0
    for size in (SIZE, MORE_SUMS, MORE_FLAGS):
        assert owner.get(size, 0) is place
    assert len(owner) == 1


def test_flags_are_cleared_once():
    owner = Workspaces()
    place = owner.get(SIZE, 0)
    set_words(place.zeroed, np.full(FLAGS, 5))
    assert (words(owner.get(SIZE, 0).zeroed, FLAGS) == 5).all(), "to clear them is the kernel's part"


def test_the_number_of_streams_is_bounded():
    owner = Workspaces()
    handles, _alive = streams(Workspaces.MOST + 3)
    places = [owner.get(SIZE, handle) for handle in handles]
    assert len(owner) == Workspaces.MOST
    assert owner.get(SIZE, handles[-1]) is places[-1]
    assert owner.get(SIZE, handles[0]) is not places[0]


def test_memory_goes_with_its_owner(monkeypatch):
    alive = set()

    class Counted(cuda_api.DeviceMemory):
        def __init__(self, nbytes):
            super().__init__(nbytes)
            alive.add(id(self))

        def __del__(self):
            alive.discard(id(self))

    monkeypatch.setattr(workspace, "DeviceMemory", Counted)
    owner = Workspaces()
    owner.get(SIZE, 0)
    owner.get(MORE_SUMS, 0)
    gc.collect()
    assert len(alive) == 1, "what was too small is given back"
    del owner
    gc.collect()
    assert not alive


def test_a_workspace_in_stream_order():
    with workspace.in_stream_order(SIZE, 0) as place:
        assert words(place.zeroed, FLAGS).sum() == 0
        assert place.plain % 16 == 0
        with workspace.in_stream_order(SIZE, 0) as other:
            assert other.plain != place.plain


def test_a_stream_that_is_captured_gets_none(monkeypatch):
    monkeypatch.setattr(cuda_api, "is_capturing", lambda stream: stream == 4096)
    owner = Workspaces()
    assert owner.get(SIZE, 4096) is None
    assert len(owner) == 0


def test_threads_of_sgemm_have_their_own():
    found = [_products.workspaces]
    thread = threading.Thread(target=lambda: found.append(_products.workspaces))
    thread.start()
    thread.join()
    assert found[0] is _products.workspaces
    assert found[0] is not found[1]


@cuda.jit
def _count(sums, flags):
    i = cuda.grid(1)
    if i < flags.size:
        sums[i] = flags[i] + np.float32(0.5)
        flags[i] += np.uint32(1)


def test_a_launch_takes_floats_and_flags():
    parts = sums_and_flags(7, 7)
    place, moved = (workspace.allocate(Size.of(parts), 0) for _ in range(2))
    kernel = Kernel(lambda: _count, (), types.void(float32[::1], uint32[::1]), cacheable=False)
    arguments = Array("sums", (7,)), Array("flags", (7,), dtype=np.uint32)
    launch = prepare(Step(kernel, LaunchConfig((1, 1), (8, 1)), arguments))
    for name, address in place.places(parts).items():
        launch.set_place(name, address)
    launch()
    launch()
    assert words(place.zeroed, 7).tolist() == [2] * 7
    assert words(place.plain, 7).view(np.float32).tolist() == [1.5] * 7
    for name, address in moved.places(parts).items():
        launch.set_place(name, address)
    launch()
    assert words(moved.zeroed, 7).tolist() == [1] * 7
    assert words(place.zeroed, 7).tolist() == [2] * 7


# On a GPU -------------------------------------------------------------------------------------------------


@pytest.mark.gpu
def test_ids_of_streams_are_not_used_again():
    seen = set()
    for _ in range(20):
        stream = cuda.stream()
        number = cuda_api.stream_id(stream_handle(stream))
        assert number == cuda_api.stream_id(stream_handle(stream))
        assert number not in seen
        seen.add(number)
        del stream


@pytest.mark.gpu
@pytest.mark.alone
def test_memory_is_given_back():
    cu = cuda_api.cu
    cuda.current_context()
    workspace.allocate(size_of(1, 1), 0)
    gc.collect()
    free, _ = cu.cuMemGetInfo()[1:]
    owner = Workspaces()
    owner.get(size_of(64 << 20, 64), 0)
    assert cu.cuMemGetInfo()[1] <= free - (256 << 20)
    del owner
    gc.collect()
    assert cu.cuMemGetInfo()[1] >= free - (32 << 20)


@pytest.mark.gpu
def test_allocation_beside_a_capture_that_forbids_it():
    """A thread that captures in global mode makes cuMemAlloc illegal everywhere; an allocation here is none of its."""
    cu = cuda_api.cu
    stream = cuda.stream()
    mode = cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL
    cuda_api.checked("cuStreamBeginCapture", cu.cuStreamBeginCapture(stream_handle(stream), mode))
    try:
        assert cuda_api.is_capturing(stream_handle(stream))
        other = cuda_api.checked("cuStreamCreate", cu.cuStreamCreate(cu.CUstream_flags.CU_STREAM_NON_BLOCKING))
        owner = Workspaces()
        assert owner.get(SIZE, int(other)) is not None
        assert owner.get(SIZE, stream_handle(stream)) is None
        del owner
        gc.collect()
    finally:
        graph = cuda_api.checked("cuStreamEndCapture", cu.cuStreamEndCapture(stream_handle(stream)))
    assert graph is not None
    cu.cuGraphDestroy(graph)
    cu.cuStreamDestroy(other)
