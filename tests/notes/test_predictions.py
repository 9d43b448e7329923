"""notes/predictions.md: generated from the stored results, complete, and not stale."""

import json
from pathlib import Path

import pytest

from notes.make import predictions
from notes.make.evidence import stored_benchmarks, stored_counters
from numba_gemm.analysis.models.explain import duration, explain
from numba_gemm.hardware.devices import H200
from numba_gemm.plots.results import BENCHMARKS

ROOT = Path(__file__).resolve().parents[2]


def stored(seconds, version="vectorized", size=4096, gpu="NVIDIA H200"):
    benchmark = {"group": "ladder", "extra_info": {"version": version, "m": size}, "stats": {"median": seconds}}
    other = {"group": "ragged", "extra_info": {"m": 1, "version": version}, "stats": {"median": 1.0}}
    return {"machine_info": {"gpu": gpu}, "datetime": "2031-02-03T04:05", "benchmarks": [benchmark, other]}


def test_the_page_shows_the_stored_results():
    page = (ROOT / predictions.PAGE).read_text(encoding="utf-8")
    assert predictions.page(stored_benchmarks(ROOT), stored_counters(ROOT)) == page, (
        "run python -m notes.make.predictions"
    )


def test_every_stored_version_is_compared():
    results = stored_benchmarks(ROOT)
    measured = [benchmark for benchmark in results["benchmarks"] if benchmark["group"] == "ladder"]
    assert len(predictions.comparisons(results)) == len(measured) > 0


@pytest.mark.parametrize("side", ["inside", "below", "above"])
def test_a_time_outside_of_its_range_is_marked_and_listed(side):
    found = explain("vectorized", 4096, 4096, 4096, H200).prediction
    seconds = {
        "inside": found.predicted_s,
        "below": 0.9 * found.optimistic_s,
        "above": 1.1 * found.pessimistic_s,
    }[side]
    (compared,) = predictions.comparisons(stored(seconds))
    assert compared.inside == (side == "inside")
    assert compared.ratio == pytest.approx(seconds / found.predicted_s)
    page = predictions.page(stored(seconds))
    assert (f"{duration(seconds)}, outside" in page) == (side != "inside")
    assert ("**4** `vectorized` at 4096³: Not explained yet." in page) == (side != "inside")
    assert ("Every measured time lies in its range." in page) == (side == "inside")
    assert "2031-02-03" in page


def test_a_known_reason_is_given():
    page = predictions.page(stored(1.0, "cp_async_ptx"))
    assert f"`cp_async_ptx` at 4096³: {predictions.LEFT_OUT['cp_async_ptx']}" in page


def test_two_warps_a_scheduler_are_explained_by_what_was_counted():
    found = {"warp_cycles": 4.0, "short_scoreboard": 1.25}
    page = predictions.page(stored(1.0, "ex8"), {"versions": {"ex8": found}})
    assert "every 4.00 cycles, of which it waits 1.25 for shared memory, so that 50% of the issue slots" in page
    assert "`ex8` at 4096³: Not explained yet." in predictions.page(stored(1.0, "ex8"))


def test_results_of_an_unknown_device_are_refused():
    with pytest.raises(ValueError, match="unknown device 'Example GPU'"):
        predictions.comparisons(stored(1.0, gpu="Example GPU"))


def test_check_says_whether_the_page_is_stale(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for path in (BENCHMARKS, predictions.PAGE):
        path.parent.mkdir(parents=True, exist_ok=True)
    BENCHMARKS.write_text(json.dumps(stored(4e-3)), encoding="utf-8")
    assert predictions.main(["--check"]) == 1
    assert predictions.main([]) == 0
    assert predictions.main(["--check"]) == 0
    BENCHMARKS.write_text(json.dumps(stored(5e-3)), encoding="utf-8")
    assert predictions.main(["--check"]) == 1
    assert "run python -m notes.make.predictions" in capsys.readouterr().err
