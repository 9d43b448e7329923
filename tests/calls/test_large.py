"""What only a GPU has: operands beyond 2³¹ elements, grids beyond their limits, streams and threads side by side."""

import fcntl
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numba import cuda, float32, int64
from support.cases import FIRST_TILES
from support.checks import assert_exact, assert_same, normals, small_integers, units, wide_integers
from support.guarded import DeviceView, bits, pointer_of

from numba_gemm import VERSIONS, sgemm
from numba_gemm.driver import loading

pytestmark = pytest.mark.gpu

EVERY = pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
ABLE = [version for version in VERSIONS if version.takes_everything]
GENERAL = pytest.mark.parametrize("version", ABLE, ids=lambda version: version.name)

# Beyond 2³¹ elements -----------------------------------------------------------------------------------------

LIMIT = 2**31
#: One operand has this many lines of 256 floats: a little more than 2³¹ elements, whole tiles for every version.
LINES, LENGTH = LIMIT // 256 + 256, 256


def pattern(index):
    """Small integers that do not repeat with any power of two."""
    return (index % 1009 % 17 - 8).astype(np.float32)


@cuda.jit
def fill(array):
    first = int64(cuda.blockIdx.x) * cuda.blockDim.x + cuda.threadIdx.x
    for i in range(first, array.size, int64(cuda.gridDim.x) * cuda.blockDim.x):
        array[i] = float32(i % int64(1009) % int64(17) - int64(8))


