"""Symptoms: what a wrong product says about the kernel that computed it.

- An output that still has the bits which it had before was not written; a NaN of other bits comes from shared memory
  that nobody wrote, or whose copy by cp.async is under way: both are NaN in the simulator.
- A product is Σₖ wₖ · A[:, k] · B[k, :] with all weights wₖ = 1. The weights of a wrong one are found by least squares,
  M·N equations for K unknowns: wₖ = 0 is a k that was left out, wₖ = 2 one that was added twice.
- Elements that are never touched at one place, and touched instead a multiple of 2³² lower, show an index that was
  cut to 32 bits.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Collection, Iterable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float32]

#: A NaN with bits that no arithmetic gives.
_UNWRITTEN_BITS = np.uint32(0x7FC0_DEAD)
#: What an index of 32 bits counts to.
_WRAP = 2**32


def unwritten(m: int, n: int) -> Matrix:
    """C[m,n] before the launch."""
    return np.full((m, n), _UNWRITTEN_BITS, np.uint32).view(np.float32)


def of_unwritten(c: Matrix) -> str | None:
    """Which outputs still have the bits that they had before the launch; None if all are written."""
    untouched = c.view(np.uint32) == _UNWRITTEN_BITS
    return f"{_outputs(untouched)} never written." if untouched.any() else None


def of_product(a: Matrix, b: Matrix, c: Matrix) -> str | None:
    """What is wrong with c, written everywhere, as the product of matrices of small integers; None if nothing is."""
    unknown = np.isnan(c)
    if unknown.any():
        return f"{_outputs(unknown)} NaN: computed from shared memory before anything has arrived there."
    wrong = c != a @ b
    if not wrong.any():
        return None
    return _of_weights(_weights(a, b, c)) or f"{_outputs(wrong)} wrong."


def _weights(a: Matrix, b: Matrix, c: Matrix) -> NDArray[np.float64] | None:
    """How often each k was added, if that explains c."""
    terms = np.einsum("mk,kn->mnk", a, b).reshape(c.size, -1).astype(np.float64)
    weights, *_ = np.linalg.lstsq(terms, c.ravel().astype(np.float64), rcond=None)
    counts = np.rint(weights)
    # Fewer outputs than k leave the weights undecided.
    decided = np.linalg.matrix_rank(terms) == terms.shape[1]
    return counts if decided and np.array_equal(terms @ counts, c.ravel()) else None


def _of_weights(weights: NDArray[np.float64] | None) -> str | None:
    if weights is None:
        return None
    parts = [_terms(np.flatnonzero(weights == weight), int(weight)) for weight in np.unique(weights) if weight != 1]
    return f"In every output, {' and '.join(parts)}."


def _terms(ks: NDArray[np.intp], weight: int) -> str:
    done = {0: "left out", 2: "added twice"}.get(weight, f"added {weight} times")
    return f"the {_noun(len(ks), 'term')} k = {ranges(ks)} {_are(len(ks))} {done}"


def _outputs(where: NDArray[np.bool_]) -> str:
    """`C[2 … 3, 0 … 7] (16 of 32 outputs) are`: the rows and columns that hold the outputs, and how many they are."""
    rows, columns = (ranges(np.flatnonzero(where.any(axis=axis))) for axis in (1, 0))
    count = int(where.sum())
    return f"C[{rows}, {columns}] ({count} of {where.size} outputs) {_are(count)}"


def ranges(numbers: Iterable[int]) -> str:
    """`0 … 3, 8`: sorted numbers, neighbours joined."""
    listed = [int(number) for number in numbers]
    if not listed:
        return ""
    starts = [0, *(at for at, (one, other) in enumerate(pairwise(listed), 1) if other != one + 1), len(listed)]
    runs = [(listed[first], listed[stop - 1]) for first, stop in pairwise(starts)]
    return ", ".join(f"{first} … {last}" if first != last else str(first) for first, last in runs)


# Arrays that are too large to exist ------------------------------------------------------------------


class Sparse:
    """A flat float32 array of any size, of which some elements exist; the indices of all accesses are counted.

    In the simulator it passes for an array: a kernel may read and write its elements. What does not exist is NaN.
    """

    def __init__(self, values: dict[int, float]) -> None:
        self.values = values
        self.existing = frozenset(values)
        self.reads: Counter[int] = Counter()
        self.writes: Counter[int] = Counter()

    def __getitem__(self, index: Any) -> np.float32:
        element = operator.index(index)
        self.reads[element] += 1
        return np.float32(self.values.get(element, np.nan))

    def __setitem__(self, index: Any, value: Any) -> None:
        element = operator.index(index)
        self.writes[element] += 1
        self.values[element] = float(value)


def of_indices(name: str, verb: str, expected: Collection[int], touched: Collection[int]) -> str | None:
    """What is wrong with the elements that a kernel reads or writes; `verb` is "read" or "written"."""
    missing, strays = sorted(set(expected) - set(touched)), sorted(set(touched) - set(expected))
    if missing:
        text = f"{name}[{ranges(missing)}] {_are(len(missing))} never {verb}"
        if {index % _WRAP for index in missing} <= {index % _WRAP for index in touched}:
            return f"{text}; instead, elements a multiple of 2³² = {_WRAP} away: the index has lost its high bits."
        return f"{text}."
    if strays:
        return f"{name}[{ranges(strays)}] {_are(len(strays))} {verb}, where no matrix lies."
    return None


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _noun(count: int, noun: str) -> str:
    return noun if count == 1 else f"{noun}s"
