"""`tune`: verify, time, remember; and what is left when something of that goes wrong."""

import builtins
import io
import sys
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from numba import cuda
from support.tuning import DEVICE, KEY, RUNG_6, RUNG_7, SMALLER, FakeTimer, isolated

import numba_gemm
from numba_gemm.auto import database
from numba_gemm.auto.candidates import candidates
from numba_gemm.auto.entry import Choice, Timed
from numba_gemm.bench import progress
from numba_gemm.bench import tune as tuner
from numba_gemm.compiler.target import SIMULATOR
from numba_gemm.driver import cuda_api
from numba_gemm.ladder import find


class FakeTrial:
    """Nothing runs; results are as wrong as the test says, 0.5 of the bound if it says nothing."""

    def __init__(self, errors=None, refused=()):
        self.key = KEY
        self._errors, self._refused = errors or {}, refused
        self.made = None

    def __call__(self, *shape, **options):
        self.made = shape, options
        return self

    def launch(self, choice):
        if choice in self._refused:
            raise ValueError("not this shape")
        return lambda: choice

    def error(self, launch):
        return self._errors.get(launch(), 0.5)


@pytest.fixture
def fake(monkeypatch, tmp_path):
    """`tune` with a device, a trial and a timer that are none."""

    def install(trial, timer):
        monkeypatch.setattr(tuner, "Trial", trial)
        monkeypatch.setattr(tuner, "_gpu_timer", lambda: timer)
        monkeypatch.setattr(cuda_api, "current_device", lambda: 0)
        return timer

    with isolated(monkeypatch, tmp_path):
        yield install


def test_the_fastest_is_returned_and_remembered(fake):
    timer = fake(FakeTrial(), FakeTimer({str(SMALLER): [2e-3], str(RUNG_7): [3e-3]}))
    assert database.lookup(0, KEY) is None
    found = numba_gemm.tune(512, 256, 128)
    assert (found.version, found.tile, found.seconds) == (SMALLER.version, SMALLER.tile, 2e-3)
    assert found.times[:2] == (Timed(SMALLER, 2e-3), Timed(RUNG_7, 3e-3))
    assert found.wrong == ()
    assert found.tflops == pytest.approx(2 * 512 * 256 * 128 / 2e-3 / 1e12)
    assert database.lookup(0, KEY) == SMALLER
    (stored,) = database.read(found.path, DEVICE.header).values()
    assert stored.best == found.best
    assert stored.others == found.times[1:4]
    assert timer.seen == {str(choice) for choice in candidates(KEY, DEVICE.compute_capability)}
    assert timer.rounds == tuner.ROUNDS
    assert timer.warm_ups == tuner.WARM_UPS


def test_medians_count(fake):
    fake(FakeTrial(), FakeTimer({str(RUNG_6): [0.1, 0.1, 9.0], str(RUNG_7): [0.2, 0.2, 0.01]}))
    assert numba_gemm.tune(512, 256, 128, rounds=3).best == Timed(RUNG_6, 0.1)


@pytest.mark.parametrize("error", [1.01, float("inf"), float("nan")])
def test_a_wrong_candidate_is_never_timed(fake, error):
    timer = fake(FakeTrial({SMALLER: error}), FakeTimer({str(SMALLER): [1e-9], str(RUNG_6): [1e-3]}))
    with pytest.warns(RuntimeWarning, match=r"64×64×16.*is wrong for 512×256×128 \(NN\)"):
        found = numba_gemm.tune(512, 256, 128)
    assert found.best.choice == RUNG_6
    ((choice, seen),) = found.wrong
    assert choice == SMALLER
    assert seen == error or np.isnan(error)
    assert str(SMALLER) not in timer.seen
    assert SMALLER not in {timed.choice for timed in found.times}


def test_a_version_that_refuses_the_shape_is_no_candidate(fake):
    fake(FakeTrial(refused=[SMALLER]), FakeTimer({str(SMALLER): [1e-9]}))
    found = numba_gemm.tune(512, 256, 128)
    assert found.wrong == ()
    assert SMALLER not in {timed.choice for timed in found.times}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_if_all_are_wrong_nothing_is_stored(fake):
    everything = dict.fromkeys(candidates(KEY, DEVICE.compute_capability), 2.0)
    fake(FakeTrial(everything), FakeTimer())
    with pytest.raises(RuntimeError, match=r"none of \d+ candidates for 512×256×128 \(NN\) is right"):
        numba_gemm.tune(512, 256, 128)
    assert not DEVICE.path.exists()


def test_an_older_device(fake, monkeypatch):
    fake(FakeTrial(), FakeTimer())
    monkeypatch.setattr(database, "identity", lambda _: replace(DEVICE, compute_capability=(7, 5)))
    with pytest.raises(RuntimeError, match=r"no version that can be tuned runs on NVIDIA Test 1, .* 7\.5"):
        numba_gemm.tune(512, 256, 128)


def test_the_trial_is_of_what_was_asked_for(fake):
    trial = FakeTrial()
    fake(trial, FakeTimer())
    numba_gemm.tune(5, 6, 7, batch=8, trans_a=True, aligned=False)
    assert trial.made == ((5, 6, 7, 8), {"trans_a": True, "trans_b": False, "aligned": False})
    numba_gemm.tune(5, 6, 7, trans_b=True)
    assert trial.made == ((5, 6, 7, 1), {"trans_a": False, "trans_b": True, "aligned": True})