@pytest.fixture
def large():
    """`pattern` of 0, 1, 2 … as a vector in device memory, longer than 2³¹; one at a time on a machine."""
    size = LIMIT + 2**19
    with open(Path(tempfile.gettempdir()) / "numba_gemm_large.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        free, _ = cuda.current_context().get_memory_info()
        if free < 8 * size:
            pytest.skip(f"{free / 1e9:.1f} GB of device memory are free; {8 * size / 1e9:.1f} are needed")
        array = cuda.device_array(size, np.float32)
        fill[1024, 256](array)
        yield array
        cuda.synchronize()
        del array
        cuda.current_context().deallocations.clear()


def part(buffer, shape, strides, first=0):
    data = (pointer_of(buffer) + 4 * first, True)
    return DeviceView(buffer, data=data, shape=shape, strides=tuple(4 * stride for stride in strides))


def samples(extent):
    """The ends, and what lies around the element 2³¹ if there are LENGTH to a line."""
    return [(0, 130), (LIMIT // LENGTH - 70, LIMIT // LENGTH + 70), (extent - 130, extent)]


@EVERY
def test_a_tall_a(version, large, rng):
    b = small_integers(rng, LENGTH, 128)
    c = sgemm(part(large, (LINES, LENGTH), (LENGTH, 1)), cuda.to_device(b), version=version.name)
    for first, end in samples(LINES):
        a = pattern(np.arange(first * LENGTH, end * LENGTH, dtype=np.int64)).reshape(-1, LENGTH)
        assert_exact(c[first:end].copy_to_host(), a, b)


@GENERAL
@pytest.mark.parametrize("shift", [0, 1], ids=["aligned", "unaligned"])
def test_a_tall_a_stored_by_columns(version, shift, large, rng):
    # A[m, k] is element shift + k·lead + m: those beyond 2³¹ are in the last line.
    lead, b = LINES + shift, small_integers(rng, LENGTH, 5)
    c = sgemm(part(large, (LENGTH, LINES), (lead, 1), shift), cuda.to_device(b), trans_a=True, version=version.name)
    for first, end in samples(LINES):
        index = np.arange(first, end)[:, np.newaxis] + lead * np.arange(LENGTH, dtype=np.int64) + shift
        assert_exact(c[first:end].copy_to_host(), pattern(index), b)


@GENERAL
@pytest.mark.parametrize("shift", [0, 1], ids=["aligned", "unaligned"])
@pytest.mark.parametrize("trans_b", [False, True])
def test_a_wide_b(version, shift, trans_b, large, rng):
    lead, a = LENGTH if trans_b else LINES + shift, small_integers(rng, 5, LENGTH)
    stored = (LINES, LENGTH) if trans_b else (LENGTH, LINES)
    b = part(large, stored, (lead, 1), shift)
    c = sgemm(cuda.to_device(a), b, trans_b=trans_b, version=version.name).copy_to_host()
    for first, end in samples(LINES):
        n, k = np.arange(first, end), np.arange(LENGTH, dtype=np.int64)[:, np.newaxis]
        assert_exact(c[:, first:end], a, pattern((n * lead + k if trans_b else k * lead + n) + shift))


@GENERAL
@pytest.mark.parametrize("by_columns", [False, True], ids=["by rows", "by columns"])
def test_a_large_c(version, by_columns, large, rng):
    rows, columns = 2**16 + 1, 2**15 + 3
    a, b = wide_integers(rng, rows, 3), units(rng, 3, columns)
    pointer = pointer_of(large)
    strides = (4, 4 * rows) if by_columns else (4 * columns, 4)
    c = DeviceView(large, data=(pointer, False), shape=(rows, columns), strides=strides)
    after = rows * columns
    guard = large[after : after + 1000].copy_to_host()
    sgemm(cuda.to_device(a), cuda.to_device(b), c, version=version.name)
    lines, length = (columns, rows) if by_columns else (rows, columns)
    for first, end in ((0, 3), (LIMIT // length - 1, LIMIT // length + 1), (lines - 3, lines)):
        found = large[first * length : end * length].copy_to_host().reshape(-1, length)
        expected = (a @ b[:, first:end]).T if by_columns else a[first:end] @ b
        assert_same(found, expected)
    np.testing.assert_array_equal(large[after : after + 1000].copy_to_host(), guard)


@GENERAL
def test_a_batch_with_a_large_distance(version, large, rng):
    # The last matrix starts beyond 2³¹ elements, and 2³² bytes lie between two.
    distance, b = 2**30 + 4, small_integers(rng, 7, 5)
    c = sgemm(part(large, (3, 6, 7), (distance, 7, 1)), cuda.to_device(b), version=version.name).copy_to_host()
    for index in range(3):
        a = pattern(index * distance + np.arange(42, dtype=np.int64)).reshape(6, 7)
        assert_exact(c[index], a, b)


@pytest.mark.parametrize(("version", "tile"), FIRST_TILES)
@pytest.mark.parametrize("wide", [False, True], ids=["tall", "wide"])
def test_more_blocks_than_a_grid_has_along_y(version, tile, wide, rng):
    extent = 65535 * max(tile.bm, tile.bn) + 17
    m, n = (5, extent) if wide else (extent, 5)
    a, b = wide_integers(rng, m, 3), units(rng, 3, n)
    c = sgemm(cuda.to_device(a), cuda.to_device(b), version=version.name, tile=tile)
    assert_exact(c.copy_to_host(), a, b)


# Side by side --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [v for v in VERSIONS if v.traits.deterministic], ids=lambda version: version.name)
def test_results_are_the_same_bits_on_every_stream(version, rng):
    """Except those that blocks add to in the order in which they come: `test_stream_k.py` shows that they are not."""
    a, b = (cuda.to_device(normals(rng, *shape)) for shape in ((1030, 1999), (1999, 777)))
    expected = sgemm(a, b, version=version.name).copy_to_host()
    cuda.synchronize()
    streams = [cuda.stream() for _ in range(4)]
    found = []
    for _ in range(5):
        for stream in streams:
            c = cuda.device_array(expected.shape, np.float32)
            found.append(sgemm(a, b, c, version=version.name, stream=stream))
    cuda.synchronize()
    for c in found:
        np.testing.assert_array_equal(bits(c.copy_to_host()), bits(expected))


THREADS = 8


def in_threads(work):
    """Run work(0), work(1) … at the same time; their results, or the first exception."""
    together = threading.Barrier(THREADS)

    def start(number):
        together.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(start, range(THREADS)))


@EVERY
def test_threads_with_streams_of_their_own(version):
    # Ragged shapes, so that the versions that pad use scratch; each thread has another shape at each turn.
    def work(number):
        rng = np.random.default_rng(number)
        stream = cuda.stream()
        for turn in range(6):
            m, n, k = 100 + 31 * number + turn, 150 - 7 * number, 90 + 13 * turn
            a, b = wide_integers(rng, m, k), units(rng, k, n)
            device_a, device_b = cuda.to_device(a, stream=stream), cuda.to_device(b, stream=stream)
            c = cuda.device_array((m, n), np.float32, stream=stream)
            for _ in range(3):
                sgemm(device_a, device_b, c, version=version.name, stream=stream)
            stream.synchronize()
            assert_exact(c.copy_to_host(), a, b)
        return number

    assert in_threads(work) == list(range(THREADS))


@EVERY
def test_the_first_calls_of_many_threads_compile_once(version, rng, monkeypatch):
    loaded, load, make_kernel = [], loading._load, version.module.make_kernel
    make_kernel.cache_clear()
    monkeypatch.setattr(loading, "_made", {})
    monkeypatch.setattr(loading, "_loaded", {})
    monkeypatch.setattr(loading, "_load", lambda *a: loaded.append(a) or load(*a))
    tile = version.default_tile
    a, b = wide_integers(rng, tile.bm, tile.bk), units(rng, tile.bk, tile.bn)
    device_a, device_b = cuda.to_device(a), cuda.to_device(b)
    results = in_threads(lambda _: sgemm(device_a, device_b, version=version.name))
    for c in results:
        assert_exact(c.copy_to_host(), a, b)
    assert make_kernel.cache_info().misses == 1
    # With the version's kernel, those that bring its operands in order.
    kernels = [id(kernel) for kernel, *_ in loaded]
    assert len(kernels) == len(set(kernels)) >= 1
