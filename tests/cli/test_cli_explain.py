"""`numba-gemm explain`: what it prints, as tables and as JSON, and errors in one line."""

import json

import pytest
from typer.testing import CliRunner

import numba_gemm
from numba_gemm.cli import app

SHAPE = ["4096", "4096", "4096"]


def invoke(*arguments, columns="80"):
    return CliRunner().invoke(app.app, ["explain", *arguments], env={"COLUMNS": columns})


@pytest.mark.parametrize("columns", ["80", "120"])
def test_it_prints_bounds_prediction_and_the_next_idea(columns):
    done = invoke("4", *SHAPE, "--device", "a100", columns=columns)
    assert done.exit_code == 0, done.output
    text = " ".join(done.stdout.split())
    assert text.startswith("Version 4 (vectorized), 4096×4096×4096 on A100")
    for word in ("what bounds it", "issue", "shared memory", "latency", "Predicted", "Next, 5 (cp_async): "):
        assert word in text
    assert "…" not in text
    assert max(map(len, done.stdout.splitlines())) <= int(columns)


@pytest.mark.parametrize("version", [3, "register"])
def test_json_is_to_dict(version):
    done = invoke(str(version), "300", "200", "20", "--device", "RTX 4090", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == numba_gemm.explain(version, 300, 200, 20, "RTX 4090").to_dict()


@pytest.mark.machine_code
def test_detail_compiles():
    done = invoke("1", *SHAPE, "--device", "H100", "--detail", "--json")
    assert done.exit_code == 0, done.output
    figures = json.loads(done.stdout)
    assert figures["source"] == "machine code"
    assert figures["registers"] == numba_gemm.inspect(1, arch="sm_90").registers


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense", *SHAPE], "unknown version 'nonsense'; there are the numbers 1, "),
        (["auto", *SHAPE], "version 'auto' chooses by shape and device"),
        (["1", *SHAPE, "--device", "V100"], "unknown device 'V100'; there are A100, "),
    ],
)
def test_what_cannot_be_explained_is_one_line_and_status_2(arguments, message):
    done = invoke(*arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"numba-gemm: {message}")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments", [[], ["1"], ["1", "4096", "4096"], ["1", "x", "1", "1"], ["1", "--", "-1", "1", "1"]]
)
def test_wrong_usage_is_status_2(arguments):
    assert invoke(*arguments).exit_code == 2


def test_help_names_the_devices():
    done = invoke("--help", columns="120")
    assert done.exit_code == 0
    assert "A100" in done.stdout
    assert "--detail" in done.stdout
