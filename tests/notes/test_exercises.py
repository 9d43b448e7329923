"""The exercises: each is wrong as it stands, its solution is one line and right, and what is said is what is wrong."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from checker import exercises, symptoms
from checker.exercises import EXERCISES
from checker.races import races
from numba import cuda, float32, uint32, void
from numba import types as numba_types
from support.checks import small_integers

from numba_gemm.analysis.code.machine_code import compile_kernel
from numba_gemm.analysis.code.tracing import trace
from numba_gemm.kernels import v2_shared, v3_register, v4_vectorized
from numba_gemm.kernels.interface import Variant
from numba_gemm.problem import Problem

FOLDER = Path(__file__).parents[2] / "notes" / "exercises"
NAMES = [exercise.file_name for exercise in EXERCISES]


def change(exercise):
    """The solution as lines taken out and lines put in, with their surroundings."""
    lines = (FOLDER / "solutions" / exercise.file_name).with_suffix(".diff").read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("@@"))
    hunk = lines[start + 1 :]
    assert not any(line.startswith("@@") for line in hunk)
    return [line for line in hunk if line[:1] != "+"], [line for line in hunk if line[:1] != "-"]


def solve(exercise, folder):
    before, after = ("".join(f"{line[1:]}\n" for line in lines) for lines in change(exercise))
    source = (FOLDER / exercise.file_name).read_text()
    assert source.count(before) == 1
    (folder / exercise.file_name).write_text(source.replace(before, after))


# The files -------------------------------------------------------------------------------------------


def test_the_table_is_the_folder():
    assert sorted(NAMES) == sorted(path.name for path in FOLDER.glob("ex*.py"))
    assert sorted(NAMES) == sorted(path.with_suffix(".py").name for path in FOLDER.glob("solutions/*"))
    assert [exercise.number for exercise in EXERCISES] == list(range(1, len(EXERCISES) + 1))


@pytest.mark.parametrize("exercise", EXERCISES, ids=NAMES)
def test_a_file_is_short_and_its_solution_one_line(exercise):
    assert len((FOLDER / exercise.file_name).read_text().splitlines()) <= 80
    before, after = change(exercise)
    assert sum(line.startswith("-") for line in before) <= 1
    assert sum(line.startswith("+") for line in after) == 1


@pytest.mark.parametrize("exercise", EXERCISES, ids=NAMES)
def test_no_file_names_its_bug(exercise):
    """The task says what the kernel should do and what is seen, not which line it is."""
    text = (FOLDER / exercise.file_name).read_text().casefold()
    assert not re.search(r"\b(bug|fixme|todo|overflow|race|stale|tail)\b", text)


# What the checker finds ------------------------------------------------------------------------------

FOUND = {
    "ex1_shared_tiles.py": r"thread \d+ \(line \d+\) may overwrite element \d+ of As before thread \d+ \(line \d+\)",
    "ex2_two_buffers.py": "8×8×16: .* the terms k = 12 … 15 are left out and the terms k = 8 … 11 are added twice",
    "ex3_large_batch.py": r"C\[4294967296 … 4294967303\] are never written; .* the index has lost its high bits",
    "ex4_grid.py": r"2×32×4: C\[0 … 1, 8 … 31\] \(48 of 64 outputs\) are never written. The grid has 1 × 4 blocks",
    "ex5_any_k.py": "6×5×9: In every output, the term k = 8 is left out",
    "ex6_ring.py": "are NaN: computed from shared memory before anything has arrived",
}


@pytest.mark.simulator
@pytest.mark.parametrize("exercise", EXERCISES, ids=NAMES)
def test_an_exercise_is_wrong_and_the_checker_says_how(exercise):
    report = exercises.check(exercise, FOLDER)
    assert not report.right
    assert re.search(FOUND[exercise.file_name], str(report)), str(report)
    # As the task says, there are shapes that do not show it.
    assert report.right_cases
    assert not set(report.right_cases) & {symptom.case for symptom in report.symptoms}


@pytest.mark.simulator
@pytest.mark.parametrize("exercise", EXERCISES, ids=NAMES)
def test_a_solution_is_right(exercise, tmp_path):
    solve(exercise, tmp_path)
    report = exercises.check(exercise, tmp_path)
    assert report.right, str(report)
    assert report.right_cases == exercise.cases


@pytest.mark.simulator
@pytest.mark.parametrize(
    ("number", "line", "instead", "found"),
    [
        (1, "            cuda.syncthreads()\n", "", r"may read element 0 of As before thread 0 \(line 36\)"),
        (1, "k0 + n]", "k0 + m]", r"outputs\) are wrong"),
        (1, "BM, BN, BK =", "BM BN BK =", "It stops with SyntaxError"),
        (1, "A_TILE = (tile.bm, tile.bk)", "A_TILE = (tile.bm, 1)", "It stops in line 36 with IndexError"),
        (3, "uint32(uint64(cuda.blockIdx.z) * stride)", "stride", r"C\[0 … 7, .*\] are never written\."),
        (3, "k * N + col", "k * K + col", r"B\[.*\] are never read"),
        (3, "if row < M and col < N", "if row < M", r"C\[15 … 17, .*\] are written, where no matrix lies"),
        (3, "total = float32(0)", "total = float32(1)", r"C\[0 … 7, 100 … 107, 200 … 207\] are wrong"),
        (5, "    if row < M and col < N", "    if row < M", r"It stops in line \d+ with IndexError: .* out of bounds"),
    ],
)
def test_other_mistakes_are_told_from_the_planted_one(number, line, instead, found, tmp_path):
    """On the solved kernel, except where what the solution changes is changed again."""
    exercise = EXERCISES[number - 1]
    solve(exercise, tmp_path)
    path = tmp_path / exercise.file_name
    source = path.read_text() if line in path.read_text() else (FOLDER / exercise.file_name).read_text()
    assert line in source
    path.write_text(source.replace(line, instead, 1))
    report = exercises.check(exercise, tmp_path)
    assert re.search(found, str(report)), str(report)


@pytest.mark.machine_code
@pytest.mark.parametrize("exercise", EXERCISES, ids=NAMES)
def test_a_solution_compiles_for_a_gpu(exercise, tmp_path):
    solve(exercise, tmp_path)
    module = exercises.load(tmp_path / exercise.file_name)
    kernel = module.make_kernel(module.TILE)
    matrix, flat = float32[:, ::1], float32[::1]
    batch = len(kernel.py_func.__code__.co_varnames[: kernel.py_func.__code__.co_argcount]) > 3
    sizes = [uint32, uint32, uint32, numba_types.uint64]
    found = compile_kernel(kernel, void(flat, flat, flat, *sizes) if batch else void(matrix, matrix, matrix), "sm_90")
    assert found.registers > 0
    assert found.local_bytes == 0


def test_outside_of_the_simulator_the_checker_says_so(monkeypatch):
    monkeypatch.setattr(exercises, "SIMULATOR", False)
    with pytest.raises(RuntimeError, match="set NUMBA_ENABLE_CUDASIM=1"):
        exercises.check(EXERCISES[0], FOLDER)


# The command -----------------------------------------------------------------------------------------


@pytest.mark.simulator
def test_the_command_checks_what_it_is_asked_for(tmp_path):
    for exercise in EXERCISES:
        shutil.copy(FOLDER / exercise.file_name, tmp_path)
    solve(EXERCISES[3], tmp_path)
    environment = {**os.environ, "COLUMNS": "80"}
    del environment["NUMBA_ENABLE_CUDASIM"]  # it sets that itself
    command = [sys.executable, str(FOLDER / "check.py"), "4", "5", "--hint", "--folder", str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("4 · the grid · ex4_grid.py: right\n\n5 · any K · ex5_any_k.py: not yet right\n")
    assert "M×N×K = 6×5×9:" in done.stdout
    assert "no symptom at 8×8×8" in done.stdout
    assert "Hint: How many tiles" in done.stdout
    assert "1 ·" not in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


@pytest.mark.simulator
def test_status_0_when_all_is_right(tmp_path, capsys):
    solve(EXERCISES[3], tmp_path)
    assert check_py().main(["4", "--folder", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "4 · the grid · ex4_grid.py: right\n\n"


@pytest.mark.simulator
@pytest.mark.parametrize("arguments", [["7"], ["one"], ["1", "--folder", "nowhere"]])
def test_wrong_usage_of_the_command_is_status_2(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        check_py().main(arguments)
    assert stopped.value.code == 2
    assert "check.py: error:" in capsys.readouterr().err


def check_py():
    """The command as a module; it switches the simulator on, which is on in these tests."""
    return exercises.load(FOLDER / "check.py")


# Races -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rung", [v2_shared, v3_register, v4_vectorized], ids=lambda rung: rung.__name__[-12:])
def test_the_ladder_has_no_race(rung, rng):
    tile = rung.SMALL_TILE
    m, n, k = tile.bm, tile.bn, 3 * tile.bk
    a, b, c = small_integers(rng, m, k), small_integers(rng, k, n), np.zeros((m, n), np.float32)
    config = rung.steps(tile, Variant(), Problem.contiguous(m, n, k), 1).main.config
    assert races(trace(rung.make_kernel(tile), [a, b, c], block=config.block, grid=config.grid)) == ()
    np.testing.assert_array_equal(c, a @ b)


@cuda.jit
def neighbours(values, output):
    shared = cuda.shared.array(8, float32)
    thread = uint32(cuda.threadIdx.x)
    shared[thread] = values[thread]
    output[thread] = shared[(thread + uint32(1)) % uint32(8)]


@cuda.jit
def same_output(values, output):
    output[uint32(cuda.threadIdx.x) // uint32(2)] = values[uint32(cuda.threadIdx.x)]


def test_a_read_that_may_come_too_early():
    (race,) = races(trace(neighbours, [np.zeros(8, np.float32)] * 2, block=(8,)))
    assert (race.array, race.barriers) == ("shared", 0)
    assert (race.first.writes, race.second.writes) == (True, False)
    assert race.first.thread == race.element == (race.second.thread + 1) % 8
    assert race.first.site != race.second.site


def test_two_writes_to_one_element():
    found = races(trace(same_output, [np.zeros(8, np.float32), np.zeros(4, np.float32)], block=(8,)))
    assert [(race.array, race.element, race.first.thread, race.second.thread) for race in found] == [
        ("output", 0, 0, 1)
    ]


# Symptoms --------------------------------------------------------------------------------------------


@pytest.fixture
def operands(rng):
    return small_integers(rng, 6, 5) + np.float32(0.5), small_integers(rng, 5, 7) + np.float32(0.5)


def test_a_right_product_has_no_symptom(operands):
    a, b = operands
    assert symptoms.of_product(a, b, a @ b) is None


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ([1, 1, 0, 1, 1], "In every output, the term k = 2 is left out."),
        ([0, 0, 1, 3, 3], "the terms k = 0 … 1 are left out and the terms k = 3 … 4 are added 3 times."),
        ([1, 1, 1, 1, -1], "the term k = 4 is added -1 times."),
    ],
)
def test_weights_of_terms(operands, weights, said):
    a, b = operands
    assert said in symptoms.of_product(a, b, (a * np.float32(weights)) @ b)


def test_what_no_weights_explain(operands):
    a, b = operands
    c = a @ b
    c[2, 3:5] += 1
    assert symptoms.of_product(a, b, c) == "C[2, 3 … 4] (2 of 42 outputs) are wrong."


def test_more_terms_than_outputs_have_no_weights(rng):
    a, b = small_integers(rng, 2, 9) + np.float32(0.5), small_integers(rng, 9, 2) + np.float32(0.5)
    assert symptoms.of_product(a, b, 2 * (a @ b)) == "C[0 … 1, 0 … 1] (4 of 4 outputs) are wrong."


def test_unwritten_and_unknown_outputs(operands):
    a, b = operands
    c = symptoms.unwritten(6, 7)
    c[1:] = (a @ b)[1:]
    assert symptoms.of_unwritten(c) == "C[0, 0 … 6] (7 of 42 outputs) are never written."
    c[0] = np.float32(np.nan)
    assert symptoms.of_unwritten(c) is None
    assert "C[0, 0 … 6] (7 of 42 outputs) are NaN" in symptoms.of_product(a, b, c)


@pytest.mark.parametrize(
    ("numbers", "text"), [([], ""), ([4], "4"), ([0, 1, 2], "0 … 2"), ([0, 2, 3, 9], "0, 2 … 3, 9"), ([5, 6], "5 … 6")]
)
def test_ranges(numbers, text):
    assert symptoms.ranges(numbers) == text


def test_signed_indices_that_wrap_are_recognised():
    said = symptoms.of_indices("A", "read", [2**31, 5], [-(2**31), 5])
    assert said == (
        "A[2147483648] is never read; instead, elements a multiple of 2³² = 4294967296 away: "
        "the index has lost its high bits."
    )
    assert symptoms.of_indices("A", "read", [4, 5], [5]) == "A[4] is never read."
    assert symptoms.of_indices("A", "read", [4, 5], [4, 5]) is None


def test_a_sparse_array_takes_integers_only():
    array = symptoms.Sparse({2**33: 1.5})
    assert array[np.uint64(2**33)] == 1.5
    assert np.isnan(array[0])
    with pytest.raises(TypeError):
        array[1.0]
