"""The harness on a GPU notices what would make its figures worthless: each is done here on purpose.

TF32 instead of float32, a launch that is not waited for, a warm cache taken for a cold one, a kernel that writes
nothing.
"""

import math

import pytest
from cuda.bindings import driver as cu
from numba import cuda

from numba_gemm.bench import cold
from numba_gemm.bench.measure import ShapeRun, silent
from numba_gemm.bench.measure import harness as make_harness
from numba_gemm.bench.peers import Candidate, CublasPeer
from numba_gemm.bench.product import Product
from numba_gemm.bench.results import impossible
from numba_gemm.driver import cuda_api, timing
from numba_gemm.driver.cublas import Cublas, MathMode
from numba_gemm.driver.cuda_api import DriverError
from numba_gemm.driver.timing import Events, GpuTimer, flush_floats
from numba_gemm.hardware.at_hand import at_hand

pytestmark = pytest.mark.gpu

SHAPE = (1024, 1024, 1024)
LARGE = (4096, 4096, 4096)


@pytest.fixture(scope="module")
def harness():
    return make_harness()


@pytest.fixture(scope="module")
def cublas():
    return Cublas()


@pytest.fixture
def product():
    return Product(SHAPE)


def test_tf32_is_refused(product, cublas):
    tf32 = Cublas(MathMode.TF32)
    operands = product.a, product.b, product.c
    assert not product.error(lambda: tf32.sgemm(*operands)) <= 1, "as the first result, held against float64"
    assert product.error(lambda: cublas.sgemm(*operands)) <= 1
    assert not product.error(lambda: tf32.sgemm(*operands)) <= 1, "held against the first right result, too"


def test_tf32_costs_a_peer_its_figures_and_nobody_else_theirs(harness):
    class Tf32Peer:
        name = "TF32"

        def prepare(self, product, _timer):
            handle = Cublas(MathMode.TF32)
            return Candidate(lambda: handle.sgemm(product.a, product.b, product.c))

    run = ShapeRun(SHAPE, ["auto"], harness, peers=[CublasPeer(), Tf32Peer()])
    run.prepare(silent)
    for _ in range(3):
        run.cold.round()
        run.warm.round()
    rows = {row.name: row for row in run.result().rows}
    assert rows["TF32"].wrong
    assert rows["TF32"].cold is None
    for name in ("auto", "cuBLAS"):
        assert rows[name].problem is None
        assert rows[name].cold > 0
        assert rows[name].warm > 0


def test_a_kernel_that_writes_nothing_is_refused_although_the_result_was_right_before(product, cublas):
    assert product.error(lambda: cublas.sgemm(product.a, product.b, product.c)) <= 1
    assert math.isnan(product.error(lambda: None))


def test_there_is_no_time_without_waiting(harness):
    """Events are asked while the GPU is still busy: an error, not a small number."""
    assert harness.ffma_limit > 0
    product, cublas, events = Product(LARGE), Cublas(), Events(0)
    cublas.sgemm(product.a, product.b, product.c)
    events.start()
    for _ in range(3):
        cublas.sgemm(product.a, product.b, product.c)
    events.end()
    with pytest.raises(DriverError, match="CUDA_ERROR_NOT_READY"):
        events.seconds()
    events.wait()
    assert events.seconds() > 0


def test_work_that_is_not_waited_for_shows_an_impossible_rate(harness, cublas):
    """It runs on a stream that the timed one does not wait for."""
    product = Product(LARGE)
    flags = cu.CUstream_flags.CU_STREAM_NON_BLOCKING
    stream = int(cuda_api.checked("cuStreamCreate", cu.cuStreamCreate(flags)))
    operands = product.a, product.b, product.c
    cublas.sgemm(*operands)
    honest = harness.timer.time(lambda: cublas.sgemm(*operands))
    assert impossible(product.flops, honest, harness.ffma_limit) is None
    try:
        seconds = harness.timer.time(lambda: cublas.sgemm(*operands, stream))
        assert impossible(product.flops, seconds, harness.ffma_limit) is not None
    finally:
        cuda_api.checked("cuStreamSynchronize", cu.cuStreamSynchronize(stream))
        cuda_api.checked("cuStreamDestroy", cu.cuStreamDestroy(stream))


def test_the_buffer_that_is_read_is_more_than_twice_the_l2():
    l2_bytes = int(cuda.get_current_device().L2_CACHE_SIZE)
    assert flush_floats(l2_bytes) * 4 > 2 * l2_bytes


def test_a_warm_cache_taken_for_cold_is_noticed(monkeypatch):
    found = cold.latencies(GpuTimer())
    assert found.cold > found.warm > 0
    monkeypatch.setattr(timing, "prepare_flush", lambda _: lambda: None)
    with pytest.raises(cold.NotColdError):
        cold.latencies(GpuTimer())


def test_the_measured_limit_is_not_above_what_the_device_has(harness):
    assert harness.ffma_limit <= 1.02 * at_hand().fp32_peak


def test_large_cubes_have_all_peers_that_are_installed(harness):
    """Whatever is missing says so, whatever is there is right."""
    run = ShapeRun(LARGE, [], harness)
    run.prepare(silent)
    run.cold.round()
    rows = run.result().rows
    assert [row.name for row in rows] == ["cuBLAS", "Triton", "PyTorch"]
    for row in rows:
        assert not row.wrong, row.problem
        assert row.cold is not None or "is not installed" in row.problem or "cannot use the GPU" in row.problem