def test_where_nothing_can_be_stored_nothing_is_run(fake, tmp_path):
    trial = FakeTrial()
    fake(trial, FakeTimer())
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(OSError, match="cache"):
        numba_gemm.tune(512, 256, 128)
    assert trial.made is None


def test_tuning_in_spite_of_the_opt_out_stores_but_is_not_used(fake, monkeypatch):
    fake(FakeTrial(), FakeTimer())
    monkeypatch.setenv(database.OPT_OUT, "0")
    best = numba_gemm.tune(512, 256, 128).best
    assert database.lookup(0, KEY) is None
    monkeypatch.delenv(database.OPT_OUT)
    assert database.lookup(0, KEY) == best.choice


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"m": 0}, ValueError, "m is 0; there is nothing to time"),
        ({"batch": 0}, ValueError, "batch is 0"),
        ({"k": -1}, ValueError, "k is -1"),
        ({"n": 2.0}, TypeError, "n is 2.0"),
        ({"rounds": 0}, ValueError, "rounds is 0"),
        ({"trans_a": 1}, TypeError, "trans_a is 1"),
        ({"aligned": None}, TypeError, "aligned is None"),
    ],
)
def test_wrong_arguments(fake, arguments, error, text):
    trial = FakeTrial()
    fake(trial, FakeTimer())
    with pytest.raises(error, match=text):
        numba_gemm.tune(**{"m": 1, "n": 1, "k": 1, **arguments})
    assert trial.made is None


@pytest.mark.skipif(not SIMULATOR and cuda.is_available(), reason="a GPU")
def test_without_a_gpu():
    with pytest.raises(RuntimeError, match="unset NUMBA_ENABLE_CUDASIM" if SIMULATOR else "there is none that CUDA"):
        numba_gemm.tune(1, 1, 1)


# Progress -----------------------------------------------------------------------------------------------


def test_without_rich_there_is_no_bar(fake, monkeypatch):
    imported = builtins.__import__

    def without_rich(name, *arguments):
        if name.split(".")[0] == "rich":
            raise ImportError(name)
        return imported(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without_rich)
    fake(FakeTrial(), FakeTimer({str(RUNG_6): [1e-3]}))
    assert numba_gemm.tune(512, 256, 128).best.choice == RUNG_6


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "shown", "drawn"), [(Terminal, True, True), (Terminal, False, False), (io.StringIO, True, False)]
)
def test_the_bar_is_for_somebody_who_looks(monkeypatch, stream, shown, drawn):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stream())
    with progress.bar("512×256×128", 2, shown) as report:
        report("verify", 1)
        report("time", 1)
    assert ("512×256×128: time" in sys.stderr.getvalue()) == drawn


def test_every_step_is_reported(monkeypatch):
    steps = []

    @contextmanager
    def bar(_title, count, _shown):
        steps.append(count)
        yield lambda _, further: steps.append(-further)

    monkeypatch.setattr(tuner, "bar", bar)
    choices = candidates(KEY, DEVICE.compute_capability)
    trial = FakeTrial({RUNG_7: 2.0}, refused=[SMALLER])
    times, wrong = tuner.measure(trial, choices, FakeTimer(), rounds=4)
    assert (len(times), len(wrong)) == (len(choices) - 2, 1)
    assert steps[0] == len(choices) + 4
    assert sum(steps) == 0


# On a device --------------------------------------------------------------------------------------------


@pytest.mark.device
def test_with_kernels_that_run(monkeypatch, tmp_path):
    """All but the clock is real: small tiles are verified, the one that the clock favours is found."""
    small = [Choice(find(number), find(number).small_tile) for number in (6, 7)]
    monkeypatch.setattr(tuner, "candidates", lambda *_: small)
    monkeypatch.setattr(tuner, "_gpu_timer", lambda: FakeTimer({str(small[1]): [1e-3]}))
    with isolated(monkeypatch, tmp_path):
        monkeypatch.setattr(database, "why_not", lambda *_: None)  # DEVICE need not be this one
        found = numba_gemm.tune(20, 24, 12, rounds=1, progress=False)
        assert found.best == Timed(small[1], 1e-3)
        assert database.lookup(0, found.key) == small[1]


@pytest.mark.gpu
def test_for_real(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(database.OPT_OUT, raising=False)
    device = cuda_api.current_device()
    few = candidates(KEY._replace(m=64, n=64, k=32), cuda_api.compute_capability(device))[:3]
    monkeypatch.setattr(tuner, "candidates", lambda *_: few)
    database.forget()
    try:
        found = numba_gemm.tune(64, 64, 32, rounds=3, progress=False)
        assert found.wrong == ()
        assert {timed.choice for timed in found.times} == set(few)
        assert all(0 < timed.seconds < 1 for timed in found.times)
        assert found.path.is_relative_to(tmp_path)
        assert database.lookup(device, found.key) == found.best.choice
        database.forget()
        assert database.lookup(device, found.key) == found.best.choice, "not in the file"
    finally:
        monkeypatch.undo()
        database.forget()
