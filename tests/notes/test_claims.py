"""notes/claims.md: complete, not stale, and its verdicts follow from the figures."""

import json
import re
from pathlib import Path

import pytest

from notes.make import claims
from notes.make.claims import CLAIMS
from notes.make.evidence import Evidence, stored_benchmarks, stored_counters
from notes.make.verdict import FAILS, HOLDS, PARTLY, UNKNOWN, Verdict
from numba_gemm.ladder import VERSIONS
from numba_gemm.plots.results import BENCHMARKS

ROOT = Path(__file__).resolve().parents[2]


def stored(*benchmarks):
    return {"machine_info": {"gpu": "NVIDIA H200"}, "datetime": "2031-02-03T04:05", "benchmarks": list(benchmarks)}


def timed(version, seconds, size=4096):
    extra = {"version": version, "m": size, "n": size, "k": size, "baseline_seconds": 1e-3}
    return {"group": "ladder", "extra_info": extra, "stats": {"median": seconds}}


def row(group, seconds, **extra):
    return {"group": group, "extra_info": extra, "stats": {"median": seconds}}


def split_k(**seconds):
    return [row("split-k", each, version=name, m=8, n=7, k=6) for name, each in seconds.items()]


EIGHT_ROWS = split_k(warp_tiled=4e-4, split_k=1e-4, split_k_atomic=2e-4)


def verdict(number, *benchmarks):
    """Of a claim that needs no machine code."""
    return CLAIMS[number - 1].judge(Evidence(stored(*benchmarks)))


@pytest.mark.machine_code
def test_the_page_shows_what_is_stored_and_compiled():
    page = (ROOT / claims.PAGE).read_text(encoding="utf-8")
    assert claims.page(stored_benchmarks(ROOT), stored_counters(ROOT)) == page, "run python -m notes.make.claims"


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
    named = [verdict(claim.number, *EIGHT_ROWS).why for claim in CLAIMS if "tests" in claim.decided_by]
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


def occupancies(outputs, times):
    return [row("occupancy", seconds, outputs=outputs, occupancy=share) for share, seconds in times.items()]


NO_FASTER_WITH_MORE = [*occupancies(64, {0.125: 1.2, 0.25: 1.0}), *occupancies(16, {0.25: 1.04, 0.5: 1.0})]
FASTER_WITH_MORE = [*occupancies(64, {0.125: 1.2, 0.25: 1.0}), *occupancies(16, {0.25: 1.06, 0.5: 1.0})]


@pytest.mark.parametrize(
    ("benchmarks", "outcome"),
    [
        ([*NO_FASTER_WITH_MORE, *occupancies(1, {0.25: 2.0, 0.75: 1.0})], HOLDS),
        ([*FASTER_WITH_MORE, *occupancies(1, {0.25: 2.0, 0.75: 1.0})], PARTLY),
        ([*NO_FASTER_WITH_MORE, *occupancies(1, {0.25: 1.0, 0.75: 1.0})], PARTLY),
        ([*NO_FASTER_WITH_MORE, *occupancies(1, {0.75: 1.0})], UNKNOWN),
    ],
    ids=["enough", "not enough for 4×4", "enough for one sum, too", "no quarter"],
)
def test_a_quarter_of_the_warps(benchmarks, outcome):
    found = verdict(22, *benchmarks)
    assert found.outcome == outcome
    if outcome == HOLDS:
        assert "64 sums a thread: 12.5% 0.83, 25.0% 1.00; 16 sums a thread: 25.0% 1.00, 50.0% 1.04;" in found.why
        assert found.why.endswith("with 64 sums more warps do not fit the registers")


@pytest.mark.parametrize(
    ("lost", "outcome"),
    [((0.055, 0.03), HOLDS), ((0.055, 0.01), PARTLY), ((0.02, 0.11), FAILS)],
    ids=["both", "one", "neither"],
)
def test_the_last_wave(lost, outcome):
    """A sweep from 4 to 5 waves, the last but one of which loses so much; 4.4 waves are no matter."""
    benchmarks = []
    for version, share in zip(("boundary", "warp_tiled"), lost, strict=True):
        for waves, slower in ((4.4, 0.3), (4.73, share), (4.0, 0.0), (5.0, 0.001)):
            seconds = waves / (1 - slower)
            extra = {"version": version, "m": waves, "n": 1, "k": 1, "waves": waves, "wave_efficiency": waves / 5}
            benchmarks.append(row("waves", seconds, **extra))
    found = verdict(24, *benchmarks)
    assert found.outcome == outcome
    assert f"`warp_tiled` 4.40 30.0% (12.0%), 4.73 {lost[1]:.1%} (5.4%), 5.00 0.1% (0.0%)" in found.why


