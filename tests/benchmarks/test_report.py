"""The tables of the README and of benchmarks/README.md are what the stored results say."""

from pathlib import Path

import pytest

from benchmarks import choices, report
from numba_gemm import VERSIONS
from numba_gemm.auto.candidates import candidates
from numba_gemm.auto.choose import choose_by_model
from numba_gemm.auto.entry import KEY as FIELDS
from numba_gemm.bench.suite import SHAPES
from numba_gemm.hardware.devices import find
from numba_gemm.plots.results import BENCHMARKS
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
        products.append({**{name: getattr(key, name) for name in FIELDS}, "torch": seconds, "candidates": times})
    return {"machine_info": {"gpu": "NVIDIA H200"}, "products": products}


def empty(page):
    """The page with its markers, and nothing that was generated."""
    sections = (f"<!-- {name}: generated -->\nSTALE\n<!-- end -->\n" for name in report.PAGES[page])
    return f"head\n{''.join(sections)}tail\n"


def rendered(page, results):
    return report.render(page, empty(page), results)


def section(name, results):
    page = next(page for page, sections in report.PAGES.items() if name in sections)
    return rendered(page, results).split(f"<!-- {name}: generated -->\n")[1].split("<!-- end -->")[0]


def test_every_section_is_filled_from_the_results():
    for page in report.PAGES:
        text = rendered(page, stored())
        assert "STALE" not in text
        assert text.startswith("head\n")
        assert text.endswith("tail\n")
    ladder, detours = section("ladder", stored()), section("detours", stored())
    for version in VERSIONS:
        if version.number:
            assert f"`]({source(version)}) | {version.summary} | 13.57 | 12.3 | 0.56 | 0.56 |" in ladder
        else:  # detours were measured at the largest size only
            assert f"`{version.name}` | {version.summary} | 13.57 | 12.3 | 0.56 |" in detours
    for number in ("7.89", "Example GPU", "98.7", "77 rounds", "2031-02-03"):
        assert number in ladder, f"{number} not in {ladder}"
    assert "0.08" in section("pipeline", stored())
    assert "0.16" in section("pipeline", stored())
    assert "| 4095×4097×4093 | rung 6 against cuBLAS | 3.58 | 2.47 | 0.43 |" in section("boundary", stored())
    assert "| 7.6 | 1.62 |" in section("host time", stored())


def source(version):
    return f"{version.module.__name__.replace('.', '/')}.py"


def test_the_ladder_links_its_kernels():
    text = section("ladder", stored())
    for version in VERSIONS:
        if version.number:
            assert f"**{version.number}** [`{version.name}`]({source(version)})" in text
            assert (ROOT / source(version)).is_file()


def test_the_headline_says_how_far_the_fastest_rung_is_and_auto():
    results = stored()
    fastest = next(
        each["extra_info"]
        for each in results["benchmarks"]
        if each["group"] == "ladder" and (each["extra_info"]["version"], each["extra_info"]["m"]) == ("register", 4096)
    )
    fastest["vs_baseline"] = 1.2345
    assert section("headline", results) == (
        "On an Example GPU, rung 3 takes 13.57 ms for a product of 4096³, 1.23 times as fast as cuBLAS in plain FP32;\n"
        '`version="auto"` is 1.00 times as fast in the geometric mean of 2 shapes, and 0.50 times at worst '
        "(64×4096×4096),\nall with a cold L2.\n"
    )
    assert section("headline", stored(suite=False)).endswith("as fast as cuBLAS in plain FP32.\n")


def test_the_short_table_has_the_telling_shapes_and_the_mean_of_all():
    text = section("shapes", stored())
    assert "| large and even | 4096×4096×4096 | 7 (warp_tiled) | 123.0 | 23.4 | 2.00 | 4.00 |" in text
    assert "| all 2 shapes | geometric mean |  |  |  | **1.00** | **3.00** |" in text
    assert "|  | worst |  |  |  | **0.50** at 64×4096×4096 | **2.25** at 64×4096×4096 |" in text
    assert text.count("×4096×4096 |") == 3, "of the two that were measured, one is among the six"
    assert len(report.TELLING) == 6
    assert set(report.TELLING) < set(SHAPES)


