"""Compiled kernels on disk: the key knows everything that machine code is made of, and what is kept is what runs."""

import ast
import json
import multiprocessing
import os
import random
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numba import config, cuda, float32, types, uint32
from support.kernels import gemm_kernel

import numba_gemm
from numba_gemm.analysis.code.machine_code import disassemble
from numba_gemm.compiler import disk_cache, sources, toolchain
from numba_gemm.compiler.compiling import pretended_device
from numba_gemm.compiler.disk_cache import KERNELS, code_of, enable_disk_cache
from numba_gemm.compiler.target import SIMULATOR
from numba_gemm.device.epilogue import Epilogue
from numba_gemm.kernels.interface import Variant
from numba_gemm.ladder import VERSIONS, find
from numba_gemm.tile import Tile

if not SIMULATOR:
    from numba.cuda import codegen, dispatcher

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
    found = {path for room in ("compiler", "device", "kernels") for path in (PACKAGE / room).rglob("*.py")}
    new = found
    while new:
        new = {imported for path in new for imported in imports_of(path)} - found
        found = found | new
    return sorted(found)


SOURCES = sources_of_kernels()


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty cache of the test's own, which is not there yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(KERNELS.switch, raising=False)
    monkeypatch.delenv(KERNELS.limit, raising=False)
    return KERNELS.folder


# Sources ---------------------------------------------------------------------------------------------


@pytest.fixture
def package(tmp_path):
    """A copy of the package."""
    return shutil.copytree(PACKAGE, tmp_path / "numba_gemm", ignore=shutil.ignore_patterns("__pycache__"))


def append(path):
    with path.open("a", encoding="utf-8") as file:
        file.write("\n")


def test_the_fingerprint_covers_device_and_kernels_and_what_they_import():
    assert sources.sources_at(PACKAGE) == SOURCES
    assert {path.name for path in SOURCES} >= {"tile.py", "vector.py", "v4_vectorized.py", "cp_async_intrinsic.py"}


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_an_edit_changes_the_fingerprint(package, source):
    before = sources.fingerprint_at(package)
    assert sources.fingerprint_at(package) == before
    append(package / source.relative_to(PACKAGE))
    assert sources.fingerprint_at(package) != before


@pytest.mark.parametrize("name", ["device/new.py", "kernels/new.py", "kernels/detours/new.py"])
def test_a_new_file_changes_the_fingerprint(package, name):
    before = sources.fingerprint_at(package)
    (package / name).write_text("")
    assert sources.fingerprint_at(package) != before


def test_files_that_change_places_change_the_fingerprint(package):
    before = sources.fingerprint_at(package)
    one, other = package / "device" / "__init__.py", package / "kernels" / "__init__.py"
    texts = one.read_bytes(), other.read_bytes()
    assert texts[0] != texts[1]
    one.write_bytes(texts[1])
    other.write_bytes(texts[0])
    assert sources.fingerprint_at(package) != before


def test_a_file_of_the_host_side_does_not_change_it(package):
    """Otherwise every edit would recompile every kernel."""
    before = sources.fingerprint_at(package)
    (package / "api.py").write_text("")
    assert sources.fingerprint_at(package) == before


def test_files_of_an_editor_do_not_count(package):
    before = sources.fingerprint_at(package)
    (package / "kernels" / ".#v4_vectorized.py").symlink_to("me@here.1234")
    (package / "kernels" / "dangling.py").symlink_to("nothing")
    assert sources.fingerprint_at(package) == before


def test_of_sources_that_cannot_be_read_no_two_are_alike(tmp_path):
    first, second = (sources.fingerprint_at(tmp_path / "archive.zip" / "numba_gemm") for _ in range(2))
    assert first != second


def test_names_and_contents_do_not_run_into_each_other(tmp_path):
    first, second = tmp_path / "a", tmp_path / "ab"
    first.write_text("bc")
    second.write_text("c")
    assert sources.fingerprint_of([first]) != sources.fingerprint_of([second])
    assert sources.fingerprint_of([first, second]) != sources.fingerprint_of([second, first])


