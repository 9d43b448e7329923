"""Any product of strided operands, arranged the way a kernel sees it: `Arrangement`.

A kernel writes C row by row (unit stride along n) and reads A and B with unit stride along one axis each.
Transposes, column-major arrays and leading dimensions are all the same thing here: which axis has the unit
stride, and how far apart its lines are. A column-major C is computed as Cᵀ = Bᵀ·Aᵀ; then rows
are the caller's columns.

A kernel for products with few rows wants the smaller of M and N as its rows, and then writes C by rows or by columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from numba_gemm.tile import FLOAT_BYTES

#: The widest access of a thread.
VECTOR_BYTES = 16
#: Floats of a vector access.
_VECTOR_FLOATS = VECTOR_BYTES // FLOAT_BYTES
#: Most rows that a kernel for few of them computes at once.
MOST_ROWS = 16


class Operand(NamedTuple):
    """A float32 array in GPU memory. Strides are in elements.

    A tuple, because three of them are made for every call, and a tuple is the cheapest object there is.
    """

    name: str
    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    read_only: bool = False
    #: Device ordinal; None for an array without elements, whose pointer may be null.
    device: int | None = None
    #: Stream of the producer, to be waited for; None when there is nothing to wait for.
    producer_stream: int | None = None
    #: Keeps the memory alive as long as the operand.
    owner: Any = None

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def is_contiguous(self) -> bool:
        """Row-major without gaps, where strides of extents of at most 1 do not matter."""
        expected = 1
        for extent, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if extent > 1 and stride != expected:
                return False
            expected *= extent
        return True

    @property
    def byte_strides(self) -> tuple[int, ...]:
        return tuple(stride * FLOAT_BYTES for stride in self.strides)

    @property
    def byte_range(self) -> tuple[int, int]:
        """First and one-past-last byte that the array touches."""
        low, high = self.span
        return self.pointer + low, self.pointer + high

    @property
    def span(self) -> tuple[int, int]:
        """The same, in bytes from the pointer on."""
        if self.size == 0:
            return 0, 0
        reach = [(extent - 1) * stride for extent, stride in zip(self.shape, self.strides, strict=True)]
        low, high = (sum(floats for floats in reach if floats < 0), sum(floats for floats in reach if floats > 0))
        return low * FLOAT_BYTES, (high + 1) * FLOAT_BYTES

    @property
    def transposed(self) -> Operand:
        """A matrix with rows and columns exchanged; the same memory."""
        return self._replace(shape=self.shape[::-1], strides=self.strides[::-1])

    def rows(self, first: int, end: int) -> Operand:
        """Rows first … end−1 of a matrix."""
        return self._replace(
            pointer=self.pointer + first * self.strides[0] * FLOAT_BYTES,
            shape=(end - first, *self.shape[1:]),
        )


@dataclass(frozen=True, slots=True)
class Lines:
    """A matrix as lines with unit stride, `lead` floats apart; matrices of a batch are `batch` floats apart."""

    pointer: int
    count: int
    lead: int
    batch: int = 0

    @property
    def takes_vectors(self) -> bool:
        """Whether each group of four from the start of a line on is a 16-byte access."""
        return self.pointer % VECTOR_BYTES == 0 and self.lead % _VECTOR_FLOATS == 0 and self.batch % _VECTOR_FLOATS == 0


@dataclass(frozen=True, slots=True)
class Arrangement:
    """What a kernel computes: C[m, n] from A and B, `batch` times."""

    m: int
    n: int
    k: int
    batch: int
    a: Lines
    b: Lines
    c: Lines
    #: Whether lines of A run along k (A as usual), and lines of B (B transposed).
    a_along_k: bool
    b_along_k: bool
    #: Whether this computes the transpose of what the caller sees.
    transposed: bool
    #: Whether lines of C run along n; a kernel with a tile of rows takes no others.
    c_along_n: bool = True
    #: For a kernel for few rows, the power of two that holds them, at most 16; 0 for other kernels.
    rows: int = 0

    @property
    def vector(self) -> bool:
        """Whether all 16-byte accesses that the kernel would make are aligned, and inside the operands.

        A kernel for few rows makes them where the bytes are: in B, along whichever axis its lines run.

        Copies along k are by 4 bytes. Copies along lines are by 16 only where lines come in fours: the machine code of
        a copy that reads less than its 16 bytes has an unaligned address, which a memory checker may take for an error.
        """
        if self.rows:
            return self.b.takes_vectors and (self.k if self.b_along_k else self.n) % _VECTOR_FLOATS == 0
        return (
            self.c.takes_vectors
            and (self.a_along_k or (self.a.takes_vectors and self.m % _VECTOR_FLOATS == 0))
            and (self.b_along_k or (self.b.takes_vectors and self.n % _VECTOR_FLOATS == 0))
        )


def arrange(
    a: Operand,
    b: Operand,
    c: Operand,
    *,
    trans_a: bool = False,
    trans_b: bool = False,
    few_rows: bool = False,
) -> Arrangement:
    """The arrangement of c = op(a)·op(b); shapes are taken as checked.

    `few_rows` is whether it is for a kernel that wants as few rows as there can be.
    """
    arrangement = _by_rows_of_c(a, b, c, trans_a, trans_b)
    return _with_few_rows(arrangement) if few_rows else arrangement


def that_counts(arrangement: Arrangement, alpha: float) -> Arrangement:
    """The arrangement of alpha·A·B: with alpha = 0 one without any k, so that A and B are not read."""
    return replace(arrangement, k=0) if alpha == 0 else arrangement


def _with_few_rows(given: Arrangement) -> Arrangement:
    """The same product, or its transpose if that has fewer rows."""
    if given.n < given.m:
        given = replace(
            given,
            m=given.n,
            n=given.m,
            a=given.b,
            b=given.a,
            a_along_k=given.b_along_k,
            b_along_k=given.a_along_k,
            transposed=not given.transposed,
            c_along_n=False,
        )
    return replace(given, rows=rows_at_once(given.m))


def rows_at_once(m: int) -> int:
    """How many of m rows a kernel for few of them is compiled for: all, rounded up to a power of two, or the most."""
    return min(MOST_ROWS, 1 << max(0, m - 1).bit_length())


def _by_rows_of_c(a: Operand, b: Operand, c: Operand, trans_a: bool, trans_b: bool) -> Arrangement:
    (m, n), k = c.shape[-2:], a.shape[-2 if trans_a else -1]
    batch = math.prod(c.shape[:-2])
    along_n, c_lines = _lines(c, False)
    if along_n:
        a_along_k, a_lines = _lines(a, trans_a)
        b_along_n, b_lines = _lines(b, trans_b)
        return Arrangement(m, n, k, batch, a_lines, b_lines, c_lines, a_along_k, not b_along_n, False)
    _, c_lines = _lines(c, True)
    a_along_k, a_lines = _lines(b, not trans_b)
    b_along_n, b_lines = _lines(a, not trans_a)
    return Arrangement(n, m, k, batch, a_lines, b_lines, c_lines, a_along_k, not b_along_n, True)


def _lines(operand: Operand, transposed: bool) -> tuple[bool, Lines]:
    """Whether lines of op(operand) are its rows, and the lines."""
    order = (-1, -2) if transposed else (-2, -1)
    rows, columns = (operand.shape[axis] for axis in order)
    row_stride, column_stride = (operand.strides[axis] for axis in order)
    batched = len(operand.shape) == 3 and operand.shape[0] > 1
    batch = operand.strides[0] if batched else 0
    # The stride of an axis of length 1 means nothing: a single line may be followed by an aligned one.
    if column_stride == 1 or columns <= 1 or rows == 0:
        return True, Lines(operand.pointer, rows, row_stride if rows > 1 else _aligned(columns), batch)
    return False, Lines(operand.pointer, columns, column_stride, batch)


def _aligned(floats: int) -> int:
    return -(-floats // _VECTOR_FLOATS) * _VECTOR_FLOATS