def test_split_k_at_eight_rows():
    found = verdict(27, *EIGHT_ROWS)
    assert found.outcome == HOLDS
    assert "`warp_tiled` 400 µs, `split_k` 100 µs, `split_k_atomic` 200 µs at 8×7×6; asserted by" in found.why
    assert verdict(27, *split_k(warp_tiled=4e-4, split_k=1e-4, split_k_atomic=5e-4)).outcome == PARTLY
    assert verdict(27, *EIGHT_ROWS[:2]).outcome == UNKNOWN


def growing(times, of_copy=0.9, group="batch growth", weights="by k"):
    return [row(group, seconds, m=m, weights=weights, of_copy=of_copy, ridge_rows=31.2) for m, seconds in times.items()]


@pytest.mark.parametrize(
    ("benchmarks", "outcome"),
    [
        (growing({1: 1.0, 16: 1.09, 24: 1.1, 32: 5.0}), HOLDS),
        (growing({1: 1.0, 16: 1.09, 24: 1.9}), PARTLY),
        (growing({1: 1.0, 16: 1.0}, of_copy=0.7), PARTLY),
        (growing({1: 1.0, 16: 1.2}, of_copy=0.7), FAILS),
        ([*growing({1: 1.0, 24: 1.9}), *growing({1: 1.5, 24: 1.05}, group="batch growth, auto")], HOLDS),
        ([*growing({1: 1.0, 24: 1.0}), *growing({1: 1.0, 24: 1.5}, weights="by outputs")], PARTLY),
        (growing({16: 1.0}), UNKNOWN),
        (growing({1: 1.0, 32: 1.0}), UNKNOWN),
    ],
    ids=["flat", "steep", "slow", "slow and steep", "the faster of two", "one layout", "not one row", "only one row"],
)
def test_few_rows_up_to_the_ridge(benchmarks, outcome):
    assert verdict(29, *benchmarks).outcome == outcome


def cold(size, *, own, cublas):
    """How much longer both take with a cleared L2."""
    times = {"cold_seconds": {"cp_async": 1 + own, "cuBLAS": 1 + cublas}, "warm_seconds": {"cp_async": 1, "cuBLAS": 1}}
    return row("L2", 1.0, m=size, **times)


@pytest.mark.parametrize(
    ("small", "large", "outcome"),
    [
        (cold(1024, own=0.06, cublas=0.1), cold(4096, own=0.0, cublas=-0.01), HOLDS),
        (cold(1024, own=0.06, cublas=0.01), cold(4096, own=0.0, cublas=0.01), PARTLY),
        (cold(1024, own=0.01, cublas=0.0), cold(4096, own=0.06, cublas=0.07), FAILS),
    ],
    ids=["as claimed", "not for all", "the other way round"],
)
def test_clearing_the_l2(small, large, outcome):
    found = verdict(31, small, large)
    assert found.outcome == outcome
    assert found.why.startswith("longer with a cleared L2: cp_async at 1024³ ")
    assert verdict(31, small).outcome == UNKNOWN


def test_check_says_whether_the_page_is_stale(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(claims, "CLAIMS", CLAIMS[11:13])  # which need no compiler
    for path in (BENCHMARKS, claims.PAGE):
        path.parent.mkdir(parents=True, exist_ok=True)
    BENCHMARKS.write_text(json.dumps(stored()), encoding="utf-8")
    assert claims.main(["--check"]) == 1
    assert claims.main([]) == 0
    assert claims.main(["--check"]) == 0
    BENCHMARKS.write_text(json.dumps(stored(timed("naive_16", 1e-2), timed("naive_rows", 6e-2))), encoding="utf-8")
    assert claims.main(["--check"]) == 1
    assert "run python -m notes.make.claims" in capsys.readouterr().err
