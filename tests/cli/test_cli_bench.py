"""`numba-gemm bench`: what it is asked, what it prints and stores, exit statuses, and errors in one line."""

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console
from typer.testing import CliRunner

from numba_gemm import ladder
from numba_gemm.bench import environment, measure
from numba_gemm.bench.measure import Harness
from numba_gemm.bench.results import Row, ShapeResult
from numba_gemm.bench.suite import SHAPES
from numba_gemm.cli import app
from numba_gemm.cli import bench as command

AUTO = Row("auto", peer=False, version="7 (warp_tiled)", tile="64×64×16", cold=0.5e-3, warm=0.6e-3, host=1e-5)
CUBLAS = Row("cuBLAS", peer=True, version="13.1.0", cold=1e-3, warm=0.9e-3, error=0.1)


class Bench:
    """In place of the library that measures: remembers what it was asked, and knows all rows in advance."""

    def __init__(self):
        self.asked = []
        self.rows = [AUTO]
        self.interrupted_after = None

    def run(self, shapes, versions, _harness, report, *, cold, warm, rounds=measure.ROUNDS):
        self.asked.append((list(shapes), [str(version) for version in versions], cold, warm))
        for done, shape in enumerate(shapes):
            if done == self.interrupted_after:
                raise RuntimeError("the GPU has gone")
            report("verify", 1)
            yield ShapeResult(shape, (*self.rows, CUBLAS), rounds, ffma_limit=60e12)


@pytest.fixture
def bench(monkeypatch):
    bench = Bench()
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(measure, "require_gpu", lambda _: None)
    monkeypatch.setattr(measure, "harness", lambda: Harness(None, 60e12))
    monkeypatch.setattr(measure, "run", bench.run)
    monkeypatch.setattr(environment, "describe", lambda: {"gpu": "Example GPU", "cuda_driver": "99.1"})
    return bench


def invoke(*arguments, status=0):
    done = CliRunner().invoke(app.app, ["bench", *arguments])
    assert done.exit_code == status, done.output
    return done


def test_without_a_word_it_is_auto_on_the_suite_cold_and_warm(bench):
    invoke()
    assert bench.asked == [(list(SHAPES), ["auto"], True, True)]


@pytest.mark.parametrize(("option", "cold", "warm"), [("--cold", True, False), ("--warm", False, True)])
def test_versions_shapes_and_the_state_of_the_cache(bench, option, cold, warm):
    invoke("--versions", "1,naive,boundary,auto", "--shapes", "8x8x8,1x2x3", option)
    assert bench.asked == [([(8, 8, 8), (1, 2, 3)], ["1 (naive)", "6 (boundary)", "auto"], cold, warm)]


@pytest.mark.usefixtures("bench")
def test_the_table_and_the_summary():
    out = invoke("--shapes", "1000x1000x1000,2000x1000x1000").stdout
    for text in ("Example GPU, CUDA 99.1", "FFMA limit 60.0", "1000×1000×1000", "7 (warp_tiled), 64×64×16"):
        assert text in out
    assert "auto, cold L2: 2.00 × cuBLAS in the geometric mean of 2 shapes, worst 2.00 at 1000×1000×1000" in out
    assert "auto, warm L2: 1.50 × cuBLAS" in out
    row = next(line for line in out.splitlines() if "7 (warp_tiled)" in line)
    assert row.split()[-8:] == ["500.0", "600.0", "4.0", "7", "24", "2.00", "1.50", "10.0"]


@pytest.mark.parametrize("columns", ["80", "100"])
def test_a_narrow_table_leaves_tiles_out_but_no_figure(bench, columns, monkeypatch):
    bench.rows.append(replace(AUTO, name="7 (warp_tiled)"))
    monkeypatch.setenv("COLUMNS", columns)
    out = invoke("--shapes", "65536x128x128").stdout
    assert "…" not in out
    assert "64×64×16" not in out
    for text in ("65536×128×128", "7 (warp_tiled)", "500", "600", "2.00", "1.50"):
        assert text in out
    assert ("host" in out) == (columns == "100")


