"""The tables of the README are what the stored results say."""

from pathlib import Path

import pytest

from benchmarks import report
from numba_gemm import VERSIONS
from numba_gemm.auto.candidates import candidates
from numba_gemm.auto.choose import choose_by_model
from numba_gemm.hardware.devices import find
from numba_gemm.problem import Problem

ROOT = Path(__file__).parents[2]


def stored(suite=True, **changes):
    """Results as pytest-benchmark stores them, with numbers that no other place of the tables has."""
    machine = {"gpu": "Example GPU", "cuda_driver": "99.1", "packages": {"numba": "98.7"}}
    benchmarks = []

    def add(group, seconds, **extra):
        stats = {"median": seconds, "rounds": 77}
        benchmarks.append({"group": group, "stats": stats, "extra_info": {"baseline": "cuBLAS", **extra}})

    for version in VERSIONS:
        for size in (1024, 4096) if version.number else (4096,):
            shape = {"m": size, "n": size, "k": size}
            rates = {"tflops": 12.34, "vs_baseline": 0.56, "baseline_seconds": 0.00789}
            add("ladder", 0.01357, version=version.name, **shape, **rates, registers=111, local_bytes=222)
    for bk in (8, 16):
        for stages in (2, 3):
            add("pipeline", 0.001, tile=f"{bk} {stages}", bk=bk, stages=stages, vs_baseline=bk / 100 + stages / 1000)
    ragged = {"m": 4095, "n": 4097, "k": 4093, "vs_baseline": 0.43, "baseline_seconds": 0.002468}
    add("ragged", 0.003579, **ragged)
    add("host time", 1.0, call="plan", seconds_per_call=7.65e-6, vs_baseline=1.62)
    if suite:
        figures = {"cold": 0.0321, "tflops": 4.567, "vs_cublas_cold": 0.77}
        others = [{"name": "Triton", "version": "9.8.7", "peer": True, **figures}]
        others += [{"name": "3 (register)", "version": "3 (register)", "peer": False, **figures}]
        for shape, cold, warm in (((64, 4096, 4096), 0.5, 2.25), ((4096, 4096, 4096), 2.0, 4.0)):
            m, n, k = shape
            ratios = {"vs_cublas_cold": cold, "vs_cublas_warm": warm, "vs_baseline": cold}
            rates = {"tflops": 23.4, "share_of_ffma_limit": 0.345, "gigabytes_per_second": 1987.6}
            chosen = {"version": "7 (warp_tiled)", "tile": "64×64×16", "others": others if m == 4096 else []}
            add("suite", 0.000123, m=m, n=n, k=k, **ratios, **rates, **chosen)
        times = {"baseline_seconds": 0.004, "m": 4096, "n": 4096, "k": 64}
        add("epilogues", 0.0041, epilogue="bias, gelu", **times)
    timed = {"fitted": candidate_times(1e-3, 2e-3), "held-out": candidate_times(4e-3, 1e-3)}
    results = {"machine_info": machine, "datetime": "2031-02-03T04:05", "benchmarks": benchmarks}
    return {**results, "candidates": timed, **changes}


def candidate_times(*of_pytorch):
    """Of cubes of 4096 and 64. One candidate takes 1 ms, and all others, the model's choice among them, take 2."""
    products = []
    for size, seconds in zip((4096, 64), of_pytorch, strict=True):
        key = Problem.of_key(size, size, size, 1, a_along_k=True, b_along_k=False, vector=True)
        times = {str(choice): 2e-3 for choice in candidates(key, (9, 0))}
        times[next(name for name in times if name != str(choose_by_model(find("H200"), key)))] = 1e-3
        products.append({**key._asdict(), "torch": seconds, "candidates": times})
    return {"machine_info": {"gpu": "NVIDIA H200"}, "products": products}


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
        ratios = "0.56 | 0.56" if version.number else "0.56"  # detours were measured at the largest size only
        assert f"`{version.name}` | {version.summary} | 13.57 | 12.3 | {ratios} |" in text
    shown = ("7.89", "0.08", "0.16", "4095×4097×4093", "3.58", "2.47", "0.43", "| 7.6 | 1.62 |", "Example GPU", "98.7")
    for number in shown:
        assert number in text, f"{number} not in {text}"
    assert "77 rounds" in text
    assert "2031-02-03" in text


def section(text, name):
    return text.split(f"<!-- {name}: generated -->\n")[1].split("<!-- end -->")[0]


def test_the_suite_has_its_mean_its_worst_and_its_peers():
    text = section(report.render(empty_readme(), stored()), "suite")
    assert "| 64×4096×4096 | 7 (warp_tiled), 64×64×16 | 123.0 | 23.4 | 34% | 1988 | 0.50 | 2.25 |" in text
    assert "| geometric mean | of 2 shapes |  |  |  |  | **1.00** | **3.00** |" in text
    assert "| **0.50** at 64×4096×4096 | **2.25** at 64×4096×4096 |" in text
    assert "| Triton 9.8.7 | 4096×4096×4096 | 32.10 | 4.6 | 0.77 |" in text
    assert "| version 3 (register) | 4096×4096×4096 | 32.10 | 4.6 | 0.77 |" in text
    assert "Example GPU" in text


def test_choices_are_summed_up_for_both_sets():
    text = section(report.render(empty_readme(), stored()), "choices")
    assert "| 2 that the model is fitted to | 0.71 | 0.50 at 4096×4096×4096 (NN) | 2.00 | 2.00 at" in text
    assert "| 2 others | 1.00 | 0.50 at 64×64×64 (NN) | 2.00 | 2.00 at" in text


def test_an_epilogue_costs_what_is_added_to_the_plain_product():
    text = section(report.render(empty_readme(), stored()), "epilogues")
    assert "| bias, gelu | 4096×4096×64 | 4 | 4.1 | +2.5% |" in text


@pytest.mark.parametrize("name", report.OPTIONAL)
def test_what_was_not_measured_says_so_or_is_left_out(name):
    without = stored(suite=False)
    without["benchmarks"] = [
        each for each in without["benchmarks"] if each["group"] != "ladder" or each["extra_info"]["m"] != 4096
    ]
    assert section(report.render(empty_readme(), without), name) == report.NOT_MEASURED
    marker = f"<!-- {name}: generated -->\nSTALE\n<!-- end -->\n"
    readme = empty_readme().replace(marker, "")
    assert f"<!-- {name}:" not in report.render(readme, without)
    with pytest.raises(ValueError, match=f"no section between <!-- {name}: generated -->"):
        report.render(readme, stored())


def test_rendering_again_changes_nothing():
    once = report.render(empty_readme(), stored())
    assert report.render(once, stored()) == once


def test_a_readme_without_its_markers_is_refused():
    with pytest.raises(ValueError, match="no section between <!-- ladder: generated --> and <!-- end -->"):
        report.render("head", stored())


def test_the_readme_shows_the_stored_results():
    results = report.load(ROOT)
    readme = (ROOT / report.README).read_text(encoding="utf-8")
    assert report.render(readme, results) == readme, "run python -m benchmarks.report"
    measured = {result["extra_info"]["version"] for result in results["benchmarks"] if result["group"] == "ladder"}
    assert measured <= {version.name for version in VERSIONS}, "results of a version that is not there any more"
