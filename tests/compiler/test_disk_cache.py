"""Compiled kernels on disk: the key knows everything that machine code is made of."""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import numba_gemm
from numba_gemm.compiler import disk_cache
from numba_gemm.compiler.target import SIMULATOR
from numba_gemm.driver.loading import gemm_kernel
from numba_gemm.kernels.interface import PLAIN
from numba_gemm.ladder import VERSIONS, find
from numba_gemm.tile import Tile

if not SIMULATOR:
    from numba.cuda.dispatcher import CUDACache

PACKAGE = Path(numba_gemm.__file__).parent


def imports_of(path):
    """Files of the package that a file of the package imports."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            modules |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    paths = {PACKAGE.joinpath(*module.split(".")[1:]) for module in modules if module.startswith("numba_gemm.")}
    return {path.with_suffix(".py") for path in paths if path.with_suffix(".py").is_file()}


def sources_of_kernels():
    """Every file that can end up in a kernel, found without the patterns that the package uses."""
    found = {path for room in ("device", "kernels") for path in (PACKAGE / room).rglob("*.py")}
    new = found
    while new:
        new = {imported for path in new for imported in imports_of(path)} - found
        found = found | new
    return sorted(found)


SOURCES = sources_of_kernels()


@pytest.fixture
def fingerprinted_package(tmp_path, monkeypatch):
    """A copy of the package, and its fingerprint as the package itself would take it."""
    copy = shutil.copytree(PACKAGE, tmp_path / "numba_gemm", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(disk_cache, "resources", SimpleNamespace(files=lambda _: copy))
    return copy, disk_cache.fingerprint.__wrapped__


def test_the_fingerprint_covers_device_and_kernels_and_what_they_import(monkeypatch):
    monkeypatch.setattr(disk_cache, "fingerprint_of", sorted)
    assert disk_cache.fingerprint.__wrapped__() == SOURCES
    assert {path.name for path in SOURCES} >= {"tile.py", "vector.py", "v4_vectorized.py", "cp_async_intrinsic.py"}


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_an_edit_changes_the_fingerprint(fingerprinted_package, source):
    copy, fingerprint = fingerprinted_package
    before = fingerprint()
    assert fingerprint() == before
    with (copy / source.relative_to(PACKAGE)).open("a", encoding="utf-8") as file:
        file.write("\n")
    assert fingerprint() != before


@pytest.mark.parametrize("name", ["device/new.py", "kernels/new.py", "kernels/detours/new.py"])
def test_a_new_file_changes_the_fingerprint(fingerprinted_package, name):
    copy, fingerprint = fingerprinted_package
    before = fingerprint()
    (copy / name).write_text("")
    assert fingerprint() != before


def test_a_file_of_the_host_side_does_not_change_it(fingerprinted_package):
    """Otherwise every edit would recompile every kernel."""
    copy, fingerprint = fingerprinted_package
    before = fingerprint()
    (copy / "api.py").write_text("")
    assert fingerprint() == before


def test_names_and_contents_do_not_run_into_each_other(tmp_path):
    first, second = tmp_path / "a", tmp_path / "ab"
    first.write_text("bc")
    second.write_text("c")
    assert disk_cache.fingerprint_of([first]) != disk_cache.fingerprint_of([second])
    assert disk_cache.fingerprint_of([first, second]) != disk_cache.fingerprint_of([second, first])


def key_of(name, tile, toolkit=("13.0", (9, 0))):
    kernel = gemm_kernel(find(name), tile)
    return kernel._cache._index_key(PLAIN, SimpleNamespace(magic_tuple=lambda: toolkit))


@pytest.mark.machine_code  # Numba itself, not the simulator
def test_keys_tell_versions_tiles_and_toolkits_apart():
    keys = [key_of(version.name, version.default_tile) for version in VERSIONS if not version.traits.foreign_files]
    keys += [key_of("vectorized", Tile(64, 64, 8, 4, 4)), key_of("vectorized", Tile(64, 64, 16, 4, 4))]
    keys += [key_of("vectorized", Tile(64, 64, 8, 4, 4), toolkit=("13.0", (8, 0)))]
    assert len(set(keys)) == len(keys) >= 7
    assert all(disk_cache.fingerprint() in key for key in keys)


@pytest.mark.machine_code  # Numba itself, not the simulator
@pytest.mark.parametrize("version", [v for v in VERSIONS if v.traits.foreign_files], ids=str)
def test_kernels_with_linked_files_are_not_cached(version):
    """Numba cannot, and would ignore an edited file in ptx/."""
    assert type(gemm_kernel(version, version.default_tile)._cache).__name__ == "NullCache"


@pytest.mark.machine_code  # Numba itself, not the simulator
def test_a_kernel_without_a_place_for_its_cache_is_no_error(monkeypatch):
    monkeypatch.setattr(CUDACache._impl_class, "_locator_classes", [])
    kernel = SimpleNamespace(py_func=multiply_in_a_process)
    disk_cache.enable_disk_cache(kernel, "nowhere")
    assert not hasattr(kernel, "_cache")


# In a process of its own, as caches are for. Prints the compiler's statistics and the largest error.
MULTIPLY = """
import json
import numpy as np
from numba import cuda
from numba_gemm import sgemm
from numba_gemm.driver.loading import gemm_kernel
from numba_gemm.ladder import find

a = np.arange(128 * 8, dtype=np.float32).reshape(128, 8) % 7
b = np.arange(8 * 128, dtype=np.float32).reshape(8, 128) % 5
c = sgemm(cuda.to_device(a), cuda.to_device(b), version=4)
stats = gemm_kernel(find(4), find(4).default_tile).stats
print(json.dumps({
    "hits": sum(stats.cache_hits.values()),
    "misses": sum(stats.cache_misses.values()),
    "error": float(np.abs(cuda.as_cuda_array(c).copy_to_host() - a @ b).max()),
}))
"""


def multiply_in_a_process(folder, cache_folder):
    """`folder` holds the package; compiled kernels go to `cache_folder`."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "NUMBA_CACHE_DIR": str(cache_folder),
    }
    done = subprocess.run(
        [sys.executable, "-c", MULTIPLY], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.gpu
def test_a_second_process_loads_what_the_first_compiled_until_a_helper_is_edited(tmp_path):
    package = shutil.copytree(PACKAGE, tmp_path / "numba_gemm", ignore=shutil.ignore_patterns("__pycache__"))
    cache_folder = tmp_path / "cache"
    assert multiply_in_a_process(tmp_path, cache_folder) == {"hits": 0, "misses": 1, "error": 0}
    assert multiply_in_a_process(tmp_path, cache_folder) == {"hits": 1, "misses": 0, "error": 0}

    # The kernel's file stays as it is; the helper that it calls now returns the four floats in another order.
    vector = package / "device" / "vector.py"
    text = vector.read_text(encoding="utf-8")
    lanes = "I32(q)) for q in range(4)"
    assert lanes in text
    vector.write_text(text.replace(lanes, "I32(3 - q)) for q in range(4)"), encoding="utf-8")
    edited = multiply_in_a_process(tmp_path, cache_folder)
    assert (edited["hits"], edited["misses"]) == (0, 1)
    assert edited["error"] > 0, "the old machine code ran"
