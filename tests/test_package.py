"""The wheel: what it holds, and that it works where no checkout is around."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from numba_gemm.plots.results import BENCHMARKS

CHECKOUT = Path(__file__).parents[1]

#: What `import numba_gemm` has no use for: command line, plots, other array libraries, reading machine code.
#: (`cuda.core` is not listed: numba-cuda itself imports it.)
NOT_IMPORTED = (
    "cupy",
    "jax",
    "matplotlib",
    "nvmath",
    "pytest",
    "rich",
    "torch",
    "typer",
    "numba_gemm.analysis",
    "numba_gemm.bench",
    "numba_gemm.cli",
    "numba_gemm.plots",
    "numba_gemm.quiz",
)

LIST_IMPORTED = f"""
import sys
import numba_gemm
print(numba_gemm.__file__)
print(sorted(name for name in sys.modules if name.startswith({NOT_IMPORTED!r})))
"""

PUBLIC_NAMES = """
import numba_gemm
import numba_gemm.driver
from numba_gemm import *

print(sorted(set(numba_gemm.__all__) - set(dir(numba_gemm))))
print(sorted(name for name in numba_gemm.__all__ if globals()[name] is not getattr(numba_gemm, name)))
print(callable(numba_gemm.driver.compare), hasattr(numba_gemm, "no_such_name"))
print(numba_gemm.__version__)
"""

WITHOUT_A_COMPILER = """
import sys
from importlib import metadata

installed = metadata.version

def version(name):
    if name == "numba-cuda":
        raise metadata.PackageNotFoundError(name)
    return installed(name)

metadata.version = version
import numba_gemm

print(numba_gemm.__version__)
for name in ("sgemm", "explain"):
    try:
        getattr(numba_gemm, name)
    except ImportError as error:
        print(error)
print("numba" in sys.modules)
"""

COMPILE_RUNG_5 = """
from numba_gemm.analysis.code.machine_code import compile_kernel
from numba_gemm.analysis.code.sass import parse, select
from numba_gemm.device.async_copy import foreign_source
from numba_gemm.ladder import find

rung = find(5)
files = [foreign_source(name) for name in rung.traits.foreign_files]
code = compile_kernel(rung.make_kernel(rung.default_tile), rung.signature, "sm_90", files)
print(*files)
print(len(select(parse(code.sass), "LDGSTS")))
"""


def run(arguments, cwd, **environment):
    """Standard output of a process; what went wrong is the message of the failed test."""
    done = subprocess.run(
        arguments, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{arguments} failed:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def run_python(code, path, cwd, **environment):
    """Run code with only `path` to import the package from, and without a GPU."""
    environment = {"PYTHONPATH": str(path), "CUDA_VISIBLE_DEVICES": "", **environment}
    return run([sys.executable, "-W", "error", "-c", code], cwd, **environment).splitlines()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(CHECKOUT)]
    run(command, folder)
    (path,) = folder.glob("numba_gemm-*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A folder with the installed wheel and nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-index", "--target", str(folder)]
    run([sys.executable, "-m", "pip", "install", *options, str(wheel)], folder)
    return folder


def test_the_wheel_holds_the_package_with_its_foreign_code_and_results_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    package = CHECKOUT / "numba_gemm"
    sources = {f"numba_gemm/{path.relative_to(package).as_posix()}" for path in package.rglob("*.py")}
    assert sources <= names
    assert {"numba_gemm/py.typed", "numba_gemm/ptx/cp_async.cu", "numba_gemm/ptx/cp_async.ptx"} <= names
    code = {name for name in names if name.endswith(".py")}
    assert code == sources, "of the repository, a wheel holds the library alone: no benchmarks, no writers of notes"
    metadata = {name for name in names if name.split("/")[0].endswith(".dist-info")}
    assert any(name.endswith("/LICENSE") for name in metadata)
    others = {name for name in names - metadata if not name.startswith("numba_gemm/")}
    assert not others, f"beside the package: {sorted(others)}"
    data = {name for name in names if name.endswith(".json")}
    assert data == {"numba_gemm/auto/data/nvidia_h200.json", "numba_gemm/results/benchmarks.json"}
    assert not [name for name in names if "test" in name or name.endswith(".pyc")]


def test_foreign_code_is_found_inside_the_installation(installed, tmp_path):
    code = "from numba_gemm.device.async_copy import foreign_source; print(foreign_source('cp_async.cu'))"
    (found,) = run_python(code, installed, tmp_path)
    assert Path(found) == installed / "numba_gemm" / "ptx" / "cp_async.cu"


def test_results_are_found_inside_the_installation(installed, tmp_path):
    code = "from numba_gemm.plots.results import load, stored_results; print(load(stored_results()).path)"
    (found,) = run_python(code, installed, tmp_path)
    assert Path(found) == installed / "numba_gemm" / "results" / BENCHMARKS.name
    assert Path(found).read_bytes() == (CHECKOUT / BENCHMARKS).read_bytes()


@pytest.mark.parametrize("simulator", ["0", "1"])
def test_import_needs_no_gpu_and_loads_no_heavy_modules(installed, tmp_path, simulator):
    file, modules = run_python(LIST_IMPORTED, installed, tmp_path, NUMBA_ENABLE_CUDASIM=simulator)
    assert Path(file) == installed / "numba_gemm" / "__init__.py"
    assert modules == "[]"


def test_public_names_are_found_when_they_are_asked_for(installed, tmp_path):
    not_listed, others, found, version = run_python(PUBLIC_NAMES, installed, tmp_path)
    assert (not_listed, others, found) == ("[]", "[]", "True False")
    (metadata,) = installed.glob("numba_gemm-*.dist-info")
    assert metadata.name == f"numba_gemm-{version}.dist-info"


def test_without_a_compiler_every_public_name_says_what_to_install(installed, tmp_path):
    _, *errors, numba_is_imported = run_python(WITHOUT_A_COMPILER, installed, tmp_path)
    assert len(errors) == 2
    for name, error in zip(("sgemm", "explain"), errors, strict=True):
        assert error.startswith(f"no {name}: numba-cuda is not installed")
        assert "pip install 'numba-gemm[cu13]'" in error
    assert numba_is_imported == "False"


@pytest.mark.machine_code
def test_the_installed_package_compiles_rung_5_with_its_foreign_code(installed, tmp_path):
    files, copies = run_python(COMPILE_RUNG_5, installed, tmp_path)
    assert Path(files) == installed / "numba_gemm" / "ptx" / "cp_async.cu"
    assert int(copies) > 0
