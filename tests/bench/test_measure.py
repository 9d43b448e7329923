"""One shape with good, bad and missing candidates, in the simulator or on a GPU: what each costs, and whom."""

import types

import numpy as np
import pytest

from numba_gemm import ladder, plan
from numba_gemm.bench import measure, peers
from numba_gemm.bench.candidates import automatic, parse_versions, prepare_version
from numba_gemm.bench.measure import Harness, ShapeRun
from numba_gemm.bench.peers import Candidate, UnavailableError, peers_at
from numba_gemm.bench.product import Product
from numba_gemm.driver.timing import Times, Turns

pytestmark = pytest.mark.device

SHAPE = (5, 7, 40)
NAIVE = ladder.find("naive")


@pytest.fixture(autouse=True)
def few_host_calls(monkeypatch):
    monkeypatch.setattr(measure, "HOST_CALLS", 2)


class Timer:
    """Runs what it is given, and always reports the same time, half of it with a warm cache."""

    def __init__(self, seconds=1e-3):
        self.seconds = seconds

    def time(self, launch):
        launch()
        return self.seconds

    def time_warm(self, launch, launches):
        for _ in range(launches):
            launch()
        return self.seconds / 2


class Peer:
    def __init__(self, name, compute):
        self.name, self._compute = name, compute

    def prepare(self, product, _timer):
        a, b = (array.copy_to_host() for array in product.arrays[:2])
        compute = self._compute

        def launch():
            c = compute(a, b)
            if c is not None:
                product.arrays[2].copy_to_device(c)

        return Candidate(launch, version="1.2")


def tf32(x):
    """Rounded to the 10 bits of mantissa that TF32 has."""
    bits = (x.view(np.uint32) + 0x1000) & np.uint32(0xFFFFE000)
    return bits.view(np.float32)


def right(a, b):
    return a @ b


def fails(*_):
    raise OSError("no such\nlibrary")


class Missing:
    name = "missing"

    def prepare(self, _product, _timer):
        raise UnavailableError("triton is not installed; pip install triton")


def run_of(*candidates, requested=(NAIVE,), seconds=1e-3, limit=1e12):
    harness = Harness(Timer(seconds), limit)
    run = ShapeRun(SHAPE, requested, harness, peers=candidates)
    run.prepare(measure.silent)
    return run


def rows_of(run):
    return {row.name: row for row in run.result().rows}


def test_all_are_verified_and_the_right_ones_timed():
    run = run_of(Peer("cuBLAS", right))
    for turns in (run.cold, run.warm):
        for _ in range(3):
            turns.round()
    result = run.result()
    assert [row.name for row in result.rows] == ["1 (naive)", "cuBLAS"]
    for row in result.rows:
        assert (row.cold, row.warm, row.problem) == (1e-3, 0.5e-3, None)
        assert 0 < row.error <= 1
    assert result.rounds == 3
    assert result.rows[0].tile == str(NAIVE.default_tile)
    assert not result.failed


def zero_band(a, b):
    c = a @ b
    c[2] = 0
    return c


@pytest.mark.parametrize(
    ("compute", "text"),
    [
        (lambda a, b: tf32(a) @ tf32(b), "times the bound"),
        (lambda _a, _b: None, "unwritten"),
        (zero_band, "times the bound"),
        (lambda a, b: a[:, :-1] @ b[:-1], "times the bound"),
    ],
    ids=["TF32", "writes nothing", "a row of zeros", "a k is missing"],
)
def test_a_wrong_peer_is_refused_and_costs_nobody_else_anything(compute, text):
    run = run_of(Peer("cuBLAS", right), Peer("bad", compute))
    run.cold.round()
    rows = rows_of(run)
    assert rows["bad"].wrong
    assert text in rows["bad"].problem
    assert rows["bad"].cold is None
    assert rows["cuBLAS"].cold == rows["1 (naive)"].cold == 1e-3
    assert run.result().failed


def test_what_fails_or_is_missing_says_why_in_one_line():
    run = run_of(Peer("broken", fails), Missing(), Peer("cuBLAS", right))
    rows = rows_of(run)
    assert rows["broken"].problem == "OSError: no such library"
    assert rows["missing"].problem == "triton is not installed; pip install triton"
    assert not rows["missing"].wrong
    assert not run.result().failed
    assert set(run.cold.round()) == {"cuBLAS", "1 (naive)"}


def test_a_version_that_cannot_run_is_a_failure(monkeypatch):
    monkeypatch.setattr(measure, "prepare_version", fails)
    run = run_of(Peer("cuBLAS", right))
    assert rows_of(run)["1 (naive)"].problem == "OSError: no such library"
    assert run.result().failed


