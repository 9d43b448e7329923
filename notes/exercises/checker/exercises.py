"""The exercises: kernels with one line missing or wrong, and what shows that it is.

An exercise is a file with a kernel in the style of the ladder: `TILE`, `make_kernel(tile)`, `launch_config(…)`. It is
judged by what it does, never by its text: its block is traced for races, then it runs in Numba's simulator on shapes
of which each has its reason, and a wrong product is explained by `symptoms`.
"""

from __future__ import annotations

import importlib.util
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from checker import symptoms
from checker.races import Race, Side, races
from numba_gemm.analysis.code.tracing import trace
from numba_gemm.compiler.target import SIMULATOR


@dataclass(frozen=True)
class Case:
    """A shape C[m,n] = A[m,k]·B[k,n], and the elements from one matrix of a batch to the next."""

    m: int
    n: int
    k: int
    stride: int = 0

    def __str__(self) -> str:
        shape = f"{self.m}×{self.n}×{self.k}"
        return f"{shape} with stride {self.stride}" if self.stride else shape


@dataclass(frozen=True)
class Exercise:
    """One file, the shapes that have to be right, and how one of them is tried."""

    number: int
    file_name: str
    title: str
    cases: tuple[Case, ...]
    #: The symptoms of a kernel on one shape.
    try_case: Callable[[ModuleType, Case], Iterator[str]]
    hint: str


@dataclass(frozen=True)
class Symptom:
    """What one shape shows; no shape where the file cannot even be loaded."""

    case: Case | None
    text: str


@dataclass(frozen=True)
class Report:
    """What the checker found."""

    exercise: Exercise
    symptoms: tuple[Symptom, ...]

    @property
    def right(self) -> bool:
        return not self.symptoms

    @property
    def right_cases(self) -> tuple[Case, ...]:
        """Shapes without a symptom; none if the file cannot be loaded."""
        bad = {symptom.case for symptom in self.symptoms}
        return () if None in bad else tuple(case for case in self.exercise.cases if case not in bad)

    def __str__(self) -> str:
        if self.right:
            return f"{self.exercise.file_name}: right"
        lines = (f"{symptom.case}: {symptom.text}" if symptom.case else symptom.text for symptom in self.symptoms)
        return "\n".join([f"{self.exercise.file_name}: not yet right", *lines])


def check(exercise: Exercise, folder: Path) -> Report:
    """Try the file of `folder` on all shapes. What the kernel raises is a symptom, too.

    Raises:
        RuntimeError: outside of the simulator.
        OSError: if the file is not there.

    """
    if not SIMULATOR:
        raise RuntimeError("exercises run in Numba's simulator: set NUMBA_ENABLE_CUDASIM=1")
    path = folder / exercise.file_name
    try:
        module = load(path)
    except OSError:
        raise
    except Exception as error:  # whatever a learner's file does when it is loaded
        return Report(exercise, (Symptom(None, _stopped(error, path)),))
    found = [Symptom(case, text) for case in exercise.cases for text in _tried(exercise, module, case, path)]
    return Report(exercise, tuple(found))


def _tried(exercise: Exercise, module: ModuleType, case: Case, path: Path) -> list[str]:
    try:
        return list(exercise.try_case(module, case))
    except Exception as error:  # whatever a learner's kernel does
        return [_stopped(error, path)]