@pytest.mark.usefixtures("bench")
def test_json_is_what_is_saved(tmp_path):
    path = tmp_path / "results.json"
    printed = json.loads(invoke("--shapes", "8x8x8", "--json", "--save", str(path)).stdout)
    assert printed == json.loads(path.read_text())
    assert printed["machine"]["gpu"] == "Example GPU"
    (result,) = printed["results"]
    auto, cublas = result["candidates"]
    assert (auto["name"], auto["vs_cublas_cold"], auto["cold"]) == ("auto", 2.0, 0.5e-3)
    assert cublas["version"] == "13.1.0"
    assert printed["vs_cublas"]["warm"]["auto"] == {
        "shapes": 1,
        "geometric_mean": pytest.approx(1.5),
        "worst": 1.5,
        "worst_at": [8, 8, 8],
    }


def test_a_wrong_result_is_status_1(bench):
    bench.rows.append(Row("5 (cp_async)", peer=False, problem="wrong: its error is 7 times the bound", wrong=True))
    out = invoke("--shapes", "8x8x8", status=1).stdout
    assert "8×8×8, 5 (cp_async): wrong: its error is 7 times the bound" in out


def test_a_missing_peer_is_said_and_no_failure(bench):
    bench.rows.append(Row("Triton", peer=True, problem="triton is not installed; pip install triton"))
    assert "Triton: triton is not installed; pip install triton" in invoke("--shapes", "8x8x8").stdout


def test_what_was_measured_before_an_error_is_saved(bench, tmp_path):
    bench.interrupted_after = 1
    path = tmp_path / "results.json"
    done = invoke("--shapes", "8x8x8,9x9x9", "--save", str(path), status=2)
    assert done.stderr == "numba-gemm: the GPU has gone\n"
    assert [result["m"] for result in json.loads(path.read_text())["results"]] == [8]


def test_a_file_with_results_survives_a_run_without_any(bench, tmp_path):
    bench.interrupted_after = 0
    path = tmp_path / "results.json"
    path.write_text("precious")
    invoke("--shapes", "8x8x8", "--save", str(path), status=2)
    assert path.read_text() == "precious"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--shapes", "8x8"], "'8x8' is not a shape; write MxNxK"),
        (["--versions", "99"], "unknown version 99; there are the numbers 1, "),
        (["--versions", ""], "unknown version ''"),
        (["--shapes", "8x8x8", "--save", "/nowhere/at/all.json"], "[Errno 2] No such file or directory"),
    ],
)
def test_wrong_usage_is_one_line_before_anything_is_measured(bench, arguments, text):
    done = invoke(*arguments, status=2)
    assert done.stderr.startswith(f"numba-gemm: {text}")
    assert len(done.stderr.splitlines()) == 1
    assert bench.asked == []


@pytest.mark.parametrize(
    ("simulator", "text"), [(False, "there is none that CUDA can use here"), (True, "unset NUMBA_ENABLE_CUDASIM")]
)
def test_without_a_gpu_it_is_one_line_and_status_2(monkeypatch, tmp_path, simulator, text):
    monkeypatch.setattr(measure, "SIMULATOR", simulator)
    monkeypatch.setattr(measure.cuda, "is_available", lambda: False)
    path = tmp_path / "results.json"
    done = invoke("--shapes", "8x8x8", "--save", str(path), status=2)
    assert done.stderr.startswith(f"numba-gemm: bench times kernels on a GPU; {text}")
    assert len(done.stderr.splitlines()) == 1
    assert not path.exists()


@pytest.mark.usefixtures("bench")
def test_in_a_terminal_the_table_grows_above_a_bar():
    """A frame after the first shape has its line already."""
    console = Console(file=io.StringIO(), force_terminal=True, width=120, height=40)
    report = command.measure(command.Request([ladder.find(1)], [(8, 8, 8)], command.CACHES), None, console)
    live = command._LiveReport(report, [(8, 8, 8), (9, 9, 9)], 10, console)
    live.report("verify auto", 3)
    console.file.truncate(0)
    console.print(live.render())
    frame = console.file.getvalue()
    assert "8×8×8" in frame
    assert "9×9×9: verify auto" in frame
    assert "3/10" in frame