# Imports first, edits then, and asks at last, as an upgrade in a running session does.
EDITED = """
import sys
from pathlib import Path
import numba_gemm
from numba_gemm.auto import database
from numba_gemm.compiler import disk_cache, sources

package = Path(numba_gemm.__file__).parent
before = sources.fingerprint_at(package)
with (package / "device" / "vector.py").open("a") as file:
    file.write("# edited")
assert sources.fingerprint_at(package) != before
assert disk_cache.fingerprint() == database.fingerprint() == before
"""


def test_an_edit_in_a_running_session_does_not_count(package):
    """The session goes on with the code that it imported, and what it keeps has to be known by that."""
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    subprocess.run([sys.executable, "-c", EDITED], cwd=package.parent, env=environment, check=True)


# Keys ------------------------------------------------------------------------------------------------


def key_of(name, tile, variant=None, *, capability=(9, 0), arguments=None):
    version = find(name)
    cache = gemm_kernel(version, tile or version.default_tile, variant)._cache
    return disk_cache.key_of(cache._kernel, cache._identity, arguments or version.signature.args, capability)


@pytest.mark.machine_code  # Numba itself, not the simulator
def test_keys_tell_versions_tiles_variants_types_and_architectures_apart():
    # Names for one kernel with one tile share it.
    versions = {(version.module.__name__, version.default_tile): version for version in VERSIONS}.values()
    keys = [key_of(version.name, None) for version in versions if not version.traits.foreign_files]
    keys += [key_of("vectorized", tile) for tile in (Tile(64, 64, 8, 4, 4), Tile(64, 64, 16, 4, 4))]
    keys += [key_of("vectorized", None, capability=capability) for capability in ((8, 0), (8, 9), (10, 0))]
    of_writable, of_read_only = (types.Array(types.float32, 2, "C", readonly=readonly) for readonly in (False, True))
    keys += [key_of("vectorized", None, arguments=(of_read_only, of_writable, of_writable))]
    keys += [key_of("vectorized", None, arguments=(types.Array(types.float32, 2, "A"),) * 3)]
    variants = [Variant(whole=False), Variant(vector=False), Variant(epilogue=Epilogue(bias=True))]
    variants += [Variant(epilogue=Epilogue(key=key, function=lambda x: x)) for key in ("one", "other")]
    with pretended_device((9, 0)):  # functions of a user are compiled by themselves first
        keys += [key_of("boundary", None, variant) for variant in variants]
    assert len(set(keys)) == len(keys)
    assert all(sources.fingerprint() in key for key in keys)


def scaled(factor, **options):
    """A small kernel, and what makes it another one than those with other factors."""
    scale = np.float32(factor)

    @cuda.jit(**options)
    def kernel(x):
        i = uint32(cuda.threadIdx.x)
        x[i] = x[i] * scale

    enable_disk_cache(kernel, f"times {factor}")
    return kernel


ARGUMENTS = (float32[::1],)


@pytest.mark.machine_code
@pytest.mark.parametrize(
    "options",
    [
        {"opt": False},
        {"fastmath": True},
        {"lineinfo": True},
        {"max_registers": 32},
        {"launch_bounds": (128, 2)},
        {"launch_bounds": 128},
    ],
    ids=str,
)
def test_options_of_the_compiler_are_in_the_key(options):
    keys = {disk_cache.key_of(scaled(2, **given), "same", ARGUMENTS, (9, 0)) for given in ({}, options)}
    assert len(keys) == 2