def load(path: Path) -> ModuleType:
    """The file as a module, whatever its folder."""
    specification = importlib.util.spec_from_file_location(path.stem, path)
    if specification is None or specification.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def _stopped(error: Exception, path: Path) -> str:
    """The error, with the last line of the exercise on the way to it."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    where = f" in line {lines[-1]}" if lines else ""
    return f"It stops{where} with {type(error).__name__}: {error}"


# Trying ----------------------------------------------------------------------------------------------


def _operands(case: Case, matrices: int = 1) -> tuple[Any, Any]:
    """Integers from −4 to 4 without 0: products are exact, and no term of a sum vanishes."""
    rng = np.random.default_rng(case.m + case.n + case.k)
    values = np.array([-4, -3, -2, -1, 1, 2, 3, 4], np.float32)
    return rng.choice(values, (matrices, case.m, case.k)), rng.choice(values, (matrices, case.k, case.n))


def _try_product(module: ModuleType, case: Case) -> Iterator[str]:
    (a,), (b,) = _operands(case)
    kernel = module.make_kernel(module.TILE)
    config = module.launch_config(module.TILE, case.m, case.n)
    traced = trace(
        kernel,
        [a, b, symptoms.unwritten(case.m, case.n)],
        block=config.block,
        grid=config.grid,
        shared_bytes=config.shared_bytes,
    )
    if found := races(traced):
        # A result would be right or wrong by chance.
        yield from (_of_race(race) for race in found)
        return
    c = symptoms.unwritten(case.m, case.n)
    kernel[config.grid, config.block, 0, config.shared_bytes](a, b, c)
    if missing := symptoms.of_unwritten(c):
        yield f"{missing} {_launched(config.grid, config.block)}"
    elif wrong := symptoms.of_product(a, b, c):
        yield wrong


def _launched(grid: tuple[int, ...], block: tuple[int, ...]) -> str:
    blocks, threads = (f"{size[0]} × {size[1]}" for size in (grid, block))
    return f"The grid has {blocks} blocks of {threads} threads (x × y)."


def _of_race(race: Race) -> str:
    first, second = race.first, race.second
    element = f"element {race.element} of {race.array}"
    if not second.writes:
        text = f"{_who(second)} may read {element} before {_who(first)} has written it"
    elif not first.writes:
        text = f"{_who(second)} may overwrite {element} before {_who(first)} has read it"
    else:
        text = f"{_who(first)} and {_who(second)} both write {element}"
    return f"A race: {text}. No barrier lies between the two."


def _who(side: Side) -> str:
    return f"thread {side.thread} (line {side.site.rpartition(':')[2]})"


def _try_batch(module: ModuleType, case: Case) -> Iterator[str]:
    """Three matrices, `stride` elements apart, in arrays of which nothing else exists."""
    a, b = _operands(case, matrices=3)
    expected = _elements(a @ b, case.stride)
    arrays = {"A": symptoms.Sparse(_elements(a, case.stride)), "B": symptoms.Sparse(_elements(b, case.stride))}
    c = symptoms.Sparse({})
    kernel = module.make_kernel(module.TILE)
    config = module.launch_config(module.TILE, case.m, case.n, 3)
    sizes = (np.uint32(size) for size in (case.m, case.n, case.k))
    kernel[config.grid, config.block, 0, config.shared_bytes](*arrays.values(), c, *sizes, np.uint64(case.stride))
    found = [symptoms.of_indices(name, "read", array.existing, array.reads) for name, array in arrays.items()]
    found.append(symptoms.of_indices("C", "written", expected, c.writes))
    if any(found):
        yield from (text for text in found if text)
    elif c.values != expected:
        wrong = sorted(index for index, value in expected.items() if c.values[index] != value)
        yield f"C[{symptoms.ranges(wrong)}] {'is' if len(wrong) == 1 else 'are'} wrong."


def _elements(matrices: Any, stride: int) -> dict[int, float]:
    """Index and value of each element of matrices that lie flat, `stride` apart."""
    return {
        number * stride + index: float(value)
        for number, matrix in enumerate(matrices)
        for index, value in enumerate(matrix.ravel())
    }


# The table -------------------------------------------------------------------------------------------

EXERCISES = (
    Exercise(
        1,
        "ex1_shared_tiles.py",
        "shared tiles",
        # One turn of the loop, and several.
        (Case(4, 4, 4), Case(8, 4, 12)),
        _try_product,
        "A barrier separates writing the tiles from reading them. What separates reading them from the next writing?",
    ),
    Exercise(
        2,
        "ex2_two_buffers.py",
        "two buffers",
        # Odd and even numbers of tiles end in different buffers.
        tuple(Case(8, 8, k) for k in (4, 8, 12, 16)),
        _try_product,
        "In which buffer does the last tile lie, for each number of tiles?",
    ),
    Exercise(
        3,
        "ex3_large_batch.py",
        "a large batch",
        # Offsets below 2³¹, between 2³¹ and 2³², and above.
        (Case(2, 4, 3, 100), Case(3, 5, 2, 2**30 + 2**29), Case(2, 4, 3, 2**31)),
        _try_batch,
        "Which numbers of the kernel count elements of one matrix, and which elements of the whole array?",
    ),
    Exercise(
        4,
        "ex4_grid.py",
        "the grid",
        # As many blocks along M as along N, more along either, and ragged ones.
        (Case(8, 32, 4), Case(2, 32, 4), Case(8, 8, 4), Case(3, 17, 4)),
        _try_product,
        "Which index of the block does the kernel make a row of, and which a column?",
    ),
    Exercise(
        5,
        "ex5_any_k.py",
        "any K",
        # Whole tiles, a part of one, one more element, one less; no K at all.
        tuple(Case(m, n, k) for m, n, k in ((8, 8, 8), (5, 7, 4), (5, 7, 3), (6, 5, 9), (8, 8, 7), (4, 4, 0))),
        _try_product,
        "How many tiles does it take to cover K, if the last one is not full?",
    ),
    Exercise(
        6,
        "ex6_ring.py",
        "a ring",
        # Fewer tiles than the ring has, as many, and more.
        tuple(Case(4, 8, k) for k in (4, 8, 12, 20)),
        _try_product,
        "The wait leaves one group unfinished. Which tile's group is that in the last turn?",
    ),
)
