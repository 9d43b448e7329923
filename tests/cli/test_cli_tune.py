"""`numba-gemm tune`: what it tunes, lists and clears; exit statuses, and errors in one line."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from support.tuning import DEVICE, KEY, RUNG_6, RUNG_7, SMALLER, entry, isolated, like
from typer.testing import CliRunner

import numba_gemm
from numba_gemm.auto import database
from numba_gemm.auto.entry import Timed, from_dict
from numba_gemm.bench.suite import SUITE, parse_shapes
from numba_gemm.bench.tune import Tuning
from numba_gemm.cli import app
from numba_gemm.cli import tune as command
from numba_gemm.compiler.disk_cache import fingerprint


@pytest.fixture(autouse=True)
def database_of_its_own(monkeypatch, tmp_path):
    with isolated(monkeypatch, tmp_path):
        monkeypatch.setenv("COLUMNS", "200")
        yield


@pytest.fixture
def tuned(monkeypatch):
    """The shapes that were tuned; the fastest is always the same."""
    shapes = []

    def tune(m, n, k):
        shapes.append((m, n, k))
        key = KEY._replace(m=m, n=n, k=k)
        return Tuning(key, (Timed(SMALLER, 2e-3), Timed(RUNG_6, 3e-3)), (), DEVICE.path)

    monkeypatch.setattr(command, "tune", tune)
    return shapes


def invoke(*arguments, status=0):
    done = CliRunner().invoke(app.app, ["tune", *arguments])
    assert done.exit_code == status, done.output
    return done


def test_a_list_of_shapes(tuned):
    out = invoke("--shapes", "1000x500x20,1x4096x4096,1000x500x20").stdout
    assert tuned == [(1000, 500, 20), (1, 4096, 4096)]
    for text in ("1000×500×20", "1×4096×4096", "7 (warp_tiled)", "64×64×16", "50.0%", str(DEVICE.path)):
        assert text in out


def test_the_suite_is_what_is_tuned_without_a_word(tuned):
    invoke()
    assert tuned == [shape for group in SUITE.values() for shape in group]


def test_json(tuned):
    (found,) = json.loads(invoke("--shapes", "8x8x8", "--json").stdout)
    assert tuned == [(8, 8, 8)]
    assert from_dict(found) == (like(KEY, m=8, n=8, k=8), entry(SMALLER, 2e-3, Timed(RUNG_6, 3e-3)))
    assert found["wrong"] == []
    assert found["path"] == str(DEVICE.path)


def test_a_wrong_candidate_is_status_1(monkeypatch):
    found = Tuning(KEY, (Timed(SMALLER, 2e-3),), ((RUNG_7, 5.0),), DEVICE.path)
    monkeypatch.setattr(command, "tune", lambda *_: found)
    (facts,) = json.loads(invoke("--shapes", "8x8x8", "--json", status=1).stdout)
    assert facts["wrong"] == [{**RUNG_7.to_dict(), "error": 5.0}]


def test_the_opt_out_is_mentioned(tuned, monkeypatch):
    assert "NUMBA_GEMM_TUNING" not in invoke("--shapes", "8x8x8").stdout
    monkeypatch.setenv("NUMBA_GEMM_TUNING", "0")
    assert 'NUMBA_GEMM_TUNING=0 is set: "auto" does not look at it' in invoke("--shapes", "8x8x8").stdout
    assert len(tuned) == 2


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--shapes", "8x8"], "'8x8' is not a shape; write MxNxK, such as 4096x4096x4096, or suite"),
        (["--shapes", "8x8x8,0x8x8"], "'0x8x8' is not a shape"),
        (["--shapes", ""], "'' is not a shape"),
        (["--list", "--clear"], "--list shows what --clear removes"),
    ],
)
def test_wrong_usage(tuned, arguments, text):
    done = invoke(*arguments, status=2)
    assert done.stderr.startswith(f"numba-gemm: {text}")
    assert len(done.stderr.splitlines()) == 1
    assert tuned == []


def test_without_a_gpu_it_is_one_line_and_status_2():
    command = [sys.executable, "-m", "numba_gemm.cli", "tune", "--shapes", "8x8x8"]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "NUMBA_ENABLE_CUDASIM": "0"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stderr == "numba-gemm: tune times kernels on a GPU; there is none that CUDA can use here\n"


def test_what_cannot_be_written_is_one_line(monkeypatch):
    def tune(*_):
        raise PermissionError(13, "Permission denied", "/cache")

    monkeypatch.setattr(command, "tune", tune)
    done = invoke("--shapes", "8x8x8", status=2)
    assert done.stderr == "numba-gemm: [Errno 13] Permission denied: '/cache'\n"


# Listing and clearing -----------------------------------------------------------------------------------


def fill():
    """A shipped entry, one of the user for this state of the package, one for another; and a broken file."""
    database.shipped_folder().mkdir()
    document = {**DEVICE.shipped_header, "entries": [entry(RUNG_7).to_dict(KEY)]}
    (database.shipped_folder() / "nvidia_test_1.json").write_text(json.dumps(document))
    here = replace(DEVICE, package=numba_gemm.__version__, kernels=fingerprint())
    database.remember(here, {KEY: entry(SMALLER)})
    database.remember(DEVICE, {KEY._replace(batch=3): entry(RUNG_6)})
    (database.folder() / "zzz.json").write_text("{")


def test_the_list_as_json():
    fill()
    listed = json.loads(invoke("--list", "--json").stdout)
    found = sorted((facts["source"], facts["current"], facts["version"]) for facts in listed if "error" not in facts)
    assert found == [("shipped", True, "warp_tiled"), ("user", False, "boundary"), ("user", True, "warp_tiled")]
    (broken,) = (facts for facts in listed if "error" in facts)
    assert broken["path"].endswith("zzz.json")


def test_the_list_as_a_table():
    fill()
    out = invoke("--list").stdout
    for text in ("512×256×128", "3 × 512×256×128", "NVIDIA Test 1", "shipped", "another state", "zzz.json"):
        assert text in out


def test_an_empty_list():
    assert json.loads(invoke("--list", "--json").stdout) == []
    assert "no entries" in invoke("--list").stdout


def test_clear():
    fill()
    assert invoke("--clear").stdout == f"removed 3 files from {database.folder()}\n"
    assert [facts["source"] for facts in json.loads(invoke("--list", "--json").stdout)] == ["shipped"]
    assert json.loads(invoke("--clear", "--json").stdout) == {"removed": 0, "folder": str(database.folder())}


def test_shapes():
    assert parse_shapes("1x2x3, 4X5×6") == [(1, 2, 3), (4, 5, 6)]
    assert parse_shapes("4096x4096x4096,suite")[:2] == [(4096, 4096, 4096), (128, 128, 128)]
    assert len(parse_shapes("suite")) == len(parse_shapes("suite,4096x4096x4096")) == sum(map(len, SUITE.values()))
