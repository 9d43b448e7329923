"""How far the choices of "auto" by its model are from the fastest candidates that were measured."""

import json
from pathlib import Path

import pytest

from benchmarks import choices
from numba_gemm.auto.candidates import candidates
from numba_gemm.auto.choose import choose_by_model
from numba_gemm.auto.entry import KEY as FIELDS
from numba_gemm.bench.summary import summarise
from numba_gemm.hardware.devices import find
from numba_gemm.problem import Problem

STORED = json.loads((Path(__file__).parents[2] / choices.RESULTS).read_text(encoding="utf-8"))
KEY = Problem.of_key(512, 512, 512, 1, a_along_k=True, b_along_k=False, vector=True)


@pytest.mark.parametrize(("name", "mean", "worst"), [("fitted", 1.02, 1.25), ("held-out", 1.04, 1.3)])
def test_choices_take_little_longer_than_the_fastest_candidate(name, mean, worst):
    """A change of the model that is for the worse on these products is noticed; one for the better may lower this."""
    found = summarise({judged.key: judged.vs_fastest for judged in choices.judge(STORED[name])})
    assert found.shapes == len(STORED[name]["products"])
    assert 1 / found.geometric_mean <= mean
    assert 1 / found.worst <= worst


@pytest.mark.parametrize("name", STORED)
def test_every_candidate_of_today_was_timed(name):
    for product in STORED[name]["products"]:
        key = Problem.of_key(**{name: product[name] for name in FIELDS})
        timed = set(product["candidates"])
        assert {str(choice) for choice in candidates(key, (9, 0))} == timed, "run python benchmarks/candidates.py"


def test_no_product_is_in_both_sets():
    fitted, others = ({judged.key for judged in choices.judge(STORED[name])} for name in ("fitted", "held-out"))
    assert not fitted & others


def measured(pytorch, **times):
    """One product of which the model's choice takes 3 s, and every other candidate 9 s but for `times`."""
    seconds = {str(choice): 9.0 for choice in candidates(KEY, (9, 0))} | times
    seconds[str(choose_by_model(find("H200"), KEY))] = 3.0
    product = {**{name: getattr(KEY, name) for name in FIELDS}, "torch": pytorch, "candidates": seconds}
    return {"machine_info": {"gpu": "NVIDIA H200"}, "products": [product]}


def test_a_choice_is_judged_by_the_fastest_and_by_pytorch():
    (judged,) = choices.judge(measured(6.0, another=2.0))
    assert judged.choice == choose_by_model(find("H200"), KEY)
    assert (judged.key, judged.seconds, judged.fastest) == (KEY, 3.0, 2.0)
    assert (judged.vs_fastest, judged.vs_pytorch) == (2 / 3, 2.0)


def test_a_summary_has_geometric_means_and_the_worst():
    judged = {seconds: choices.judge(measured(seconds, another=2.0))[0] for seconds in (6.0, 1.5)}
    pytorch = summarise({seconds: one.vs_pytorch for seconds, one in judged.items()})
    assert (pytorch.shapes, pytorch.geometric_mean, pytorch.worst_at) == (2, pytest.approx(1.0), 1.5)
    fastest = summarise({seconds: one.vs_fastest for seconds, one in judged.items()})
    assert 1 / fastest.geometric_mean == pytest.approx(1.5)


def test_a_choice_that_was_not_timed_is_an_error():
    stored = measured(6.0)
    del stored["products"][0]["candidates"][str(choose_by_model(find("H200"), KEY))]
    with pytest.raises(KeyError):
        choices.judge(stored)
