"""Verification before timing: what is right passes, whatever is wrong does not, wherever in C it is."""

import numpy as np
import pytest

from numba_gemm import VERSIONS
from numba_gemm.auto.entry import Choice
from numba_gemm.bench.trial import SAMPLES, Judge, Trial
from numba_gemm.problem import Problem

M, N, K = 3 * SAMPLES, 2 * SAMPLES + 1, 70
#: Everywhere: corners, and places that the samples need not meet.
PLACES = [(0, 0), (M - 1, N - 1), (0, N - 1), (M // 2, N // 3), (M // 5, N // 2)]


@pytest.fixture
def operands(rng):
    return rng.standard_normal((1, M, K), np.float32), rng.standard_normal((1, K, N), np.float32)


@pytest.fixture
def judge(operands, rng):
    return Judge(*operands, rng)


def test_right_results_pass_in_any_order_of_summation(judge, operands):
    a, b = operands
    assert judge.error(a @ b) <= 1
    halves = a[..., : K // 2] @ b[:, : K // 2] + a[..., K // 2 :] @ b[:, K // 2 :]
    assert judge.error(halves) <= 1


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("wrong", [np.nan, np.inf, 0, "one k is missing"], ids=str)
def test_one_wrong_element_is_found_once_a_right_result_is_known(judge, operands, place, wrong):
    a, b = operands
    c = a @ b
    assert judge.error(c) <= 1
    bad, (i, j) = c.copy(), place
    k = np.argmax(np.abs(a[0, i] * b[0, :, j]))
    bad[0, i, j] = c[0, i, j] - a[0, i, k] * b[0, k, j] if isinstance(wrong, str) else wrong
    assert not judge.error(bad) <= 1
    assert judge.error(c) <= 1, "a wrong result became the measure"


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_nobody_wrote_an_element_of_the_first_result(judge, operands, place):
    c = operands[0] @ operands[1]
    c[0][place] = np.nan
    assert np.isnan(judge.error(c))


@pytest.mark.parametrize("axis", [1, 2], ids=["rows", "columns"])
def test_a_wrong_band_of_the_first_result_is_found(judge, operands, axis):
    """As wide as one of the parts of which each has a sample."""
    c = operands[0] @ operands[1]
    width = -(-c.shape[axis] // SAMPLES)
    band = [slice(None)] * 3
    band[axis] = slice(5 * width, 7 * width)
    c[tuple(band)] = 0
    assert judge.error(c) > 1


def test_a_first_result_without_the_last_k_is_found(judge, operands):
    a, b = operands
    assert judge.error(a[..., :-1] @ b[:, :-1]) > 1


def test_every_matrix_of_a_batch_counts(rng):
    a, b = rng.standard_normal((9, 5, 8), np.float32), rng.standard_normal((9, 8, 7), np.float32)
    judge = Judge(a, b, rng)
    assert judge.error(a @ b) <= 1
    for matrix in range(9):
        bad = a @ b
        bad[matrix, 2, 3] += 1
        assert judge.error(bad) > 1


# On a device --------------------------------------------------------------------------------------------

SMALL = [Choice(version, version.small_tile) for version in VERSIONS if version.traits.takes_variants]


@pytest.mark.device
@pytest.mark.parametrize("choice", SMALL, ids=lambda choice: choice.version.name)
@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("transposes", [(False, False), (True, False), (False, True)], ids=str)
def test_a_candidate_is_run_and_judged(choice, aligned, transposes):
    trans_a, trans_b = transposes
    trial = Trial(20, 24, 12, trans_a=trans_a, trans_b=trans_b, aligned=aligned)
    assert trial.key == Problem.of_key(20, 24, 12, 1, not trans_a, trans_b, aligned)
    assert trial.error(trial.launch(choice)) <= 1
    assert np.isnan(trial.error(lambda: None)), "C was not poisoned again"


@pytest.mark.device
def test_a_batch_on_the_device():
    trial = Trial(9, 12, 5, batch=3)
    assert trial.key == Problem.of_key(9, 12, 5, 3, True, False, True)
    assert trial.error(trial.launch(SMALL[0])) <= 1


@pytest.mark.device
def test_a_ragged_shape_is_tuned_for_4_byte_accesses():
    assert not Trial(8, 9, 8).key.vector
    assert Trial(9, 8, 9).key.vector, "only lines of B and C are accessed by 16 bytes"
