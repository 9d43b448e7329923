"""Entries on disk: what is a hit and what is not, files that others wrote or broke, and many processes at once."""

import errno
import hashlib
import multiprocessing
import os
import random
import resource
import shutil
import stat
import tempfile
import time
import zlib
from pathlib import Path

import pytest

from numba_gemm.compiler import store
from numba_gemm.compiler.store import Entry, Store

STORE = Store("things", switch="NUMBA_GEMM_THINGS", limit="NUMBA_GEMM_THINGS_BYTES")
FACTS, DATA = {"name": "kernel", "registers": 32}, bytes(range(256)) * 40
#: Running as root, permissions of files hold nobody back.
ROOT = os.geteuid() == 0


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty cache of the test's own, which is not there yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(STORE.switch, raising=False)
    monkeypatch.delenv(STORE.limit, raising=False)
    return STORE.folder


def files(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def works():
    """Whether an entry can be kept and is found again, and another one is not."""
    STORE.keep("key", FACTS, DATA)
    return STORE.load("key") == Entry(FACTS, DATA) and STORE.load("other") is None


# Entries ---------------------------------------------------------------------------------------------


def test_what_was_kept_is_found(folder):
    assert STORE.load("a") is None
    STORE.keep("a", FACTS, DATA)
    STORE.keep("b", {}, b"")
    assert STORE.load("a") == Entry(FACTS, DATA)
    assert STORE.load("b") == Entry({}, b"")
    assert files(folder) == sorted(hashlib.sha256(key).hexdigest() for key in (b"a", b"b"))


def test_the_last_one_counts(folder):
    STORE.keep("a", FACTS, DATA)
    STORE.keep("a", {}, b"new")
    assert STORE.load("a") == Entry({}, b"new")
    assert len(files(folder)) == 1


def test_the_file_says_whose_entry_it_is():
    key = "every\nword, ü too"
    STORE.keep(key, {}, DATA)
    packed = STORE.path(key).read_bytes()
    assert packed.startswith(b"numba-gemm entry ")
    assert b'"every\\nword' in zlib.decompress(packed[len(store._MAGIC) + 32 :])


@pytest.mark.parametrize(("value", "kept"), [("0", False), ("1", True), ("", True)])
def test_the_environment_turns_it_off(folder, monkeypatch, value, kept):
    STORE.keep("before", FACTS, DATA)
    monkeypatch.setenv(STORE.switch, value)
    STORE.keep("a", FACTS, DATA)
    assert (STORE.load("before") is not None) == (STORE.load("a") is not None) == kept
    assert len(files(folder)) == 1 + kept


# Damage ----------------------------------------------------------------------------------------------


def resealed(change):
    """A file whose checksum is right, over a content that is not."""

    def damage(packed):
        start = len(store._MAGIC)
        body = change(packed[start + 32 :])
        return packed[:start] + hashlib.sha256(body).digest() + body

    return damage


def other_header(header):
    return resealed(lambda _: zlib.compress(len(header).to_bytes(4) + header + DATA))


DAMAGE = {
    "empty": lambda _: b"",
    "other": lambda _: b"no entry of ours",
    "half": lambda packed: packed[: len(packed) // 2],
    "a byte short": lambda packed: packed[:-1],
    "a byte more": lambda packed: packed + b"\0",
    "zeros at the end": lambda packed: packed[:-64] + bytes(64),
    "only the start": lambda packed: packed[:10],
    "only the head": lambda packed: packed[:60],
    "another layout": lambda packed: packed.replace(b"entry 1", b"entry 2"),
    "not compressed": resealed(lambda _: b"content"),
    "nothing in it": resealed(lambda _: zlib.compress(b"")),
    "no text": other_header(b"\xff"),
    "no JSON": other_header(b"{"),
    "no object": other_header(b"[1]"),
    "no facts": other_header(b'{"key": "key"}'),
    "facts of another kind": other_header(b'{"key": "key", "facts": 1}'),
    "another key": other_header(b'{"key": "KEY", "facts": {}}'),
    "deep": other_header(b"[" * 100_000),
    **{
        f"a bit of byte {place}": lambda packed, place=place: (
            packed[:place] + bytes([packed[place] ^ 4]) + packed[place + 1 :]
        )
        for place in (0, 20, 60, -1)
    },
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_file_counts_as_none_and_is_replaced(damage):
    STORE.keep("key", FACTS, DATA)
    path = STORE.path("key")
    path.write_bytes(damage(path.read_bytes()))
    assert STORE.load("key") is None
    assert works()


def test_every_truncation_counts_as_none():
    STORE.keep("key", FACTS, b"short")
    path = STORE.path("key")
    packed = path.read_bytes()
    for length in range(len(packed)):
        path.write_bytes(packed[:length])
        assert STORE.load("key") is None
    path.write_bytes(packed)
    assert STORE.load("key") == Entry(FACTS, b"short")


def test_the_file_of_another_entry_is_not_taken():
    STORE.keep("one", FACTS, DATA)
    shutil.copy(STORE.path("one"), STORE.path("other"))
    assert STORE.load("other") is None
    assert STORE.load("one") is not None


def a_folder(path):
    path.mkdir()
    (path / "file").touch()


def a_pipe(path):
    os.mkfifo(path)


def a_link_to_nothing(path):
    path.symlink_to("nothing")


def a_link_to_an_entry(path):
    elsewhere = path.parent / "elsewhere"
    elsewhere.write_bytes(store._packed("key", FACTS, DATA))
    path.symlink_to(elsewhere)


def a_huge_file(path):
    with path.open("wb") as file:
        file.truncate(1 << 40)


@pytest.mark.parametrize("make", [a_folder, a_pipe, a_link_to_nothing, a_link_to_an_entry, a_huge_file])
def test_what_is_no_file_of_ours_counts_as_none(make):
    STORE.keep("other", FACTS, DATA)
    make(STORE.path("key"))
    assert STORE.load("key") is None
    STORE.keep("key", FACTS, DATA)
    assert STORE.load("key") == (None if make is a_folder else Entry(FACTS, DATA))
    assert STORE.load("other") is not None


@pytest.mark.skipif(ROOT, reason="root may read everything")
def test_a_file_that_cannot_be_read_counts_as_none():
    STORE.keep("key", FACTS, DATA)
    STORE.path("key").chmod(0)
    assert STORE.load("key") is None
    assert works()


# Folders and disks -----------------------------------------------------------------------------------


def test_a_folder_that_cannot_be_made_keeps_nothing(folder):
    folder.parent.parent.mkdir(parents=True)
    folder.parent.write_text("a file where the folder should be")
    assert not works()


def test_a_folder_that_vanishes_is_made_again(folder):
    assert works()
    shutil.rmtree(folder.parent)
    assert STORE.load("key") is None
    assert works()


def test_a_folder_that_vanishes_while_an_entry_is_written(folder, monkeypatch):
    def vanishing(path, data):
        shutil.rmtree(folder)
        return replace_file(path, data)

    replace_file = store.replace_file
    monkeypatch.setattr(store, "replace_file", vanishing)
    assert not works()
    monkeypatch.undo()


def test_files_that_vanish_while_they_are_counted(monkeypatch):
    STORE.keep("gone", FACTS, DATA)
    gone = (0.0, 1, str(STORE.path("gone")))
    files_in = store._files
    STORE.path("gone").unlink()
    monkeypatch.setattr(store, "_files", lambda folder: [gone, *files_in(folder)])
    assert works()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO, errno.EDQUOT, errno.ESTALE])
def test_a_disk_that_refuses_keeps_nothing(folder, monkeypatch, number):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    STORE.keep("before", FACTS, DATA)
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", refuse)
        assert not works()
        assert len(files(folder)) == 1, "nothing is left of what could not be written"
        assert STORE.load("before") is not None
    with monkeypatch.context() as broken:
        broken.setattr(Path, "replace", refuse)
        assert not works()
        assert len(files(folder)) == 1
    with monkeypatch.context() as broken:
        broken.setattr(os, "utime", refuse)
        assert works(), "a file system that is read, and cannot be written"


def _full_disk(results):
    """In a process of its own: no file may get longer than 100 bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    results.put((works(), files(STORE.folder)))


def test_a_full_disk_keeps_nothing():
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    writer = context.Process(target=_full_disk, args=(results,))
    writer.start()
    writer.join()
    assert writer.exitcode == 0
    assert results.get() == (False, [])
    assert works(), "in the next process, with room again"


@pytest.mark.skipif(ROOT, reason="root may write everything")
def test_a_folder_that_cannot_be_written_is_read(folder):
    STORE.keep("before", FACTS, DATA)
    folder.chmod(0o500)
    assert not works()
    assert STORE.load("before") == Entry(FACTS, DATA)


def test_without_a_home_nothing_is_kept(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(store, "user_cache_path", lambda _: Path("~/.cache/numba_gemm"))
    assert not works()
    assert list(tmp_path.iterdir()) == [], "no folder is called ~"


# Others ----------------------------------------------------------------------------------------------


def test_folders_and_files_are_for_the_user_alone(folder):
    before = os.umask(0)
    try:
        assert works()
    finally:
        os.umask(before)
    for path in (folder.parent, folder, STORE.path("key")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


@pytest.mark.parametrize("part", ["folder", "parent", "file"])
def test_what_anybody_may_write_is_refused(folder, part):
    assert works()
    path = {"folder": folder, "parent": folder.parent, "file": STORE.path("key")}[part]
    mode = stat.S_IMODE(path.stat().st_mode)
    path.chmod(mode | 0o002)
    assert STORE.load("key") is None
    assert works() == (part == "file"), "a file is replaced, a folder is not used"
    path.chmod(mode)
    assert works()


@pytest.mark.parametrize("part", ["folder", "parent", "file"])
def test_what_is_another_users_is_refused(folder, monkeypatch, part):
    assert works()
    path = {"folder": folder, "parent": folder.parent, "file": STORE.path("key")}[part]
    inode = path.stat().st_ino
    require_own = store._require_own

    def owned_by_another(status, name):
        fields = list(status)
        if status.st_ino == inode:
            fields[stat.ST_UID] += 1
        require_own(os.stat_result(fields), name)

    monkeypatch.setattr(store, "_require_own", owned_by_another)
    assert STORE.load("key") is None
    assert works() == (part == "file")


def test_a_user_refuses_all_that_is_not_his(monkeypatch):
    assert works()
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    assert STORE.load("key") is None
    assert not works()


# What is removed -------------------------------------------------------------------------------------


def used_before(key, seconds):
    now = time.time()
    os.utime(STORE.path(key), (now - seconds, now - seconds))


def kept(*keys):
    return [key for key in keys if STORE.path(key).exists()]


def test_a_month_without_use_removes_an_entry():
    for key in ("unused", "used", "young"):
        STORE.keep(key, FACTS, DATA)
    used_before("unused", store.KEPT_SECONDS + 60)
    used_before("used", store.KEPT_SECONDS + 60)
    used_before("young", store.KEPT_SECONDS - 60)
    assert STORE.load("used") is not None
    STORE.keep("new", FACTS, DATA)
    assert kept("unused", "used", "young", "new") == ["used", "young", "new"]


def test_what_a_killed_writer_left_goes_after_an_hour(folder):
    STORE.keep("a", FACTS, DATA)
    for name, age in (("old.tmp", store.UNFINISHED_SECONDS + 60), ("young.tmp", 60)):
        (folder / name).write_bytes(DATA)
        os.utime(folder / name, (time.time() - age,) * 2)
    STORE.keep("b", FACTS, DATA)
    assert [name for name in files(folder) if name.endswith(".tmp")] == ["young.tmp"]


def size_of_one():
    STORE.keep("key", FACTS, random.Random(1).randbytes(10_000))
    return STORE.path("key").stat().st_size


def test_the_limit_removes_what_was_used_longest_ago(monkeypatch):
    size = size_of_one()
    monkeypatch.setenv(STORE.limit, str(3 * size + size // 2))
    data = random.Random(2).randbytes(10_000)
    for age, key in enumerate(("a", "b", "c")):
        STORE.keep(key, FACTS, data)
        used_before(key, 1000 - age)
    used_before("key", 2000)
    STORE.keep("d", FACTS, data)
    assert kept("key", "a", "b", "c", "d") == ["b", "c", "d"]
    assert STORE.load("b") is not None  # used now, so c goes first
    STORE.keep("e", FACTS, data)
    STORE.keep("f", FACTS, data)
    assert len(kept("b", "c", "d", "e", "f")) == 3
    assert not kept("c")


def test_an_entry_larger_than_the_limit_is_not_kept(monkeypatch):
    size = size_of_one()
    monkeypatch.setenv(STORE.limit, str(size - 1))
    STORE.keep("big", FACTS, random.Random(3).randbytes(10_000))
    assert kept("key", "big") == []
    STORE.keep("a", FACTS, DATA[:1])
    STORE.keep("big", FACTS, random.Random(3).randbytes(10_000))
    assert kept("a", "big") == ["a"], "what does not fit takes no room from what does"
    monkeypatch.setenv(STORE.limit, "0")
    assert not works()


@pytest.mark.parametrize("text", ["", "many", "-1", "1.5", "1e9", "٣", "9" * 5000])
def test_a_limit_that_is_no_number_is_none(monkeypatch, text):
    monkeypatch.setenv(STORE.limit, text)
    assert STORE.limit_bytes == store.DEFAULT_BYTES == 1 << 30
    assert works()


def test_a_clock_that_was_ahead_keeps_nothing_for_ever():
    STORE.keep("from the future", FACTS, DATA)
    STORE.keep("a minute ahead", FACTS, DATA)
    used_before("from the future", -20 * 365 * 24 * 3600)
    used_before("a minute ahead", -60)
    STORE.keep("new", FACTS, DATA)
    ahead = STORE.path("from the future").stat().st_mtime - time.time()
    assert abs(ahead) < 60
    assert STORE.path("a minute ahead").stat().st_mtime > time.time()
    assert STORE.load("from the future") == Entry(FACTS, DATA)


@pytest.mark.parametrize("now", [0.0, 4e9], ids=["1970", "2096"])
def test_a_clock_that_is_wrong_now_makes_no_error(monkeypatch, now):
    assert works()
    monkeypatch.setattr(time, "time", lambda: now)
    STORE.keep("a", FACTS, DATA)
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", tempfile.mkdtemp())
    assert works()


# Many processes --------------------------------------------------------------------------------------

PROCESSES, ENTRIES = 16, 200


def entry_of(key):
    """The one right entry of a key."""
    digest = hashlib.sha256(key.encode()).digest()
    return Entry({"name": digest.hex()}, random.Random(digest).randbytes(200 + digest[0] * 80))


def _share(barrier, number):
    """As one of several processes: in an order of its own, what is not there yet is written, and all is read."""
    keys = [f"key {index}" for index in range(ENTRIES)]
    random.Random(number).shuffle(keys)
    barrier.wait()
    for key in keys:
        right = entry_of(key)
        found = STORE.load(key)
        if found is None:
            STORE.keep(key, *right)
            found = STORE.load(key)
        assert found == right
    assert all(STORE.load(key) == entry_of(key) for key in keys)


def side_by_side(target, count, *arguments):
    """Exit statuses of processes that wait for each other at a barrier."""
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(count)
    processes = [context.Process(target=target, args=(barrier, number, *arguments)) for number in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return [process.exitcode for process in processes]


def test_processes_fill_one_empty_folder(folder):
    assert side_by_side(_share, PROCESSES) == [0] * PROCESSES
    assert files(folder) == sorted(STORE.path(f"key {index}").name for index in range(ENTRIES))


def _rewrite(barrier, number):
    """As one of several processes that disagree: what is read is whole, whoever wrote it."""
    entry = Entry({"number": number}, bytes([number]) * 100_000)
    barrier.wait()
    for _ in range(30):
        STORE.keep("key", *entry)
        found = STORE.load("key")
        assert found is not None
        assert found.data == bytes([found.facts["number"]]) * 100_000


def test_processes_write_and_read_the_same_entry(folder):
    assert side_by_side(_rewrite, 3) == [0] * 3
    assert len(files(folder)) == 1


def _within_a_limit(barrier, number):
    """What another process removes is not there, and nothing worse."""
    barrier.wait()
    for index in range(60):
        key = f"key {(index * 7 + number) % 40}"
        STORE.keep(key, *entry_of(key))
        assert STORE.load(key) in (None, entry_of(key))


def test_processes_that_remove_each_others_entries(folder, monkeypatch):
    monkeypatch.setenv(STORE.limit, "50000")
    assert side_by_side(_within_a_limit, 4) == [0] * 4
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 50_000
