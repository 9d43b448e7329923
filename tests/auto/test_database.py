"""The tuning database: what is stored is found again, by whom it is for, whatever else happens to the files."""

import json
import os
import subprocess
import sys
import threading
from dataclasses import asdict, replace

import pytest
from support.tuning import DEVICE, KEY, RUNG_6, RUNG_7, SMALLER, entry, isolated, like

from numba_gemm import VERSIONS
from numba_gemm.auto import database
from numba_gemm.auto.candidates import why_not
from numba_gemm.auto.entry import Timed, from_dict
from numba_gemm.compiler.target import SIMULATOR
from numba_gemm.problem import Problem

OTHER_KEYS = [
    like(KEY, **change)
    for change in (
        *({name: getattr(KEY, name) + 1} for name in ("m", "n", "k", "batch")),
        *({name: not getattr(KEY, name)} for name in ("a_along_k", "b_along_k", "vector")),
    )
]


@pytest.fixture(autouse=True)
def database_of_its_own(monkeypatch, tmp_path):
    with isolated(monkeypatch, tmp_path):
        yield


def ship(entries, **changes):
    """A shipped file, written as users' files are."""
    database.shipped_folder().mkdir(exist_ok=True)
    records = [found.to_dict(key) for key, found in entries.items()]
    document = {**DEVICE.shipped_header, "driver": "12.4", "library": None, "kernels": None, "entries": records}
    (database.shipped_folder() / "nvidia_test_1.json").write_text(json.dumps({**document, **changes}))


def write(text):
    DEVICE.path.parent.mkdir(parents=True, exist_ok=True)
    DEVICE.path.write_text(text)


def stored(**changes):
    """What a file of the user with one entry holds, with changes."""
    return {**DEVICE.header, "entries": [entry().to_dict(KEY)], **changes}


def test_nothing_is_known_at_first():
    assert database.lookup(0, KEY) is None
    assert not database.folder().exists(), "looking up wrote something"


def test_what_is_remembered_is_found_in_this_process_and_in_the_file():
    before = database.revision()
    assert database.lookup(0, KEY) is None
    found = entry(SMALLER, 1e-3, Timed(RUNG_7, 2e-3))
    database.remember(DEVICE, {KEY: found})
    assert database.lookup(0, KEY) == SMALLER
    assert database.revision() != before
    assert database.read(DEVICE.path, DEVICE.header) == {KEY: found}


@pytest.mark.parametrize("other", OTHER_KEYS, ids=str)
def test_every_part_of_the_key_counts(other):
    database.remember(DEVICE, {KEY: entry(SMALLER)})
    assert database.lookup(0, other) is None
    database.remember(DEVICE, {other: entry(RUNG_6)})
    assert (database.lookup(0, KEY), database.lookup(0, other)) == (SMALLER, RUNG_6)


@pytest.mark.parametrize(
    "change",
    [
        {"device": "NVIDIA Test 2"},
        {"compute_capability": (8, 0)},
        {"driver": "13.1"},
        {"package": "0.2.0"},
        {"kernels": "fedc" * 16},
    ],
    ids=lambda change: next(iter(change)),
)
def test_entries_are_for_one_device_driver_and_state_of_the_package(change):
    other = replace(DEVICE, **change)
    database.remember(other, {KEY: entry(RUNG_6)})
    assert database.lookup(0, KEY) is None
    database.remember(DEVICE, {KEY: entry()})
    assert database.lookup(0, KEY) == SMALLER
    assert database.read(other.path, other.header) == {KEY: entry(RUNG_6)}


def test_the_files_are_read_once(monkeypatch):
    database.remember(DEVICE, {KEY: entry()})
    assert database.lookup(0, KEY) == SMALLER
    monkeypatch.setattr(database, "read", lambda *_: pytest.fail("read again"))
    DEVICE.path.unlink()
    assert database.lookup(0, KEY) == SMALLER
    assert database.lookup(0, OTHER_KEYS[0]) is None


def test_the_last_entry_for_a_key_counts():
    database.remember(DEVICE, {KEY: entry(RUNG_7)})
    database.remember(DEVICE, {KEY: entry(RUNG_6), OTHER_KEYS[0]: entry()})
    assert database.lookup(0, KEY) == RUNG_6


def test_the_simulator_has_no_device(monkeypatch):
    monkeypatch.undo()
    if SIMULATOR:
        assert database.identity(0) is None


