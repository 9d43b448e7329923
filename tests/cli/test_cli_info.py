"""`numba-gemm info`: what is here, what is missing, and what does not fit together."""

import json
from importlib import metadata

import pytest
from typer.testing import CliRunner

from numba_gemm.cli import app
from numba_gemm.cli import info as command
from numba_gemm.compiler.packages import find_problems
from numba_gemm.hardware.devices import H200

FITTING = {"numpy": "2.4.6", "numba-cuda": "0.30.4", "nvidia-nvjitlink": "13.0.88"}


@pytest.fixture
def machine(monkeypatch):
    """One with everything; tests take away from it."""
    monkeypatch.setenv("COLUMNS", "120")
    packages, tools = dict(FITTING), {name: f"/lib/{name}" for name in command._TOOLS}
    monkeypatch.setattr(command, "at_hand", lambda: H200)
    monkeypatch.setattr(command, "_driver", lambda: {"cuda": "13.0", "version": "580.1"})
    monkeypatch.setattr(command, "installed_packages", lambda: packages)
    monkeypatch.setattr(command, "_TOOLS", {name: lambda name=name: tools.get(name) for name in tools})
    return packages, tools


def invoke(*arguments, status=0):
    done = CliRunner().invoke(app.app, ["info", *arguments])
    assert done.exit_code == status, done.output
    return done.stdout


@pytest.mark.usefixtures("machine")
def test_where_all_is_there():
    out = invoke()
    for text in ("H200", "132 multiprocessors", "60 MiB", "580.1, for CUDA 13.0", "nvJitLink", "2.4.6"):
        assert text in out
    assert "missing" not in out
    found = json.loads(invoke("--json"))
    assert found["gpu"]["name"] == "H200"
    assert found["missing"] == found["problems"] == []


@pytest.mark.parametrize(
    ("tool", "remedy"),
    [
        ("cuBLAS", "pip install 'numba-gemm[cublas12]'"),
        ("NVVM", "pip install 'numba-gemm[cu12]'"),
        ("nvdisasm", "pip install 'numba-gemm[inspect]'"),
        ("PyTorch", "pip install torch"),
        ("Triton", "pip install triton"),
        ("pytest-benchmark", "pip install 'numba-gemm[bench]'"),
    ],
)
def test_what_is_missing_is_named_with_what_it_is_for_and_how_to_get_it(machine, tool, remedy, monkeypatch):
    monkeypatch.setattr(command, "_driver", lambda: {"cuda": "12.8"})
    packages, tools = machine
    del tools[tool], packages["nvidia-nvjitlink"]
    (missing,) = json.loads(invoke("--json"))["missing"]
    assert (missing["name"], missing["remedy"]) == (tool, remedy)
    assert missing["purpose"]
    assert remedy in " ".join(invoke().split())


@pytest.mark.usefixtures("machine")
def test_without_a_gpu_it_says_why_and_what_one_would_add(monkeypatch):
    monkeypatch.setattr(command, "at_hand", lambda: None)
    monkeypatch.setattr(command, "_driver", dict)
    found = json.loads(invoke("--json"))
    assert found["gpu"] is None
    (missing,) = found["missing"]
    assert missing["name"] == "a GPU (the CUDA driver is missing, or shows no device)"
    assert "`bench`" in missing["purpose"]
    assert "compute capability 8.0" in missing["remedy"]


@pytest.mark.usefixtures("machine")
def test_a_driver_that_fails_is_no_traceback(monkeypatch):
    def fail():
        raise RuntimeError("the driver does not tell its name: 999")

    monkeypatch.setattr(command, "at_hand", fail)
    (missing,) = json.loads(invoke("--json"))["missing"]
    assert missing["name"] == "a GPU (the driver does not tell its name: 999)"
    assert "999" in invoke()


@pytest.mark.parametrize(
    ("numpy", "numba_cuda", "fits"),
    [
        ("2.4.6", "0.30.4", True),
        ("1.26.4", "0.30.4", True),
        ("2.5.0", "0.30.4", False),
        ("2.5.0rc1", "0.30.0", False),
        ("3.0", "0.29.1", False),
        ("2.10.1", "0.30.4", False),
        ("2.5.0", "0.31.0", True),
    ],
)
def test_numpy_that_numba_cuda_cannot_work_with(numpy, numba_cuda, fits):
    found = find_problems({**FITTING, "numpy": numpy, "numba-cuda": numba_cuda}, "13.0")
    assert (not found) == fits
    if not fits:
        assert f"NumPy {numpy}" in found[0].text
        assert found[0].remedy == "pip install 'numpy<2.5'"


def test_what_does_not_fit_is_status_1_and_recommends_the_pin(machine):
    packages, _ = machine
    packages["numpy"] = "2.5.1"
    assert "pip install 'numpy<2.5'" in " ".join(invoke(status=1).split())
    (problem,) = json.loads(invoke("--json", status=1))["problems"]
    assert "numpy.row_stack" in problem["text"]


@pytest.mark.parametrize(("driver", "fits"), [("13.0", True), ("13.2", True), (None, True), ("12.8", False)])
def test_a_compiler_that_is_newer_than_the_driver(driver, fits):
    found = find_problems(FITTING, driver)
    assert (not found) == fits
    if not fits:
        assert "pip install 'numba-gemm[cu12]'" in found[0].remedy


def test_without_numba_cuda_there_is_no_compiler():
    (problem,) = find_problems({"numpy": "2.4.6"}, None)
    assert "numba-cuda is not installed" in problem.text


def test_of_this_machine(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NUMBA_GEMM_TUNING", "0")
    out = invoke()
    assert metadata.version("numba-cuda") in out
    assert "NUMBA_GEMM_TUNING=" in out
    assert ("runs the kernels" in out) == (command.at_hand() is None)