@pytest.mark.machine_code
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OPT", 0),
        ("DEBUGINFO_DEFAULT", 1),
        ("CUDA_DEBUGINFO_DEFAULT", 1),
        ("BOUNDSCHECK", 1),
        ("EXTEND_VARIABLE_LIFETIMES", 1),
        ("CUDA_ENABLE_NRT", True),
        ("FORCE_CUDA_CC", (8, 0)),
        ("UNHEARD_OF", 1),
    ],
)
def test_settings_of_numba_are_in_the_key(monkeypatch, name, value):
    before = key_of("vectorized", None)
    monkeypatch.setattr(config, name, value, raising=False)
    assert key_of("vectorized", None) != before


@pytest.mark.machine_code
@pytest.mark.parametrize("name", ["CACHE_DIR", "NUMBA_NUM_THREADS", "THREADING_LAYER", "COLOR_SCHEME", "CPU_NAME"])
def test_settings_that_decide_no_code_are_not(monkeypatch, name):
    before = key_of("vectorized", None)
    monkeypatch.setattr(config, name, "other")
    assert key_of("vectorized", None) == before


@pytest.fixture
def fresh_toolchain():
    """What is found out about it is found out anew, now and after the test."""
    toolchain.toolchain.cache_clear()
    yield toolchain.toolchain.cache_clear
    toolchain.toolchain.cache_clear()


@pytest.mark.machine_code
@pytest.mark.parametrize("package", toolchain.PACKAGES)
def test_versions_of_packages_are_in_the_key(monkeypatch, fresh_toolchain, package):
    before = key_of("vectorized", None)
    real = toolchain.metadata.version
    monkeypatch.setattr(toolchain.metadata, "version", lambda name: "9.9" if name == package else real(name))
    fresh_toolchain()
    assert key_of("vectorized", None) != before


@pytest.mark.machine_code
@pytest.mark.parametrize("library", toolchain.LIBRARIES)
def test_files_of_libraries_are_in_the_key(monkeypatch, fresh_toolchain, tmp_path, library):
    """With the same path and size, as a patch release might have."""
    file = str(shutil.copyfile(__file__, tmp_path / "library"))
    paths = dict.fromkeys(toolchain.LIBRARIES, None) | {library: file}
    monkeypatch.setattr(toolchain, "library_path", paths.get)
    keys = set()
    for seconds in (1, 2):
        os.utime(file, (seconds, seconds))
        fresh_toolchain()
        keys.add(key_of("vectorized", None))
    paths[library] = None
    fresh_toolchain()
    keys.add(key_of("vectorized", None))
    assert len(keys) == 3


# What is not kept ------------------------------------------------------------------------------------


@pytest.mark.machine_code  # Numba itself, not the simulator
@pytest.mark.parametrize("version", [v for v in VERSIONS if v.traits.foreign_files], ids=str)
def test_kernels_with_linked_files_are_not_kept(version):
    """The key does not know the files in ptx/."""
    assert type(gemm_kernel(version, version.default_tile)._cache).__name__ == "NullCache"


@pytest.mark.machine_code
@pytest.mark.parametrize(
    "options",
    [{"debug": True, "opt": False}, {"link": ["some.ptx"]}, {"shared_memory_carveout": 50}],
    ids=str,
)
def test_kernels_that_numba_compiles_otherwise_are_left_to_it(options):
    assert type(scaled(2, **options)._cache).__name__ == "NullCache"


@pytest.mark.machine_code
def test_kernels_are_debugged_when_the_settings_say_so(monkeypatch):
    monkeypatch.setattr(config, "CUDA_DEBUGINFO_DEFAULT", 1)
    assert type(scaled(2, opt=False)._cache).__name__ == "NullCache"


# What is kept ----------------------------------------------------------------------------------------


@pytest.fixture
def compiled(monkeypatch):
    """The list of what the compiler is given from now on."""
    calls = []
    if not SIMULATOR:
        compile_cubin = disk_cache.compile_cubin
        monkeypatch.setattr(disk_cache, "compile_cubin", lambda *a: calls.append(a[2]) or compile_cubin(*a))
    return calls


