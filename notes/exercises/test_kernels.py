"""The exercises as tests, red until solved: `NUMBA_ENABLE_CUDASIM=1 pytest notes/exercises`."""

from __future__ import annotations

from pathlib import Path

import pytest
from checker.exercises import EXERCISES, check


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.title.replace(" ", "_"))
def test_exercise(exercise):
    report = check(exercise, Path(__file__).parent)
    if not report.right:
        pytest.fail(str(report), pytrace=False)