# Opting out ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "found"), [("0", None), ("1", SMALLER), ("", SMALLER)])
def test_opting_out_by_the_environment(monkeypatch, value, found):
    ship({OTHER_KEYS[0]: entry()})
    database.remember(DEVICE, {KEY: entry()})
    monkeypatch.setenv("NUMBA_GEMM_TUNING", value)
    assert database.lookup(0, KEY) == found
    assert database.lookup(0, OTHER_KEYS[0]) == found, "shipped entries are opted out of as well"
    monkeypatch.delenv("NUMBA_GEMM_TUNING")
    assert database.lookup(0, KEY) == SMALLER


# Shipped entries ----------------------------------------------------------------------------------------


def test_shipped_entries_count_whatever_the_driver_and_the_users_win():
    ship({KEY: entry(RUNG_7), OTHER_KEYS[0]: entry(RUNG_7)})
    assert database.lookup(0, KEY) == RUNG_7
    database.remember(DEVICE, {KEY: entry(RUNG_6)})
    assert database.lookup(0, KEY) == RUNG_6
    assert database.lookup(0, OTHER_KEYS[0]) == RUNG_7
    assert database.read(DEVICE.path, DEVICE.header).keys() == {KEY}, "shipped entries were copied"


@pytest.mark.parametrize("change", [{"device": "NVIDIA Test-1"}, {"compute_capability": "8.0"}, {"schema": 0}])
def test_a_shipped_file_for_something_else_is_left_out(change):
    ship({KEY: entry()}, **change)
    with pytest.warns(RuntimeWarning, match="nvidia_test_1.json is left out"):
        assert database.lookup(0, KEY) is None


def test_the_files_that_ship_can_be_used(monkeypatch):
    monkeypatch.undo()
    paths = database.shipped_files()
    assert "nvidia_h200.json" in {path.name for path in paths}
    for path in paths:
        header, entries = database.read_any(path)  # which checks versions and tiles
        compute_capability = tuple(map(int, header["compute_capability"].split(".")))
        here = replace(DEVICE, device=header["device"], compute_capability=compute_capability)
        assert here.shipped_path == path, "the file would not be found"
        assert database.read(path, here.shipped_header) == entries
        for key, found in entries.items():
            for timed in (found.best, *found.others):
                assert why_not(timed.choice, key, compute_capability) is None
                assert timed.seconds >= found.best.seconds


# Files that cannot be used ------------------------------------------------------------------------------

RECORD = entry().to_dict(KEY)
UNUSABLE = {
    "empty": "",
    "cut": json.dumps(stored())[:-20],
    "no JSON": "\x00\xff",
    "no object": "[]",
    "nested": "[" * 100_000,
    "another schema": json.dumps(stored(schema=database.SCHEMA + 1)),
    "no schema": json.dumps({"entries": []}),
    "another device": json.dumps(stored(device="NVIDIA Test 2")),
    "another driver": json.dumps(stored(driver="12.0")),
    "other kernels": json.dumps(stored(kernels="")),
    "no entries": json.dumps({**stored(), "entries": None}),
    **{
        f"an entry with {change}": json.dumps(stored(entries=[{**RECORD, **change}]))
        for change in (
            {"m": 0},
            {"n": "256"},
            {"k": True},
            {"vector": 1},
            {"seconds": 0.0},
            {"seconds": float("nan")},
            {"seconds": None},
            {"version": "none"},
            {"version": 7},
            {"version": "naive"},
            {"tile": None},
            {"tile": {"bm": 64}},
            {"tile": {**asdict(SMALLER.tile), "bm": 65}},
            {"tile": {**asdict(SMALLER.tile), "wn": 32}},
            {"tile": {**asdict(RUNG_7.tile), "bk": 128}},
            {"others": {}},
            {"others": [1]},
        )
    },
}


@pytest.mark.parametrize("text", UNUSABLE.values(), ids=UNUSABLE.keys())
def test_an_unusable_file_is_left_out_with_one_warning_and_replaced(text, recwarn):
    write(text)
    ship({OTHER_KEYS[0]: entry(RUNG_7)})
    for _ in range(3):
        assert database.lookup(0, KEY) is None
        assert database.lookup(0, OTHER_KEYS[0]) == RUNG_7, "the other file does not count any more"
    (warning,) = recwarn.list
    assert warning.category is RuntimeWarning
    assert str(warning.message).startswith(f"the tuning database {DEVICE.path} is left out: ")
    assert DEVICE.path.read_text() == text, "a reader has written"

    database.remember(DEVICE, {KEY: entry()})
    assert database.lookup(0, KEY) == SMALLER
    assert len(recwarn.list) == 1


