"""What the timer measures, on a GPU that is a queue with a clock: GPU time and nothing else, cold or warm as asked."""

import pytest

from numba_gemm.bench import cold
from numba_gemm.driver import timing
from numba_gemm.driver.timing import GpuTimer, Turns

MICROSECOND = 1e-6
FLUSH = 40 * MICROSECOND


class FakeGpu:
    """Works off a queue while the host goes on; its L2 holds what ran last."""

    def __init__(self):
        self.host = self.free = 0.0
        self.in_l2 = None
        self.launched = []

    def enqueue(self, seconds, host):
        """Takes so long on the GPU, and the host so long to enqueue it."""
        self.host += host
        self.free = max(self.free, self.host) + seconds

    def kernel(self, name, cold=20 * MICROSECOND, warm=10 * MICROSECOND, host=5 * MICROSECOND):
        def launch():
            self.launched.append(name)
            self.enqueue(warm if self.in_l2 == name else cold, host)
            self.in_l2 = name

        return launch

    def flush(self):
        self.enqueue(FLUSH, 5 * MICROSECOND)
        self.in_l2 = None


@pytest.fixture
def gpu(monkeypatch):
    gpu = FakeGpu()

    class Events:
        def __init__(self, _stream):
            self.at_start = self.at_end = None

        def start(self):
            self.at_start = max(gpu.free, gpu.host)

        def end(self):
            self.at_end = max(gpu.free, gpu.host)

        def started(self):
            return gpu.host >= self.at_start

        def wait(self):
            gpu.host = max(gpu.host, self.at_end)

        def seconds(self):
            assert gpu.host >= self.at_end, "nobody waited for the GPU"
            return self.at_end - self.at_start

    monkeypatch.setattr(timing, "Events", Events)
    monkeypatch.setattr(timing, "prepare_flush", lambda _stream: gpu.flush)
    return gpu


def test_a_cold_time_is_that_of_the_gpu_alone(gpu):
    timer = GpuTimer()
    launch = gpu.kernel("a")
    for _ in range(3):
        assert timer.time(launch) == pytest.approx(20 * MICROSECOND)
    assert timer.late == 0


@pytest.mark.parametrize("host", [50, 100, 300])
def test_a_slow_host_is_hidden_behind_more_flushes(gpu, host):
    timer = GpuTimer()
    assert timer.time(gpu.kernel("a", host=host * MICROSECOND)) == pytest.approx(20 * MICROSECOND)
    assert timer.late == 0


def test_a_host_that_cannot_be_hidden_is_counted(gpu):
    timer = GpuTimer()
    assert timer.time(gpu.kernel("a", host=10_000 * MICROSECOND)) > 1000 * MICROSECOND
    assert timer.late == 1


def test_a_warm_time_is_of_launches_that_found_their_operands_in_the_l2(gpu):
    timer = GpuTimer()
    assert timer.time_warm(gpu.kernel("a"), 20) == pytest.approx(10 * MICROSECOND)
    assert timer.time(gpu.kernel("a")) == pytest.approx(20 * MICROSECOND), "warm taken for cold"
    assert timer.late == 0


def test_candidates_take_turns(gpu):
    turns = Turns(GpuTimer(), {"a": gpu.kernel("a"), "b": gpu.kernel("b", cold=30 * MICROSECOND)})
    turns.warm_up(2)
    assert gpu.launched == ["a", "a", "b", "b"]
    for _ in range(3):
        turns.round()
    assert gpu.launched[4:] == ["a", "b"] * 3
    assert {name: len(times.seconds) for name, times in turns.times.items()} == {"a": 3, "b": 3}
    assert turns.times["b"].median == pytest.approx(30 * MICROSECOND)


def test_warm_turns_take_as_many_launches_as_last_long_enough(gpu):
    turns = Turns(GpuTimer(), {"short": gpu.kernel("short"), "long": gpu.kernel("long", 0.02, 0.01)}, warm=True)
    turns.round()
    gpu.launched.clear()
    turns.round()
    assert gpu.launched.count("short") == 1 + timing.launches_for(10 * MICROSECOND)
    assert gpu.launched.count("long") == 2
    assert turns.times["short"].median == pytest.approx(10 * MICROSECOND)
    assert turns.times["long"].median == pytest.approx(0.01)


def test_compare_warms_up_and_measures_cold(gpu):
    times = GpuTimer().compare({"a": gpu.kernel("a")}, rounds=4, warm_ups=3)
    assert gpu.launched == ["a"] * 7
    assert times["a"].seconds == pytest.approx((20 * MICROSECOND,) * 4)
    assert times["a"].tflops(2 * 10**7) == pytest.approx(1)


@pytest.mark.parametrize("seconds", [0, 1e-7, 1e-5, 1e-4, 1])
def test_launches_of_a_warm_time_last_long_enough_but_are_not_too_many(seconds):
    launches = timing.launches_for(seconds)
    assert 1 <= launches <= 20
    assert launches == 20 or launches * seconds >= 200e-6
    assert launches == 1 or (launches - 1) * seconds < 200e-6


@pytest.mark.parametrize("l2_bytes", [6 * 2**20, 50 * 2**20, 60 * 2**20 + 3])
def test_the_buffer_is_more_than_twice_the_l2(l2_bytes):
    assert timing.flush_floats(l2_bytes) * 4 > 2 * l2_bytes


# Is cold cold? ---------------------------------------------------------------------------------------


def test_a_flush_that_flushes_is_trusted(gpu, monkeypatch):
    monkeypatch.setattr(cold, "prepare_chain", lambda: gpu.kernel("chain", 800 * MICROSECOND, 400 * MICROSECOND))
    found = cold.latencies(GpuTimer())
    assert found.cold == pytest.approx(800 * MICROSECOND / cold.LINKS)
    assert found.warm == pytest.approx(400 * MICROSECOND / cold.LINKS)


def test_a_warm_cache_taken_for_cold_is_noticed(gpu, monkeypatch):
    monkeypatch.setattr(cold, "prepare_chain", lambda: gpu.kernel("chain", 800 * MICROSECOND, 400 * MICROSECOND))
    monkeypatch.setattr(timing, "prepare_flush", lambda _: lambda: gpu.enqueue(FLUSH, 5 * MICROSECOND))
    with pytest.raises(cold.NotColdError, match="the flush does not flush"):
        cold.latencies(GpuTimer())