def holds(code, factor):
    """Whether machine code multiplies by this number: it is part of an instruction."""
    return struct.pack("<f", factor) in code.cubin


@pytest.mark.machine_code
def test_a_kernel_is_compiled_once_for_each_architecture(folder, compiled):
    for _ in range(2):  # another kernel each time, as in another process
        codes = {c: code_of(scaled(1234.5), ARGUMENTS, c) for c in ((9, 0), (8, 0))}
        assert codes[9, 0].cubin != codes[8, 0].cubin
        assert all(holds(code, 1234.5) for code in codes.values())
        assert all(code.name.encode() in code.cubin for code in codes.values())
    assert compiled == [(9, 0), (8, 0)]
    assert len(list(folder.iterdir())) == 2
    assert not holds(code_of(scaled(2345.5), ARGUMENTS, (9, 0)), 1234.5)


@pytest.mark.machine_code
@pytest.mark.parametrize("damage", [lambda _: b"", lambda data: data[:100], lambda data: data[:-1] + b"\0"])
def test_a_damaged_file_is_compiled_again(folder, compiled, damage):
    code_of(scaled(1234.5), ARGUMENTS, (9, 0))
    (path,) = folder.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    assert holds(code_of(scaled(1234.5), ARGUMENTS, (9, 0)), 1234.5)
    code_of(scaled(1234.5), ARGUMENTS, (9, 0))
    assert len(compiled) == 2


@pytest.mark.machine_code
def test_without_a_folder_kernels_are_compiled_and_not_kept(folder, compiled):
    folder.parent.parent.mkdir(parents=True)
    folder.parent.write_text("a file where the folder should be")
    assert all(holds(code_of(scaled(1234.5), ARGUMENTS, (9, 0)), 1234.5) for _ in range(2))
    assert len(compiled) == 2


@pytest.mark.machine_code
def test_the_environment_turns_it_off(folder, compiled, monkeypatch):
    monkeypatch.setenv("NUMBA_GEMM_KERNEL_CACHE", "0")
    assert all(holds(code_of(scaled(1234.5), ARGUMENTS, (9, 0)), 1234.5) for _ in range(2))
    assert len(compiled) == 2
    assert not folder.exists()


