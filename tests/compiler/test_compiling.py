"""Compiling for a device that is not there, in one thread of several."""

import threading
from types import SimpleNamespace

import pytest

from numba_gemm.analysis.code import machine_code
from numba_gemm.compiler.compiling import COMPILING, current_compute_capability, pretended_device
from numba_gemm.compiler.target import SIMULATOR
from numba_gemm.ladder import find

if not SIMULATOR:
    from numba.cuda import dispatcher

pytestmark = pytest.mark.machine_code  # Numba itself, not the simulator

#: What a thread may wait for another one before the test is given up.
LONG = 60


@pytest.fixture
def real(monkeypatch):
    """A device that is there: how Numba asks for it."""

    def get_current_device():
        return SimpleNamespace(compute_capability=(7, 5))

    monkeypatch.setattr(dispatcher, "get_current_device", get_current_device)
    return get_current_device


class Thread(threading.Thread):
    """One whose result or exception `join` hands on."""

    def __init__(self, function):
        super().__init__(daemon=True)
        self._function, self._result, self._error = function, None, None
        self.start()

    def run(self):
        try:
            self._result = self._function()
        except BaseException as error:
            self._error = error

    def result(self):
        self.join(LONG)
        assert not self.is_alive(), "the thread waits for ever"
        if self._error is not None:
            raise self._error
        return self._result


def test_other_threads_see_the_device_that_is_there(real):
    with pretended_device((9, 0)):
        assert current_compute_capability() == (9, 0)
        assert Thread(current_compute_capability).result() == (7, 5)
        with pretended_device((8, 0)):
            assert current_compute_capability() == (8, 0)
            assert Thread(current_compute_capability).result() == (7, 5)
        assert current_compute_capability() == (9, 0)
    assert dispatcher.get_current_device is real


def test_an_error_restores_it(real):
    with pytest.raises(KeyError), pretended_device((9, 0)):
        raise KeyError
    assert dispatcher.get_current_device is real
    assert Thread(current_compute_capability).result() == (7, 5)


def test_two_threads_that_begin_while_the_other_has_not_ended(real):
    """The first ends first: what the second then restores must not be what the first had set."""
    inside, waits = threading.Event(), threading.Event()

    def first():
        with pretended_device((9, 0)):
            inside.set()
            waits.wait(0.5)  # the second cannot come in, and does not say so
            return current_compute_capability()

    def second():
        assert inside.wait(LONG)
        with pretended_device((8, 0)):
            waits.set()
            return current_compute_capability()

    threads = [Thread(first), Thread(second)]
    assert [thread.result() for thread in threads] == [(9, 0), (8, 0)]
    assert dispatcher.get_current_device is real
    assert current_compute_capability() == (7, 5)


def test_many_threads_leave_it_as_it_was(real):
    def pretend(capability):
        for _ in range(200):
            assert current_compute_capability() == (7, 5)
            with pretended_device(capability):
                assert current_compute_capability() == capability

    threads = [Thread(lambda major=major: pretend((major, 0))) for major in (8, 9, 10, 12)]
    for thread in threads:
        thread.result()
    assert dispatcher.get_current_device is real


def test_compiling_waits_for_compiling():
    """What loads a kernel holds the lock, too: the compiler is one thread's at a time, which may take it again."""
    done = threading.Event()

    def compile_one():
        with COMPILING, COMPILING:
            done.set()

    with COMPILING:
        thread = Thread(compile_one)
        assert not done.wait(0.2)
    thread.result()
    assert done.is_set()


@pytest.mark.usefixtures("real")
def test_two_threads_inspect_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    version = find("naive")
    seen = []
    together = threading.Barrier(3)

    def inspected(arch):
        together.wait(LONG)
        return machine_code.compile_version(version, arch)

    def others():
        together.wait(LONG)
        while any(thread.is_alive() for thread in threads):
            seen.append(current_compute_capability())

    threads = [Thread(lambda arch=arch: inspected(arch)) for arch in ("sm_80", "sm_90")]
    Thread(others).result()
    codes = [thread.result() for thread in threads]
    assert [code.arch for code in codes] == ["sm_80", "sm_90"]
    assert ".target\tsm_80" in machine_code.disassemble(codes[0].cubin)
    assert ".target\tsm_90" in machine_code.disassemble(codes[1].cubin)
    assert set(seen) == {(7, 5)}
