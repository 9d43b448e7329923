"""The command line: exit statuses, and errors in one line without a traceback."""

import os
import subprocess
import sys

import pytest

from numba_gemm import VERSIONS


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
    assert "demo" in done.stdout


@pytest.mark.parametrize("arguments", [["demo", "--size", "0"], ["demo", "--size", "many"], ["nonsense"]])
def test_wrong_usage_is_status_2(arguments):
    done = run(*arguments)
    assert done.returncode == 2, done.stdout
    assert "Traceback" not in done.stderr


def test_what_cannot_work_is_one_line_and_status_2():
    done = run("demo", NUMBA_ENABLE_CUDASIM="1")
    assert done.returncode == 2, done.stdout
    assert done.stderr.startswith("numba-gemm: unset NUMBA_ENABLE_CUDASIM")
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


@pytest.mark.machine_code
def test_the_demo_without_a_gpu_runs_every_version():
    done = run("demo", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No usable GPU" in done.stdout
    assert done.stdout.count("✓") == len(VERSIONS)
    assert "wrong" not in done.stdout
