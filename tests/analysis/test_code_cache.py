"""Machine code that is kept to be looked at: what is compiled again and what is not. Files: see test_store.py."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import numba_gemm
from numba_gemm.analysis.code import code_cache, machine_code
from numba_gemm.analysis.code.code_cache import INSPECTED
from numba_gemm.analysis.code.machine_code import MachineCode, compile_version
from numba_gemm.compiler import sources
from numba_gemm.compiler.disk_cache import KERNELS
from numba_gemm.device.epilogue import Epilogue
from numba_gemm.kernels.interface import Variant
from numba_gemm.ladder import find
from numba_gemm.tile import Tile

PACKAGE = Path(numba_gemm.__file__).parent

NAIVE, VECTORIZED, BOUNDARY, CP_ASYNC = (find(name) for name in ("naive", "vectorized", "boundary", "cp_async"))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty cache of the test's own, which is not there yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(INSPECTED.switch, raising=False)
    return INSPECTED.folder


# Keys ------------------------------------------------------------------------------------------------


@pytest.fixture
def compiled(monkeypatch):
    """The list of what is compiled from now on, which takes no time and makes code that tells one from the other."""
    calls = []

    def compile_kernel(kernel, _signature, arch, *_):
        calls.append(kernel.py_func.__name__)
        return MachineCode(arch, f"kernel{len(calls)}", 8, 0, 0, 0, 0, "RET ;", bytes(range(256)))

    monkeypatch.setattr(machine_code, "compile_kernel", compile_kernel)
    yield calls
    machine_code._sources.cache_clear()


@pytest.mark.machine_code
def test_the_same_question_is_compiled_once_and_answered_the_same(compiled):
    first = compile_version(BOUNDARY, "sm_90")
    assert compile_version(BOUNDARY, "sm_90") == first
    assert compile_version(BOUNDARY, "sm_90", BOUNDARY.default_tile, Variant()) == first
    assert len(compiled) == 1


@pytest.mark.machine_code
def test_every_other_question_is_compiled(compiled):
    one, other = (lambda x: x + 1), (lambda x: x + 2)
    questions = [
        (NAIVE, "sm_90"),
        (find("naive_16"), "sm_90"),
        (VECTORIZED, "sm_90"),
        (VECTORIZED, "sm_80"),
        (VECTORIZED, "sm_90", Tile(64, 64, 8, 4, 4)),
        (VECTORIZED, "sm_90", Tile(64, 64, 16, 4, 4)),
        (BOUNDARY, "sm_90"),
        (BOUNDARY, "sm_90", None, Variant(whole=False)),
        (BOUNDARY, "sm_90", None, Variant(vector=False)),
        *(
            (BOUNDARY, "sm_90", None, Variant(epilogue=Epilogue(key=cache_key, function=function)))
            for cache_key, function in (("one", one), ("other", other))
        ),
    ]
    found = [compile_version(*question).name for question in questions]
    assert len(set(found)) == len(compiled) == len(questions)
    assert [compile_version(*question).name for question in questions] == found


@pytest.mark.machine_code
def test_an_edited_source_is_compiled_again(compiled, monkeypatch, tmp_path):
    """Of a kernel or a helper (test_disk_cache.py says which), of the compiling code, or of a linked file."""
    copy = shutil.copytree(PACKAGE, tmp_path / "numba_gemm", ignore=shutil.ignore_patterns("__pycache__"))
    cp_async = shutil.copy(machine_code.foreign_source("cp_async.cu"), tmp_path)
    monkeypatch.setattr(machine_code, "foreign_source", lambda _: Path(cp_async))
    monkeypatch.setattr(machine_code, "fingerprint", lambda: sources.fingerprint_at(copy))

    def in_another_process():
        machine_code._sources.cache_clear()
        return compile_version(CP_ASYNC, "sm_90")

    def edited(path):
        path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")
        in_another_process()

    in_another_process()
    in_another_process()
    assert len(compiled) == 1
    edited(copy / "kernels" / "v5_cp_async.py")
    edited(copy / "device" / "vector.py")
    edited(Path(cp_async))
    assert len(compiled) == 4
    edited(copy / "calls" / "sgemm.py")
    assert len(compiled) == 4, "a file that is no part of kernels"
    for module in (machine_code, code_cache):
        monkeypatch.setattr(module, "__file__", str(copy / "analysis" / "code" / Path(module.__file__).name))
        edited(Path(module.__file__))
    assert len(compiled) == 6
    with Path(machine_code.__file__).open("a") as file:
        file.write("\n")
    compile_version(CP_ASYNC, "sm_90")
    assert len(compiled) == 6, "what was imported before the edit is not what is in the file"


@pytest.mark.machine_code
def test_the_whole_compiler_is_in_the_key(monkeypatch):
    before = code_cache.key("a")
    assert code_cache.key("a") == before != code_cache.key("b")
    with monkeypatch.context() as other:
        other.setattr(code_cache, "toolchain", lambda: "another one")
        assert code_cache.key("a") != before
    with monkeypatch.context() as other:
        other.setattr(code_cache, "settings", lambda: {"OPT": "0"})
        assert code_cache.key("a") != before


@pytest.mark.machine_code
def test_another_disassembler_is_another_key(monkeypatch, tmp_path):
    """With the same path and size, as a patch release might have."""
    tool = str(shutil.copyfile(__file__, tmp_path / "nvdisasm"))
    monkeypatch.setattr(code_cache, "find_nvidia_binary_utility", lambda _: tool)
    keys = set()
    for seconds in (1, 2):
        os.utime(tool, (seconds, seconds))
        code_cache._disassembler.cache_clear()
        keys.add(code_cache.key("a"))
    code_cache._disassembler.cache_clear()
    assert len(keys) == 2


def test_it_is_not_the_store_that_launches_use():
    assert INSPECTED.folder != KERNELS.folder
    assert {INSPECTED.switch, INSPECTED.limit}.isdisjoint({KERNELS.switch, KERNELS.limit})


# The real compiler -----------------------------------------------------------------------------------


@pytest.mark.machine_code
def test_machine_code_from_disk_is_what_the_compiler_made(folder, monkeypatch):
    first = compile_version(NAIVE, "sm_90")
    (path,) = folder.iterdir()
    with monkeypatch.context() as without_compiler:
        without_compiler.setattr(machine_code, "compile_kernel", lambda *_: pytest.fail("compiled again"))
        assert compile_version(NAIVE, "sm_90") == first
    path.write_bytes(path.read_bytes()[:100])
    again = compile_version(NAIVE, "sm_90")
    # Numba numbers what it compiles in a process: the name alone is another one, and the ELF image has it.
    assert again.sass == first.sass.replace(first.name, again.name)
    assert replace(again, name="", sass="", cubin=b"") == replace(first, name="", sass="", cubin=b"")
