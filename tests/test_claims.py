"""notes/claims.md: complete, not stale, and its verdicts follow from the figures."""

import json
import re
from pathlib import Path

import pytest

from numba_gemm.analysis import claims
from numba_gemm.analysis.claims import CLAIMS, FAILS, HOLDS, PARTLY, UNKNOWN, Evidence, Verdict
from numba_gemm.ladder import VERSIONS

ROOT = Path(__file__).resolve().parents[1]


def stored(*benchmarks):
    return {"machine_info": {"gpu": "NVIDIA H200"}, "datetime": "2031-02-03T04:05", "benchmarks": list(benchmarks)}


def timed(version, seconds, size=4096):
    extra = {"version": version, "m": size, "n": size, "k": size, "baseline_seconds": 1e-3}
    return {"group": "ladder", "extra_info": extra, "stats": {"median": seconds}}


def verdict(number, *benchmarks):
    """Of a claim that needs no machine code."""
    return CLAIMS[number - 1].judge(Evidence(stored(*benchmarks)))


@pytest.mark.machine_code
def test_the_page_shows_what_is_stored_and_compiled():
    results = json.loads((ROOT / claims.RESULTS).read_text(encoding="utf-8"))
    page = (ROOT / claims.PAGE).read_text(encoding="utf-8")
    assert claims.page(results) == page, "run python -m numba_gemm.analysis.claims"


#: Claims that machine code decides: 3, another compiler's registers; 5, the compiler reads four k at once; 6, loops
#: have more in them than fragments and FFMA.
BY_MACHINE_CODE = {1: HOLDS, 2: HOLDS, 3: PARTLY, 4: HOLDS, 5: PARTLY, 6: PARTLY, 7: HOLDS, 8: HOLDS, 9: HOLDS}


@pytest.mark.machine_code
@pytest.mark.parametrize("number", BY_MACHINE_CODE)
def test_what_machine_code_decides(number):
    found = verdict(number)
    print(found.why)
    assert found.outcome == BY_MACHINE_CODE[number], found.why


def test_every_claim_about_machine_code_is_tested():
    assert {claim.number for claim in CLAIMS if claim.decided_by == "machine code"} == {*BY_MACHINE_CODE}


def test_claims_are_numbered_in_order():
    assert [claim.number for claim in CLAIMS] == list(range(1, len(CLAIMS) + 1))


def test_tests_that_decide_claims_exist():
    named = [verdict(claim.number).why for claim in CLAIMS if claim.decided_by == "tests"]
    places = [place for why in named for place in re.findall(r"`(\S+?)::(\w+)`", why)]
    assert len(places) >= len(named) > 0
    for file, function in places:
        assert re.search(rf"^def {function}\(", (ROOT / "tests" / file).read_text(encoding="utf-8"), re.MULTILINE)


def test_without_results_nothing_is_claimed_to_be_measured():
    for claim in CLAIMS:
        if "benchmark" in claim.decided_by or claim.decided_by == "counters":
            found = verdict(claim.number)
            assert found.outcome == UNKNOWN, claim
            assert found.why.startswith("needs "), claim


def test_benchmarks_that_are_missing_are_versions():
    named = {name for claim in CLAIMS for name in re.findall(r"benchmark of (.+)", verdict_if_measured(claim))}
    versions = {name for names in named for name in re.findall(r"`(\w+)`", names)}
    assert {"naive_rows", "thread_tile", "ex3", "ex9", "cp_async"} <= versions <= {v.name for v in VERSIONS}


def verdict_if_measured(claim):
    return verdict(claim.number).why if "benchmark" in claim.decided_by else ""


@pytest.mark.parametrize(("rows", "outcome"), [(6.4e-2, HOLDS), (1.9e-2, FAILS), (9e-2, HOLDS), (14e-2, FAILS)])
def test_a_ratio_has_two_ends(rows, outcome):
    found = verdict(12, timed("naive_16", 1e-2), timed("naive_rows", rows), timed("naive_rows", 1.0, 1024))
    assert found.outcome == outcome
    assert f"{rows / 1e-2:.2f} times as fast, wanted 3.2 to 12.8" in found.why


def test_parts_of_a_claim_are_joined():
    times = {"naive_16": 4e-2, "thread_tile_4": 2e-2, "thread_tile": 3e-2}
    found = verdict(13, *(timed(*each) for each in times.items()))
    assert found.outcome == PARTLY
    assert "`thread_tile_4` 20 ms, `naive_16` 40 ms: 2.00 times as fast" in found.why
    assert verdict(13, timed("naive_16", 4e-2), timed("thread_tile_4", 2e-2)) == Verdict(
        UNKNOWN, "needs the benchmark of `thread_tile`"
    )


@pytest.mark.parametrize(("last", "outcome"), [(2e-3, HOLDS), (6e-3, PARTLY)])
def test_the_order_of_the_ladder(last, outcome):
    names = ["naive", "shared", "register", "vectorized", "cp_async"]
    times = [4e-2, 2e-2, 5e-3, 4e-3, last]
    found = verdict(19, *(timed(*each) for each in zip(names, times, strict=True)))
    assert found.outcome == outcome
    assert "cuBLAS" in found.why


@pytest.mark.parametrize(("seconds", "outcome"), [(1.6e-2, HOLDS), (0.5e-2, FAILS)])
def test_a_bound_is_not_passed(seconds, outcome):
    assert verdict(21, timed("shared", seconds)).outcome == outcome


def test_models_need_no_results():
    assert verdict(10).outcome == HOLDS
    assert verdict(11).outcome == PARTLY
    assert "As, unpadded → padded: 64 → 32" in verdict(11).why


def test_candidates_against_their_baselines():
    def against(times):
        extra = {"candidate": "whole-tile kernel", "vs_baseline": times, "m": 8, "n": 7, "k": 6}
        return {"group": "edges", "extra_info": extra, "stats": {"median": 1.0}}

    assert verdict(26, against(1.04)) == Verdict(HOLDS, "1.04 times as fast at 8×7×6")
    assert verdict(26, against(0.9)).outcome == FAILS
    assert verdict(34, against(1.04)).outcome == UNKNOWN


def test_check_says_whether_the_page_is_stale(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(claims, "CLAIMS", CLAIMS[11:13])  # which need no compiler
    for path in (claims.RESULTS, claims.PAGE):
        path.parent.mkdir(parents=True, exist_ok=True)
    claims.RESULTS.write_text(json.dumps(stored()), encoding="utf-8")
    assert claims.main(["--check"]) == 1
    assert claims.main([]) == 0
    assert claims.main(["--check"]) == 0
    claims.RESULTS.write_text(json.dumps(stored(timed("naive_16", 1e-2), timed("naive_rows", 6e-2))), encoding="utf-8")
    assert claims.main(["--check"]) == 1
    assert "run python -m numba_gemm.analysis.claims" in capsys.readouterr().err
