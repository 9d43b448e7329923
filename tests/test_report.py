"""The tables of the README are what the stored results say."""

import json
from pathlib import Path

import pytest

from numba_gemm import VERSIONS
from numba_gemm.bench import report

ROOT = Path(__file__).parents[1]


def stored(**changes):
    """Results as pytest-benchmark stores them, with numbers that no other place of the tables has."""
    machine = {"gpu": "Example GPU", "cuda_driver": "99.1", "packages": {"numba": "98.7"}}
    benchmarks = []

    def add(group, seconds, **extra):
        stats = {"median": seconds, "rounds": 77}
        benchmarks.append({"group": group, "stats": stats, "extra_info": {"baseline": "cuBLAS", **extra}})

    for version in VERSIONS:
        for size in (1024, 4096):
            shape = {"m": size, "n": size, "k": size}
            rates = {"tflops": 12.34, "vs_baseline": 0.56, "baseline_seconds": 0.00789}
            add("ladder", 0.01357, version=version.name, **shape, **rates, registers=111, local_bytes=222)
    for bk in (8, 16):
        for stages in (2, 3):
            add("pipeline", 0.001, tile=f"{bk} {stages}", bk=bk, stages=stages, vs_baseline=bk / 100 + stages / 1000)
    ragged = {"m": 4095, "n": 4097, "k": 4093, "vs_baseline": 0.43, "baseline_seconds": 0.002468}
    add("ragged", 0.003579, **ragged)
    add("host time", 1.0, call="plan", seconds_per_call=7.65e-6)
    return {"machine_info": machine, "datetime": "2031-02-03T04:05", "benchmarks": benchmarks, **changes}


def empty_readme():
    return (
        "head\n" + "".join(f"<!-- {name}: generated -->\nSTALE\n<!-- end -->\n" for name in report.SECTIONS) + "tail\n"
    )


def test_every_section_is_filled_from_the_results():
    text = report.render(empty_readme(), stored())
    assert "STALE" not in text
    assert text.startswith("head\n")
    assert text.endswith("tail\n")
    for version in VERSIONS:
        assert f"`{version.name}` | {version.summary} | 13.57 | 12.3 | 0.56 | 0.56 | 111 | 222 |" in text
    for number in ("7.89", "0.08", "0.16", "4095×4097×4093", "3.58", "2.47", "0.43", "| 7.6 |", "Example GPU", "98.7"):
        assert number in text, f"{number} not in {text}"
    assert "77 rounds" in text
    assert "2031-02-03" in text


def test_rendering_again_changes_nothing():
    once = report.render(empty_readme(), stored())
    assert report.render(once, stored()) == once


def test_a_readme_without_its_markers_is_refused():
    with pytest.raises(ValueError, match="no section between <!-- ladder: generated --> and <!-- end -->"):
        report.render("head", stored())


def test_the_readme_shows_the_stored_results():
    results = json.loads((ROOT / report.RESULTS).read_text(encoding="utf-8"))
    readme = (ROOT / report.README).read_text(encoding="utf-8")
    assert report.render(readme, results) == readme, "run python -m numba_gemm.bench.report"
    assert {result["extra_info"].get("version") for result in results["benchmarks"]} >= {v.name for v in VERSIONS}
