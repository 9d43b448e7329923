"""Machine code that is kept on disk: what is a hit and what is not, and files that others wrote or broke."""

import gzip
import multiprocessing
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import numba_gemm
from numba_gemm.analysis.code import code_cache, machine_code
from numba_gemm.analysis.code.machine_code import MachineCode, compile_version
from numba_gemm.compiler import disk_cache
from numba_gemm.device.epilogue import Epilogue
from numba_gemm.kernels.interface import Variant
from numba_gemm.ladder import find
from numba_gemm.tile import Tile

PACKAGE = Path(numba_gemm.__file__).parent
RECORD = {"registers": 32, "sass": "MOV R1, c[0x0][0x28] ;" * 50}

NAIVE, VECTORIZED, BOUNDARY, CP_ASYNC = (find(name) for name in ("naive", "vectorized", "boundary", "cp_async"))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty cache of the test's own, which is not there yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(code_cache.OPT_OUT, raising=False)
    code_cache._remove_unused.cache_clear()
    return code_cache.folder()


def names(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


# Entries ---------------------------------------------------------------------------------------------


def test_what_was_stored_is_loaded(folder):
    assert code_cache.load("a") is None
    code_cache.store("a", RECORD)
    code_cache.store("b", {})
    assert code_cache.load("a") == RECORD
    assert code_cache.load("b") == {}
    assert names(folder) == ["a", "b"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda _: b"no archive",
        lambda data: data[: len(data) // 2],
        lambda data: data[:20] + bytes([data[20] ^ 1]) + data[21:],
        lambda data: data[:-1],
        lambda _: gzip.compress(b"\xff"),
        lambda _: gzip.compress(b"{"),
        lambda _: gzip.compress(b"[1]"),
        lambda _: gzip.compress(b"[" * 100_000),
    ],
    ids=["empty", "other", "half", "a bit", "a byte short", "no text", "no JSON", "no object", "deep"],
)
def test_a_damaged_file_counts_as_none_and_is_replaced(folder, damage):
    code_cache.store("a", RECORD)
    path = folder / "a"
    path.write_bytes(damage(path.read_bytes()))
    assert code_cache.load("a") is None
    code_cache.store("a", RECORD)
    assert code_cache.load("a") == RECORD


def test_a_folder_that_cannot_be_made_keeps_nothing(folder):
    folder.parent.parent.mkdir(parents=True)
    folder.parent.write_text("a file where the folder should be")
    code_cache.store("a", RECORD)
    assert code_cache.load("a") is None


def test_a_writer_that_fails_leaves_no_file(folder, monkeypatch):
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    code_cache.store("a", RECORD)
    assert names(folder) == []


@pytest.mark.parametrize(("value", "kept"), [("0", False), ("1", True), ("", True)])
def test_the_environment_turns_it_off(folder, monkeypatch, value, kept):
    code_cache.store("before", RECORD)
    monkeypatch.setenv(code_cache.OPT_OUT, value)
    code_cache.store("a", RECORD)
    assert (code_cache.load("before") is not None) == (code_cache.load("a") is not None) == kept
    assert ("a" in names(folder)) == kept


def test_a_month_without_use_removes_an_entry(folder):
    for name in ("unused", "used", "interrupted.tmp"):
        code_cache.store(name, RECORD)
    long_ago = time.time() - code_cache.KEPT_SECONDS - 60
    for path in folder.iterdir():
        os.utime(path, (long_ago, long_ago))
    assert code_cache.load("used") == RECORD
    code_cache._remove_unused.cache_clear()  # as in another process
    code_cache.store("new", RECORD)
    assert names(folder) == ["new", "used"]


def _write_and_read(barrier, number):
    """As one of several processes: what is read is whole, whoever wrote it."""
    record = {"registers": number, "sass": str(number) * 200_000}
    barrier.wait()
    for _ in range(30):
        code_cache.store("a", record)
        found = code_cache.load("a")
        assert found is not None
        assert found["sass"] == str(found["registers"]) * 200_000


def test_processes_write_and_read_the_same_entry_at_once(folder):
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(3)
    writers = [context.Process(target=_write_and_read, args=(barrier, number)) for number in (1, 2, 3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    assert names(folder) == ["a"]


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
    monkeypatch.setattr(disk_cache, "resources", SimpleNamespace(files=lambda _: copy))
    cp_async = shutil.copy(machine_code.foreign_source("cp_async.cu"), tmp_path)
    monkeypatch.setattr(machine_code, "foreign_source", lambda _: Path(cp_async))
    monkeypatch.setattr(machine_code, "fingerprint", disk_cache.fingerprint.__wrapped__)

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
    edited(copy / "api.py")
    assert len(compiled) == 4, "a file that is no part of kernels"
    for module in (machine_code, code_cache):
        monkeypatch.setattr(module, "__file__", str(copy / "analysis" / Path(module.__file__).name))
        edited(Path(module.__file__))
    assert len(compiled) == 6
    with Path(machine_code.__file__).open("a") as file:
        file.write("\n")
    compile_version(CP_ASYNC, "sm_90")
    assert len(compiled) == 6, "what was imported before the edit is not what is in the file"


@pytest.mark.machine_code
@pytest.mark.parametrize("package", code_cache._PACKAGES)
def test_another_version_of_a_package_is_another_key(monkeypatch, package):
    before = code_cache.key("a")
    real = code_cache.metadata.version
    monkeypatch.setattr(code_cache.metadata, "version", lambda name: "9.9" if name == package else real(name))
    code_cache.compiler.cache_clear()
    try:
        assert code_cache.key("a") != before
    finally:
        monkeypatch.undo()
        code_cache.compiler.cache_clear()
    assert code_cache.key("a") == before != code_cache.key("b")


@pytest.mark.machine_code
@pytest.mark.parametrize("number", range(4), ids=[*code_cache._LIBRARIES, "nvdisasm"])
def test_another_file_of_a_library_or_tool_is_another_key(monkeypatch, tmp_path, number):
    """With the same path and size, as a patch release might have."""
    tools = list(code_cache._tools())
    tools[number] = str(shutil.copyfile(__file__, tmp_path / "library"))
    monkeypatch.setattr(code_cache, "_tools", lambda: tools)
    keys = set()
    for seconds in (1, 2):
        os.utime(tools[number], (seconds, seconds))
        code_cache.compiler.cache_clear()
        keys.add(code_cache.key("a"))
    tools[number] = None
    code_cache.compiler.cache_clear()
    keys.add(code_cache.key("a"))
    code_cache.compiler.cache_clear()
    assert len(keys) == 3


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