def test_a_usable_file_is_what_the_unusable_ones_differ_from():
    write(json.dumps(stored()))
    assert database.lookup(0, KEY) == SMALLER


def test_a_folder_in_place_of_the_file(recwarn):
    DEVICE.path.mkdir(parents=True)
    assert database.lookup(0, KEY) is None
    assert len(recwarn.list) == 1
    with pytest.raises(OSError, match="directory"):
        database.remember(DEVICE, {KEY: entry()})
    assert not list(database.folder().glob("*.tmp")), "the new file was left behind"


def test_where_nothing_can_be_written_is_known_before_measuring(tmp_path):
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(OSError, match="cache"):
        database.require_writable(DEVICE)
    assert database.lookup(0, KEY) is None


def test_a_failed_write_leaves_the_old_file(monkeypatch):
    database.remember(DEVICE, {KEY: entry()})
    before = DEVICE.path.read_text()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(database.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        database.remember(DEVICE, {OTHER_KEYS[0]: entry()})
    assert DEVICE.path.read_text() == before
    assert {path.name for path in database.folder().iterdir()} == {DEVICE.path.name, "lock"}


def test_clearing_removes_the_files_of_all_devices_but_not_the_shipped_ones():
    ship({OTHER_KEYS[0]: entry()})
    assert database.clear() == 0
    database.remember(DEVICE, {KEY: entry()})
    database.remember(replace(DEVICE, driver="12.0"), {KEY: entry()})
    (database.folder() / "left.tmp").write_text("by a writer that was killed")
    assert database.lookup(0, KEY) == SMALLER
    assert database.clear() == 2
    assert database.lookup(0, KEY) is None
    assert database.lookup(0, OTHER_KEYS[0]) == SMALLER
    assert {path.name for path in database.folder().iterdir()} == {"lock"}


# Many at once -------------------------------------------------------------------------------------------

WRITERS, WRITES = 4, 12
WRITE_MANY = f"""
import sys, time
from pathlib import Path
sys.path.insert(0, {os.path.dirname(os.path.dirname(__file__))!r})
from support.tuning import DEVICE, KEY, entry, like
from numba_gemm.auto import database

writer, go = int(sys.argv[1]), Path(sys.argv[2])
print("ready", flush=True)
while not go.exists():
    time.sleep(0.001)
for i in range({WRITES}):
    database.remember(DEVICE, {{like(KEY, m=writer + 1, n=i + 1): entry()}})
"""


def test_no_entry_of_concurrent_processes_is_lost_and_readers_see_whole_files(tmp_path):
    go = tmp_path / "go"
    processes = [
        subprocess.Popen([sys.executable, "-c", WRITE_MANY, str(writer), str(go)], stdout=subprocess.PIPE, text=True)
        for writer in range(WRITERS)
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    go.touch()
    seen = 0
    while any(process.poll() is None for process in processes):
        try:
            entries = database.read(DEVICE.path, DEVICE.header)  # raises for half a file
        except FileNotFoundError:
            continue
        assert len(entries) >= seen, "an entry vanished"
        seen = len(entries)
    assert [process.wait() for process in processes] == [0] * WRITERS
    for process in processes:
        process.stdout.close()
    expected = {like(KEY, m=m, n=n) for m in range(1, WRITERS + 1) for n in range(1, WRITES + 1)}
    assert database.read(DEVICE.path, DEVICE.header).keys() == expected


def test_no_entry_of_concurrent_threads_is_lost():
    def write_many(writer):
        for i in range(WRITES):
            database.remember(DEVICE, {like(KEY, m=writer + 1, n=i + 1): entry()})
            assert database.lookup(0, like(KEY, m=writer + 1, n=i + 1)) == SMALLER

    threads = [threading.Thread(target=write_many, args=(writer,)) for writer in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(database.read(DEVICE.path, DEVICE.header)) == WRITERS * WRITES


# Entries as JSON ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [version for version in VERSIONS if version.traits.takes_variants], ids=str)
def test_an_entry_survives_json(version):
    found = entry(replace(SMALLER, version=version, tile=version.default_tile), 1.25e-5, Timed(RUNG_6, 0.5))
    assert from_dict(json.loads(json.dumps(found.to_dict(KEY)))) == (KEY, found)


def test_keys_in_words():
    assert str(KEY) == "512×256×128 (NN)"
    assert str(Problem.of_key(1, 2, 3, 4, False, True, False)) == "1×2×3, 4 times (TT, unaligned)"
    assert like(KEY, batch=2).flops == 2 * 2 * 512 * 256 * 128
