"""Figures that follow from times: rates, ratios, means; and what cannot be true."""

import json
import math

import pytest

from numba_gemm.bench.results import Row, ShapeResult, impossible, judged, summaries
from numba_gemm.bench.suite import SHAPES, SUITE, written
from numba_gemm.bench.summary import summarise

SHAPE = (1000, 2000, 3000)
LIMIT = 50e12


def result(*rows, shape=SHAPE):
    return ShapeResult(shape, rows, rounds=30, ffma_limit=LIMIT)


CUBLAS = Row("cuBLAS", peer=True, cold=1e-3, warm=0.6e-3, error=0.1)
AUTO = Row("auto", peer=False, version="7 (warp_tiled)", tile="t", cold=0.5e-3, warm=0.4e-3, host=2e-5, error=0.2)


def test_rates_and_ratios():
    found = result(AUTO, CUBLAS)
    assert found.flops == 2 * 1000 * 2000 * 3000
    assert found.least_bytes == 4 * (1000 * 3000 + 3000 * 2000 + 1000 * 2000)
    assert found.tflops(AUTO) == pytest.approx(24)
    assert found.share_of_limit(AUTO) == pytest.approx(24 / 50)
    assert found.gigabytes_per_second(AUTO) == pytest.approx(found.least_bytes / 0.5e-3 / 1e9)
    assert found.speedup(AUTO, "cold") == pytest.approx(2)
    assert found.speedup(AUTO, "warm") == pytest.approx(1.5)
    assert found.speedup(CUBLAS, "cold") == 1
    assert not found.failed


def test_a_wrong_baseline_is_none():
    wrong = Row("cuBLAS", peer=True, cold=1e-3, problem="wrong", wrong=True)
    found = result(AUTO, wrong)
    assert found.baseline is None
    assert found.speedup(AUTO, "cold") is None
    assert found.failed


@pytest.mark.parametrize(
    ("row", "failed"),
    [
        (Row("Triton", peer=True, problem="not installed"), False),
        (Row("Triton", peer=True, problem="wrong", wrong=True), True),
        (Row("auto", peer=False, problem="ValueError: no"), True),
    ],
)
def test_what_makes_a_run_fail(row, failed):
    assert result(CUBLAS, row).failed == failed


@pytest.mark.parametrize("row", [AUTO, CUBLAS, Row("auto", peer=False, problem="no"), Row("x", peer=True, warm=1e-3)])
def test_figures_are_json(row):
    text = json.dumps(result(row, CUBLAS).to_dict(), allow_nan=False)
    (figures, _) = json.loads(text)["candidates"]
    assert figures["name"] == row.name
    assert (figures["tflops"] is None) == (row.cold is None and row.warm is None)


def test_extra_info_has_what_reports_and_pictures_read():
    found = result(AUTO, CUBLAS).extra_info("auto")
    assert (found["m"], found["n"], found["k"]) == SHAPE
    assert found["vs_baseline"] == found["vs_cublas_cold"] == pytest.approx(2)
    assert found["vs_cublas_warm"] == pytest.approx(1.5)
    assert (found["candidate"], found["version"], found["tile"]) == ("auto", "7 (warp_tiled)", "t")
    assert found["baseline_seconds"] == 1e-3
    assert [other["name"] for other in found["others"]] == ["cuBLAS"]
    json.dumps(found, allow_nan=False)


def test_what_no_device_can_do_is_impossible():
    assert impossible(int(40e9), 1e-3, LIMIT) is None
    assert impossible(int(51e9), 1e-3, LIMIT) is None, "clocks differ a little"
    assert "60.0 TFLOP/s is impossible: float32 multiply-adds reach 50.0 here" in impossible(int(60e9), 1e-3, LIMIT)
    # A launch that nobody waited for: 8192³ in the time of an empty kernel.
    assert impossible(2 * 8192**3, 2e-6, LIMIT) is not None


@pytest.mark.parametrize(("error", "text"), [(0.0, None), (1.0, None), (1.5, "1.5 times"), (math.nan, "unwritten")])
def test_errors_in_words(error, text):
    found = judged(error)
    assert found is None if text is None else text in found


def test_a_summary_is_geometric_and_names_the_worst():
    found = summarise({(1, 1, 1): 0.5, (2, 2, 2): 2.0, (3, 3, 3): 1.0})
    assert found.geometric_mean == pytest.approx(1)
    assert (found.shapes, found.worst, found.worst_at) == (3, 0.5, (1, 1, 1))
    assert summarise({}) is None


def test_summaries_are_of_versions_with_a_baseline():
    slow = Row("auto", peer=False, cold=2e-3)
    results = [
        result(AUTO, CUBLAS),
        result(slow, CUBLAS, shape=(1, 1, 1)),
        result(AUTO, shape=(2, 2, 2)),
        result(Row("auto", peer=False, problem="no"), CUBLAS, shape=(3, 3, 3)),
    ]
    (found,) = summaries(results, "cold").items()
    assert found[0] == "auto"
    assert (found[1].shapes, found[1].worst_at) == (2, (1, 1, 1))
    assert found[1].geometric_mean == pytest.approx(1)
    assert summaries(results, "warm")["auto"].shapes == 1


def test_the_suite_has_each_shape_once():
    assert len(SHAPES) == len(set(SHAPES)) == sum(map(len, SUITE.values())) == 25
    assert written((1, 4096, 14336)) == "1×4096×14336"