def test_an_impossible_rate_is_refused():
    """2800 FLOP in a picosecond: somebody did not wait."""
    run = run_of(Peer("cuBLAS", right), seconds=1e-12)
    run.cold.round()
    row = rows_of(run)["1 (naive)"]
    assert row.wrong
    assert "is impossible" in row.problem


def test_host_times_are_of_versions_only():
    run = run_of(Peer("cuBLAS", right))
    run.measure_host()
    rows = rows_of(run)
    assert rows["1 (naive)"].host > 0
    assert rows["cuBLAS"].host is None


def test_a_call_that_fails_costs_the_host_time_only(monkeypatch):
    def refuse(*_, **__):
        raise ValueError("no")

    monkeypatch.setattr(measure, "sgemm", refuse)
    run = run_of(Peer("cuBLAS", right))
    run.cold.round()
    run.measure_host()
    row = rows_of(run)["1 (naive)"]
    assert (row.cold, row.host) == (1e-3, None)
    assert row.problem == "sgemm: ValueError: no"
    assert run.result().failed


def test_run_reports_each_step_and_yields_shape_after_shape(monkeypatch):
    monkeypatch.setattr(measure, "peers_at", lambda _: [Peer("cuBLAS", right)])
    reported = []
    shapes, options = [SHAPE, (3, 4, 5)], {"cold": True, "warm": False, "rounds": 2}
    harness = Harness(Timer(), 1e12)
    results = list(measure.run(shapes, [NAIVE], harness, lambda _, n: reported.append(n), **options))
    assert [result.shape for result in results] == shapes
    assert sum(reported) == measure.steps(shapes, [NAIVE], **options)
    for result in results:
        assert result.rows[0].cold == 1e-3
        assert result.rows[0].warm is None


@pytest.mark.simulator  # a plan compiles on a GPU, for minutes; what is chosen comes from the same code
@pytest.mark.parametrize("shape", [(64, 64, 64), (1, 300, 200), (300, 200, 20), (7, 1, 9), (5, 7, 3)], ids=str)
def test_auto_is_what_a_plan_takes(shape):
    product, planned = Product(shape), plan(*shape)
    choice = automatic(product)
    assert planned.version in (choice.version.number, choice.version.name)
    assert planned.tile == choice.tile


@pytest.mark.parametrize("name", ["shared", "cp_async_k_major", "boundary"])
def test_versions_that_need_padding_another_layout_or_nothing_are_right(name):
    version = ladder.find(name)
    tile = version.small_tile
    for shape in ((tile.bm, tile.bn, 4 * tile.bk), (tile.bm + 1, tile.bn - 1, 4 * tile.bk + 1)):
        product = Product(shape)
        candidate = prepare_version(version, product, tile)
        assert product.error(candidate.launch) <= 1
        assert candidate.tile == str(tile)


def test_versions_as_written():
    assert parse_versions("1,auto, boundary,naive") == [NAIVE, "auto", ladder.find(6)]
    for text in ("", "99", "1,,2", "nonsense"):
        with pytest.raises(ValueError, match="unknown version"):
            parse_versions(text)


def test_all_peers_at_large_cubes_and_cublas_everywhere():
    assert [peer.name for peer in peers_at((4096, 4096, 4096))] == ["cuBLAS", "Triton", "PyTorch"]
    assert [peer.name for peer in peers_at((1, 4096, 4096))] == ["cuBLAS"]


def test_a_peer_that_is_not_installed_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(peers.importlib, "import_module", lambda name: __import__(f"no_{name}"))
    for peer, module in ((peers.TorchPeer(), "torch"), (peers.TritonPeer(), "torch")):
        with pytest.raises(UnavailableError, match=f"{module} is not installed; pip install {module}"):
            peer.prepare(None, None)


def test_a_copy_of_the_operands_is_refused():
    tensors = [types.SimpleNamespace(data_ptr=lambda: 1)] * 3
    torch = types.SimpleNamespace(
        cuda=types.SimpleNamespace(is_available=lambda: True), as_tensor=lambda *_, **__: tensors[0]
    )
    with pytest.raises(UnavailableError, match="made a copy"):
        peers.torch_tensors(torch, Product(SHAPE))


def test_turns_know_all_times():
    turns = Turns(Timer(), {"a": lambda: None})
    turns.round()
    turns.round()
    assert turns.times == {"a": Times((1e-3, 1e-3))}