@pytest.mark.machine_code
def test_the_environment_sets_a_limit(folder, monkeypatch):
    code_of(scaled(1.5), ARGUMENTS, (9, 0))
    (path,) = folder.iterdir()
    monkeypatch.setenv("NUMBA_GEMM_KERNEL_CACHE_BYTES", str(path.stat().st_size * 5 // 2))
    for factor in (2.5, 3.5, 4.5):
        code_of(scaled(factor), ARGUMENTS, (9, 0))
    assert len(list(folder.iterdir())) == 2


def without_names(cubin):
    """Disassembly; Numba numbers what it compiles in a process, and a request for the log is noted in the code."""
    return re.sub(r"_ZN\w+", "NAME", disassemble(cubin)).replace('"-v  -arch', '"-arch')


@pytest.mark.machine_code
@pytest.mark.parametrize("name", ["naive", "vectorized", "boundary"])
def test_what_is_kept_is_what_numba_would_have_launched(monkeypatch, name):
    version = find(name)
    kernel = gemm_kernel(version, version.small_tile, Variant() if version.traits.takes_variants else None)
    ours = code_of(kernel, version.signature.args, (9, 0))
    monkeypatch.setattr(codegen.CUDACodeLibrary, "_ensure_cc", lambda *_: (9, 0, "a"))
    with pretended_device((9, 0)):
        numbas = dispatcher._Kernel(kernel.py_func, version.signature.args, **kernel.targetoptions)
        cubin = numbas._codelibrary.get_cubin().code
    assert without_names(ours.cubin) == without_names(cubin)
    assert not numbas.cooperative
    assert not numbas.launch_config_sensitive


@pytest.mark.machine_code
def test_errors_of_the_compiler_are_raised_and_not_kept(folder):
    kernel = cuda.jit(lambda x: x.no_such_attribute)
    enable_disk_cache(kernel, "wrong")
    for _ in range(2):
        with pretended_device((9, 0)), pytest.raises(Exception, match="no_such_attribute"):
            kernel.compile(ARGUMENTS)
    assert not folder.exists()


# Loading ---------------------------------------------------------------------------------------------


class Context:
    """Of a device that may load code and launches nothing."""

    def __init__(self, number, capability):
        self.device = SimpleNamespace(id=number, compute_capability=capability)
        self.loaded = []

    def create_module_image(self, code):
        self.loaded.append(code)
        return SimpleNamespace(get_function=lambda name: (self.device.id, name))


@pytest.mark.machine_code
def test_a_kernel_is_loaded_once_on_each_device_and_with_its_code(monkeypatch, compiled):
    contexts = [Context(0, (9, 0)), Context(1, (8, 0)), Context(2, (9, 0))]
    kernel = scaled(1234.5)
    with pretended_device((9, 0)):
        overload = kernel.compile(ARGUMENTS)
        assert kernel.compile(ARGUMENTS) is overload
    for context in contexts * 2:
        monkeypatch.setattr(disk_cache.devices, "get_context", lambda context=context: context)
        number, name = overload._codelibrary.get_cufunc()
        assert number == context.device.id
        code = code_of(kernel, ARGUMENTS, context.device.compute_capability)
        (loaded,) = context.loaded
        assert (bytes(loaded.code), name) == (code.cubin, code.name)
    assert compiled == [(9, 0), (8, 0)]
    assert kernel.stats.cache_path == str(KERNELS.folder)


@pytest.mark.machine_code
def test_what_a_launch_by_numba_needs_is_there():
    kernel = scaled(2)
    with pretended_device((9, 0)):
        overload = kernel.compile(ARGUMENTS)
    assert overload.argument_types == ARGUMENTS
    assert kernel.nopython_signatures == [types.void(*ARGUMENTS)]
    assert not overload.debug
    assert not overload.cooperative
    assert overload.extensions == []


# Many processes --------------------------------------------------------------------------------------


def _compile_and_load(barrier, number, factors):
    """As one of several processes: every kernel is the one that was asked for."""
    factors = list(factors)
    random.Random(number).shuffle(factors)
    barrier.wait()
    for factor in [*factors, *factors]:
        code = code_of(scaled(factor), ARGUMENTS, (9, 0))
        assert [other for other in factors if holds(code, other)] == [factor]


def compile_side_by_side(processes, kernels):
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(processes)
    factors = [1000.5 + index for index in range(kernels)]
    workers = [
        context.Process(target=_compile_and_load, args=(barrier, number, factors)) for number in range(processes)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * processes
    assert len(list(KERNELS.folder.iterdir())) == kernels


@pytest.mark.machine_code
def test_processes_compile_side_by_side_into_one_empty_folder():
    compile_side_by_side(4, 10)


# In a process of its own, as caches are for. Prints how much was compiled, and the largest error.
MULTIPLY = """
import json
import os
import numpy as np
from numba import cuda
from numba_gemm import sgemm
from numba_gemm.compiler import disk_cache

compiled = []
compile_cubin = disk_cache.compile_cubin
disk_cache.compile_cubin = lambda *arguments: compiled.append(arguments) or compile_cubin(*arguments)
a = np.arange(128 * 8, dtype=np.float32).reshape(128, 8) % 7
b = np.arange(8 * 128, dtype=np.float32).reshape(8, 128) % 5
c = sgemm(cuda.to_device(a), cuda.to_device(b), version=int(os.environ.get("VERSION", 4)))
error = np.abs(cuda.as_cuda_array(c).copy_to_host() - a @ b).max()
print(json.dumps({"compiled": len(compiled), "error": float(error)}))
"""


def multiply_in_a_process(folder, **environment):
    """`folder` holds the package."""
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", MULTIPLY],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


NOTHING = {"compiled": 0, "error": 0}


@pytest.mark.gpu
def test_a_second_process_loads_what_the_first_compiled_until_a_helper_is_edited(package):
    here = package.parent
    first = multiply_in_a_process(here)
    assert first["compiled"] >= 1
    assert first["error"] == 0
    assert multiply_in_a_process(here) == NOTHING
    assert multiply_in_a_process(here, NUMBA_GEMM_KERNEL_CACHE="0") == first
    assert multiply_in_a_process(here, NUMBA_OPT="1") == first, "compiled with other settings"
    assert multiply_in_a_process(here) == NOTHING

    # The kernel's file stays as it is; the helper that it calls now returns the four floats in another order.
    vector = package / "device" / "vector.py"
    text = vector.read_text(encoding="utf-8")
    lanes = "I32(q)) for q in range(4)"
    assert lanes in text
    vector.write_text(text.replace(lanes, "I32(3 - q)) for q in range(4)"), encoding="utf-8")
    edited = multiply_in_a_process(here)
    assert edited["compiled"] == first["compiled"]
    assert edited["error"] > 0, "the old machine code ran"


@pytest.mark.gpu
def test_a_debugging_process_leaves_nothing_for_others(package):
    # Rung 1 has no launch bounds, which code for a debugger would break.
    debugging = {"NUMBA_CUDA_DEBUGINFO": "1", "NUMBA_OPT": "0", "VERSION": "1"}
    assert multiply_in_a_process(package.parent, **debugging) == NOTHING, "Numba compiled it, for itself"
    assert not KERNELS.folder.exists()
    assert multiply_in_a_process(package.parent)["compiled"] >= 1


@pytest.mark.gpu
@pytest.mark.parametrize("damage", [lambda _: b"", lambda data: data[:100], lambda data: data[:-1] + b"\0"])
def test_a_damaged_file_makes_no_call_fail(package, damage):
    first = multiply_in_a_process(package.parent)
    for path in KERNELS.folder.iterdir():
        path.write_bytes(damage(path.read_bytes()))
    assert multiply_in_a_process(package.parent) == first
    assert multiply_in_a_process(package.parent) == NOTHING


# One of many processes: 200 kernels, each of which multiplies by another number, in an order of its own.
SHARE = """
import json, random, sys
import numpy as np
from numba import cuda
from numba_gemm import sgemm
from numba_gemm.ladder import find

number, kernels = int(sys.argv[1]), int(sys.argv[2])
factors = list(range(1, kernels + 1))
random.Random(number).shuffle(factors)
a = np.arange(20 * 8, dtype=np.float32).reshape(20, 8) % 7
b = np.arange(8 * 24, dtype=np.float32).reshape(8, 24) % 5
at_device = cuda.to_device(a), cuda.to_device(b)
tile = find("boundary").small_tile
wrong = []
for factor in factors:
    names = {}
    exec(f"def times(x): return x * {factor}.0", names)
    c = sgemm(*at_device, version="boundary", tile=tile, epilogue=names["times"])
    if not np.array_equal(cuda.as_cuda_array(c).copy_to_host(), a @ b * np.float32(factor)):
        wrong.append(factor)
print(json.dumps(wrong))
"""


@pytest.mark.gpu
@pytest.mark.alone
@pytest.mark.parametrize("_repetition", range(10))
def test_many_processes_compile_and_load_side_by_side(_repetition):
    processes, kernels = 16, 200
    workers = [
        subprocess.Popen([sys.executable, "-c", SHARE, str(number), str(kernels)], stdout=subprocess.PIPE, text=True)
        for number in range(processes)
    ]
    results = [worker.communicate()[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * processes
    assert [json.loads(result) for result in results] == [[]] * processes
    assert len(list(KERNELS.folder.iterdir())) >= kernels
