"""Where this run happens decides which tests it has; what is left out is said in the header, not skipped one by one."""

import importlib
import os

import numpy as np
import pytest
from numba import cuda

from numba_gemm.compiler.target import SIMULATOR
from numba_gemm.driver import launch

GPU = not SIMULATOR and cuda.is_available()


def _left_out(parallel: bool) -> dict[str, str]:
    """Markers that cannot run here, and why."""
    if SIMULATOR:
        return {"gpu": "no real GPU", "machine_code": "the simulator compiles nothing"}
    if GPU:
        others = {"alone": "other workers use the GPU; pytest -m alone runs them"} if parallel else {}
        return {"simulator": "a real GPU"} | others
    return {
        "gpu": "no GPU",
        "device": "no GPU; set NUMBA_ENABLE_CUDASIM=1 to run them in the simulator",
        "simulator": "NUMBA_ENABLE_CUDASIM is not 1",
    }


def _place() -> str:
    if SIMULATOR:
        return "Numba's CUDA simulator"
    if not GPU:
        return "CPU only, no simulator"
    device = cuda.get_current_device()
    name = device.name.decode() if isinstance(device.name, bytes) else device.name
    return f"{name}, compute capability {'.'.join(map(str, device.compute_capability))}"


def pytest_configure(config: pytest.Config) -> None:
    """The user's cache folder is not for tests: nothing there decides them, and they leave nothing there.

    All workers, and the processes that tests start, share a folder in pytest's own cache, so that machine code which
    one of them has compiled is there for the others. `pytest --cache-clear` empties it.
    """
    if config.pluginmanager.hasplugin("cacheprovider"):
        os.environ["XDG_CACHE_HOME"] = str(config.cache.mkdir("user-cache"))


def _in_parallel(config: pytest.Config) -> bool:
    """Whether pytest-xdist has other workers beside this process, or will have."""
    return "PYTEST_XDIST_WORKER" in os.environ or bool(config.getoption("numprocesses", default=None))


def pytest_report_header(config: pytest.Config) -> str:
    left_out = "; ".join(f"{marker} ({reason})" for marker, reason in _left_out(_in_parallel(config)).items())
    return f"numba_gemm tests on {_place()}; left out: {left_out}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # What compiles most comes first: others find it compiled, and short tests at the end keep all workers busy.
    items.sort(key=lambda item: not item.path.name.startswith("test_machine_code"))
    left_out = _left_out(_in_parallel(config))
    deselected = [item for item in items if any(item.get_closest_marker(marker) for marker in left_out)]
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        items[:] = [item for item in items if item not in set(deselected)]


@pytest.fixture
def rng() -> np.random.Generator:
    """The same numbers in every run."""
    return np.random.default_rng(20240229)


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch fails the test, whatever exception the test expects."""

    def prepared(step, *_):
        pytest.fail(f"{step} was prepared")

    for kind in ("SimulatedLaunch", "PreparedLaunch", "ZeroLaunch"):
        monkeypatch.setattr(launch, kind, prepared)


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the operands that were looked at closely, in turn."""
    names: list[str] = []
    for call in ("sgemm", "plan", "gemv"):
        module = importlib.import_module(f"numba_gemm.calls.{call}")
        read = module.as_operand
        monkeypatch.setattr(module, "as_operand", lambda a, name, s, read=read: names.append(name) or read(a, name, s))
    return names


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def cupy():
    return pytest.importorskip("cupy")
