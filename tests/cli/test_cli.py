"""The command line: exit statuses, and errors in one line without a traceback."""

import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import numba_gemm
from numba_gemm import VERSIONS, Tile
from numba_gemm.analysis.code import inspection
from numba_gemm.cli import app
from numba_gemm.ladder import RUNGS


def run(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "numba_gemm.cli", *arguments],
        env={**os.environ, "COLUMNS": "200", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_help_names_the_verbs():
    done = run("--help")
    assert done.returncode == 0, done.stderr
    for verb in ("demo", "versions", "inspect"):
        assert verb in done.stdout


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("demo --size 0", "'--size'"),
        ("demo --size many", "'--size'"),
        ("explain 5 64", "argument"),
        ("inspect", "argument"),
        ("tune 64 64", "(64 64)"),
        ("info --nonsense", "--nonsense"),
        ("nonsense", "'nonsense'"),
        ("--nonsense", "--nonsense"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(wrong, said):
    arguments = wrong.split()
    done = run(*arguments, COLUMNS="60")
    assert done.returncode == 2, done.stdout
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.startswith("numba-gemm: ")
    assert said in done.stderr
    command = "" if "nonsense" in arguments[0] else f" {arguments[0]}"
    assert done.stderr.endswith(f"cli{command} --help` says what it takes\n")


def test_what_cannot_work_is_one_line_and_status_2():
    done = run("demo", NUMBA_ENABLE_CUDASIM="1")
    assert done.returncode == 2, done.stdout
    assert done.stderr.startswith("numba-gemm: unset NUMBA_ENABLE_CUDASIM")
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


@pytest.mark.parametrize(
    ("arguments", "beginning"),
    [
        (["nonsense"], "unknown version 'nonsense'; there are the numbers 1, "),
        (["99"], "unknown version 99; there are the numbers 1, "),
        (["5", "--loop", "--json"], "--loop prints text"),
    ],
)
def test_what_cannot_be_inspected_is_one_line_at_any_width(arguments, beginning):
    done = run("inspect", *arguments, COLUMNS="80")
    assert done.returncode == 2, done.stdout
    assert done.stdout == ""
    assert done.stderr.startswith(f"numba-gemm: {beginning}")
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_an_error_of_several_lines_with_brackets_is_one_line(monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("no nvdisasm:\n  install 'numba-gemm[inspect]'")

    monkeypatch.setattr(inspection, "inspect", fail)
    done = CliRunner().invoke(app.app, ["inspect", "5"])
    assert done.exit_code == 2
    assert done.stderr == "numba-gemm: no nvdisasm: install 'numba-gemm[inspect]'\n"


@pytest.mark.parametrize("columns", ["80", "120"])
def test_versions_are_listed_with_their_names_uncut(columns):
    done = run("versions", COLUMNS=columns)
    assert done.returncode == 0, done.stderr
    assert "…" not in done.stdout
    for heading in ("rung", "name", "what it teaches", "C = A·B", *(["TM×TN"] if columns == "120" else [])):
        assert heading in done.stdout
    cells = done.stdout.split()
    assert [version.name in cells for version in VERSIONS] == [True] * len(VERSIONS)


def test_versions_as_json_are_the_table_of_versions():
    done = run("versions", "--json")
    assert done.returncode == 0, done.stderr
    listed = json.loads(done.stdout)
    for facts, version in zip(listed, VERSIONS, strict=True):
        assert (facts["number"], facts["name"], facts["summary"]) == (version.number, version.name, version.summary)
        assert set(facts["capabilities"]) == version.capabilities
        assert tuple(facts["min_cc"]) == version.min_cc
        assert Tile(**facts["default_tile"]) == version.default_tile


@pytest.mark.machine_code
@pytest.mark.parametrize("name", ["1", "naive"])
def test_inspect_as_json_is_to_dict(name):
    done = run("inspect", name, "--arch", "sm_80", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == numba_gemm.inspect(1, arch="sm_80").to_dict()


@pytest.mark.machine_code
def test_inspect_prints_the_loop_behind_the_tables():
    done = run("inspect", "1", "--loop", COLUMNS="80")
    assert done.returncode == 0, done.stderr
    found = numba_gemm.inspect(1)
    assert done.stdout.startswith("Version 1 (naive) for sm_90")
    assert done.stdout.endswith(f"\n\n{found.loop_listing()}\n")


@pytest.mark.machine_code
def test_inspect_names_the_architectures():
    done = run("inspect", "1", "--arch", "sm_70")
    assert done.returncode == 2, done.stdout
    assert done.stderr.startswith("numba-gemm: unknown architecture 'sm_70': one of sm_80, ")
    assert len(done.stderr.splitlines()) == 1, done.stderr


@pytest.mark.machine_code
def test_the_demo_without_a_gpu_runs_every_rung():
    done = run("demo", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No usable GPU" in done.stdout
    assert done.stdout.count("✓") == len(RUNGS)
    assert "wrong" not in done.stdout
