"""`Trial`: one product on the device to run candidates on, and `Judge`: whether what they compute is right.

A float64 product of the largest shapes takes NumPy minutes, so a result is judged in two ways that together see every
element of C:

- sampled rows, with all their columns, and sampled columns, with all their rows, are held against float64, within the
  error bound of `numba_gemm.accuracy`. Samples are spread: one of each of `SAMPLES` equal parts. Where M or N is at
  most `SAMPLES`, that is all of C.
- all of C is held against the first result that passed. Two right results differ by at most the sum of their errors;
  the allowance is twice the largest bound of a sampled element. A first result that is wrong between the samples is
  not found out by itself, but by all others being refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from numba_gemm.accuracy import Reference
from numba_gemm.auto.entry import Choice
from numba_gemm.driver.operands import as_operand
from numba_gemm.driver.product import Operands, prepare_product
from numba_gemm.problem import Operand, Problem
from numba_gemm.tile import FLOAT_BYTES

Array = NDArray[np.float32]

#: Sampled rows, and columns, of a matrix; and sampled matrices of a batch.
SAMPLES, SAMPLED_MATRICES = 32, 4


class Judge:
    """Says how far a result C[batch, m, n] is from right, for operands of shapes [batch, m, k] and [batch, k, n]."""

    def __init__(self, a: Array, b: Array, rng: np.random.Generator) -> None:
        matrices = _sample(a.shape[0], SAMPLED_MATRICES, rng)
        rows, columns = _sample(a.shape[1], SAMPLES, rng), _sample(b.shape[2], SAMPLES, rng)
        #: Which matrix of C, which part of it, and what that should be.
        self._parts: list[tuple[int, Any, Reference]] = []
        for matrix in matrices:
            self._parts.append((matrix, rows, Reference(a[matrix][rows], b[matrix])))
            if len(rows) < a.shape[1]:
                part = (slice(None), columns)
                self._parts.append((matrix, part, Reference(a[matrix], b[matrix][part])))
        self._allowance = 2 * max(float(reference.bound.max()) for *_, reference in self._parts)
        self._right: Array | None = None

    def error(self, c: Array) -> float:
        """The largest error in units of what is allowed: right is at most 1. NaN if there is a NaN."""
        errors = [reference.error(c[matrix][part]) for matrix, part, reference in self._parts]
        if self._right is not None:
            errors.append(float(np.max(np.abs(c - self._right))) / self._allowance)
        elif np.isnan(c).any():
            return float("nan")
        error = float(np.max(errors))
        if self._right is None and error <= 1:
            self._right = c.copy()
        return error


def _sample(count: int, most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """At most `most` of 0 … count−1: all, or one of each of as many equal parts."""
    if count <= most:
        return np.arange(count)
    edges = np.linspace(0, count, most + 1).astype(np.int64)
    return rng.integers(edges[:-1], edges[1:])


class Trial:
    """Random operands on the current device, contiguous, and a C; `aligned` or one float after an aligned address."""

    def __init__(
        self,
        m: int,
        n: int,
        k: int,
        batch: int = 1,
        *,
        trans_a: bool = False,
        trans_b: bool = False,
        aligned: bool = True,
        seed: int = 0,
    ) -> None:
        rng = np.random.default_rng(seed)
        a, b = (
            rng.standard_normal((batch, *(reversed(shape) if transposed else shape)), dtype=np.float32)
            for shape, transposed in (((m, k), trans_a), ((k, n), trans_b))
        )
        self._judge = Judge(a.swapaxes(1, 2) if trans_a else a, b.swapaxes(1, 2) if trans_b else b, rng)
        #: Where operands start, in floats after an address that is aligned for every access.
        self._first = 0 if aligned else 1
        self._shape_c = (batch, m, n)
        # The arrays on the device have to live as long as the addresses.
        self._arrays = self._upload(a), self._upload(b), self._upload(np.full(self._shape_c, np.nan, np.float32))
        shapes = a.shape, b.shape, self._shape_c
        self._operands = Operands(*map(self._operand, "abc", self._arrays, shapes))
        self._trans_a, self._trans_b = trans_a, trans_b
        self.key = Problem.of(*self._operands[:3], trans_a=trans_a, trans_b=trans_b).key

    def _upload(self, host: Array) -> Any:
        return cuda.to_device(np.concatenate([np.zeros(self._first, np.float32), host.ravel()]))

    def _operand(self, name: str, array: Any, shape: tuple[int, ...]) -> Operand:
        pointer = as_operand(array, name, 0).pointer + self._first * FLOAT_BYTES
        strides = (shape[1] * shape[2], shape[2], 1)
        # A batch of one is a matrix.
        return (
            Operand(name, pointer, shape, strides) if shape[0] > 1 else Operand(name, pointer, shape[1:], strides[1:])
        )

    def launch(self, choice: Choice) -> Callable[[], None]:
        """Compile, load and prepare it; what is returned enqueues it on the default stream.

        Raises:
            ValueError: if the version refuses.
        """
        version, tile = choice.version, choice.tile
        product = prepare_product(version, tile, self._operands, trans_a=self._trans_a, trans_b=self._trans_b)
        return product.bound(self._operands)

    def error(self, launch: Callable[[], None]) -> float:
        """Run it once on a C full of NaN: how far it is from right, which is at most 1."""
        array = self._arrays[2]
        array.copy_to_device(np.full(array.shape, np.nan, np.float32))
        launch()
        return self._judge.error(array.copy_to_host()[self._first :].reshape(self._shape_c))