def test_the_suite_has_its_mean_its_worst_and_its_peers():
    text = section("suite", stored())
    assert "| 64×4096×4096 | 7 (warp_tiled), 64×64×16 | 123.0 | 23.4 | 34% | 1988 | 0.50 | 2.25 |" in text
    assert "| geometric mean | of 2 shapes |  |  |  |  | **1.00** | **3.00** |" in text
    assert "| **0.50** at 64×4096×4096 | **2.25** at 64×4096×4096 |" in text
    assert "| Triton 9.8.7 | 4096×4096×4096 | 32.10 | 4.6 | 0.77 |" in text
    assert "| version 3 (register) | 4096×4096×4096 | 32.10 | 4.6 | 0.77 |" in text
    assert "Example GPU" in text
    assert "a copy on this card" not in text, "none was measured"
    results = stored()
    copied = {"group": "few rows", "stats": {"median": 1, "rounds": 1}, "extra_info": {"copy_bandwidth": 3.456e12}}
    results["benchmarks"].append(copied)
    assert "a copy on this card reaches 3456 GB/s" in section("suite", results)


def test_choices_are_summed_up_for_both_sets():
    text = section("choices", stored())
    assert "| 2 that the model is fitted to | 0.71 | 0.50 at 4096×4096×4096 (NN) | 2.00 | 2.00 at" in text
    assert "| 2 others | 1.00 | 0.50 at 64×64×64 (NN) | 2.00 | 2.00 at" in text


def test_an_epilogue_costs_what_is_added_to_the_plain_product():
    text = section("epilogues", stored())
    assert "| bias, gelu | 4096×4096×64 | 4 | 4.1 | +2.5% |" in text


@pytest.mark.parametrize("name", ["suite", "shapes", "detours", "epilogues"])
def test_what_was_not_measured_says_so(name):
    without = stored(suite=False)
    without["benchmarks"] = [
        each for each in without["benchmarks"] if each["group"] != "ladder" or each["extra_info"]["m"] != 4096
    ]
    assert section(name, without) == report.NOT_MEASURED


@pytest.mark.parametrize("page", report.PAGES, ids=str)
class TestPages:
    def test_rendering_again_changes_nothing(self, page):
        once = rendered(page, stored())
        assert report.render(page, once, stored()) == once

    def test_one_without_its_markers_is_refused(self, page):
        first = next(iter(report.PAGES[page]))
        with pytest.raises(ValueError, match=f"no section between <!-- {first}: generated --> and <!-- end -->"):
            report.render(page, "head", stored())

    def test_markers_that_nothing_fills_are_refused(self, page):
        with pytest.raises(ValueError, match="nothing generates 'lader'; there are "):
            report.render(page, empty(page) + "<!-- lader: generated -->\n<!-- end -->\n", stored())

    def test_it_shows_the_stored_results(self, page):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert report.render(page, text, report.load(ROOT)) == text, "run python -m benchmarks.report"


def test_stored_results_are_of_versions_that_there_are():
    results = report.load(ROOT)
    measured = {result["extra_info"]["version"] for result in results["benchmarks"] if result["group"] == "ladder"}
    assert measured <= {version.name for version in VERSIONS}, "results of a version that is not there any more"


def test_check_names_every_stale_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for path in (BENCHMARKS, choices.RESULTS):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((ROOT / path).read_text(encoding="utf-8"), encoding="utf-8")
    for page in report.PAGES:
        page.write_text(empty(page), encoding="utf-8")
    assert report.main(["--check"]) == 1
    assert [line.partition(" ")[0] for line in capsys.readouterr().err.splitlines()] == [*map(str, report.PAGES)]
    assert report.main([]) == 0
    assert report.main(["--check"]) == 0
