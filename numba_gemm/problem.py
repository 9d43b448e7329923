"""`Problem`: a product of strided operands, as one hashable description that needs no address.

An `Operand` is an array as its producer describes it. Of three of them, what decides everything but the places in
memory is a `Problem`: the sizes, and for each matrix which axis has the unit stride, how far apart its lines are (the
leading dimension), and whether 16-byte accesses are aligned. Transposes, column-major arrays and leading dimensions
are all the same thing here. What was chosen, compiled or prepared for a problem is for all operands that have it.

A kernel with a tile of rows writes C row by row (unit stride along n): a column-major C is computed as Cᵀ = Bᵀ·Aᵀ,
`by_rows_of_c`. A kernel for few rows wants the smaller of M and N as its rows, `with_few_rows`, and then writes C by
rows or by columns.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from numba_gemm.tile import FLOAT_BYTES

#: The widest access of a thread.
VECTOR_BYTES = 16
#: Floats of a vector access.
VECTOR_FLOATS = VECTOR_BYTES // FLOAT_BYTES
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
        """Row-major without gaps."""
        return is_contiguous(self.shape, self.strides)

    @property
    def is_aligned(self) -> bool:
        """Whether it starts at a multiple of 16 bytes."""
        return self.pointer % VECTOR_BYTES == 0

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


def is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Row-major without gaps, where strides of extents of at most 1 do not matter."""
    expected = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent > 1 and stride != expected:
            return False
        expected *= extent
    return True


class Lines(NamedTuple):
    """A matrix as lines with unit stride, `lead` floats apart; matrices of a batch are `batch` floats apart."""

    number: int
    lead: int
    batch: int = 0
    #: Whether the first element lies at a multiple of 16 bytes.
    aligned: bool = True

    @property
    def takes_vectors(self) -> bool:
        """Whether each group of four from the start of a line on is a 16-byte access."""
        return self.aligned and self.lead % VECTOR_FLOATS == 0 and self.batch % VECTOR_FLOATS == 0


class Problem(NamedTuple):
    """C[m, n] from A[m, k] and B[k, n], `batch` times: sizes and layouts, and nothing about where operands lie."""

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
    #: Whether lines of C run along n.
    c_along_n: bool = True
    #: Whether this is the transpose of what the caller sees: A here is the caller's B, and B the caller's A.
    transposed: bool = False
    #: For a kernel for few rows, the power of two that holds them, at most 16; 0 for other kernels.
    rows: int = 0
    #: The stride of the bias in floats; None without a bias.
    bias: int | None = None

    @classmethod
    def of(
        cls,
        a: Operand,
        b: Operand,
        c: Operand,
        *,
        trans_a: bool = False,
        trans_b: bool = False,
        bias: Operand | None = None,
    ) -> Problem:
        """The problem c = op(a)·op(b) as the caller sees it; shapes are taken as checked."""
        (m, n), k = c.shape[-2:], a.shape[-2 if trans_a else -1]
        batch = math.prod(c.shape[:-2])
        a_along_k, of_a = _lines(a.shape, a.strides, a.is_aligned, trans_a)
        b_along_n, of_b = _lines(b.shape, b.strides, b.is_aligned, trans_b)
        c_along_n, of_c = _lines(c.shape, c.strides, c.is_aligned, False)
        stride = None if bias is None else bias.strides[0] if n > 1 else 1
        return cls(m, n, k, batch, of_a, of_b, of_c, a_along_k, not b_along_n, c_along_n, bias=stride)

    @classmethod
    def contiguous(
        cls,
        m: int,
        n: int,
        k: int,
        batch: int | None = None,
        *,
        trans_a: bool = False,
        trans_b: bool = False,
        aligned: bool = True,
        bias: bool = False,
    ) -> Problem:
        """The problem of operands as they are most likely to come: row-major, without gaps, all in batches or none."""

        def lines(rows: int, columns: int, transposed: bool) -> tuple[bool, Lines]:
            shape = (rows, columns) if batch is None else (batch, rows, columns)
            return _lines(shape, (rows * columns, columns, 1)[-len(shape) :], aligned, transposed)

        a_along_k, of_a = lines(*((k, m) if trans_a else (m, k)), trans_a)
        b_along_n, of_b = lines(*((n, k) if trans_b else (k, n)), trans_b)
        c_along_n, of_c = lines(m, n, False)
        count, stride = 1 if batch is None else batch, 1 if bias else None
        return cls(m, n, k, count, of_a, of_b, of_c, a_along_k, not b_along_n, c_along_n, bias=stride)

    @classmethod
    def of_key(
        cls, m: int, n: int, k: int, batch: int, a_along_k: bool = True, b_along_k: bool = False, vector: bool = True
    ) -> Problem:
        """What stands for all problems with these sizes and layouts, whatever their leading dimensions: see `key`.

        Where lines do not come in fours there are no 16-byte accesses, and `vector` does not count.
        """
        sizes = ((m, k) if a_along_k else (k, m), (n, k) if b_along_k else (k, n), (m, n))
        of_a, of_b, of_c = (Lines(number, _rounded_up(length), 0, vector) for number, length in sizes)
        key = cls(m, n, k, batch, of_a, of_b, of_c, a_along_k, b_along_k)
        return key if key.vector == vector else cls.of_key(m, n, k, batch, a_along_k, b_along_k, vector=False)

    @property
    def key(self) -> Problem:
        """What decides which tile is fastest, and under which it is remembered.

        That is C[m, n] over k, how often, how A and B lie in memory, and whether accesses may be of 16 bytes. Not the
        epilogue, which costs little next to the sum over k, nor the leading dimensions. A product into a column-major
        C is that of the transposes.
        """
        by_rows = self.by_rows_of_c()
        return Problem.of_key(*by_rows[:4], by_rows.a_along_k, by_rows.b_along_k, by_rows.vector)

    def matrix(self, place: str) -> tuple[Lines, tuple[int, int], tuple[int, int]]:
        """The lines of "a", "b" or "c", and its shape and strides as a matrix of (m, k), (k, n) or (m, n)."""
        lines, shape, by_rows = {
            "a": (self.a, (self.m, self.k), self.a_along_k),
            "b": (self.b, (self.k, self.n), not self.b_along_k),
            "c": (self.c, (self.m, self.n), self.c_along_n),
        }[place]
        return lines, shape, (lines.lead, 1) if by_rows else (1, lines.lead)

    def span(self, place: str) -> tuple[int, int]:
        """First and one-past-last byte that "a", "b", "c" or the bias touches, from its address on."""
        if place == "bias":
            return (0, 0) if self.bias is None or self.n == 0 else (0, ((self.n - 1) * self.bias + 1) * FLOAT_BYTES)
        lines, shape, _ = self.matrix(place)
        if 0 in shape or self.batch == 0:
            return 0, 0
        reach = (lines.number - 1) * lines.lead + math.prod(shape) // lines.number
        batches = (self.batch - 1) * lines.batch
        return min(batches, 0) * FLOAT_BYTES, (max(batches, 0) + reach) * FLOAT_BYTES

    @property
    def vector(self) -> bool:
        """Whether all 16-byte accesses that the kernel would make are aligned, and inside the operands.

        A kernel for few rows makes them where the bytes are: in B, along whichever axis its lines run.

        Copies along k are by 4 bytes. Copies along lines are by 16 only where lines come in fours: the machine code of
        a copy that reads less than its 16 bytes has an unaligned address, which a memory checker may take for an error.
        """
        if self.rows:
            return self.b.takes_vectors and (self.k if self.b_along_k else self.n) % VECTOR_FLOATS == 0
        return (
            self.c.takes_vectors
            and (self.a_along_k or (self.a.takes_vectors and self.m % VECTOR_FLOATS == 0))
            and (self.b_along_k or (self.b.takes_vectors and self.n % VECTOR_FLOATS == 0))
        )

    @property
    def flops(self) -> int:
        """FLOP of all products of the batch."""
        return 2 * self.m * self.n * self.k * self.batch

    @property
    def layout(self) -> str:
        """In BLAS's letters, A before B: N as it is, T transposed; and whether accesses have to be of 4 bytes."""
        letters = ("N" if self.a_along_k else "T") + ("T" if self.b_along_k else "N")
        return letters if self.vector else f"{letters}, unaligned"

    def __str__(self) -> str:
        shape = f"{self.m}×{self.n}×{self.k}" + (f", {self.batch} times" if self.batch > 1 else "")
        return f"{shape} ({self.layout})"

    def by_rows_of_c(self) -> Problem:
        """The same product into a C whose lines run along n: the transposed one where they do not."""
        return self if self.c_along_n else self._transpose(c_along_n=True)

    def with_few_rows(self) -> Problem:
        """The same product, or its transpose if that has fewer rows, for a kernel that computes few rows at once."""
        given = self.by_rows_of_c()
        if given.n < given.m:
            given = given._transpose(c_along_n=False)
        return given._replace(rows=rows_at_once(given.m))

    def _transpose(self, c_along_n: bool) -> Problem:
        """Cᵀ = Bᵀ·Aᵀ: what runs along k still does."""
        return self._replace(
            m=self.n,
            n=self.m,
            a=self.b,
            b=self.a,
            a_along_k=self.b_along_k,
            b_along_k=self.a_along_k,
            c_along_n=c_along_n,
            transposed=not self.transposed,
        )

    def without_products(self) -> Problem:
        """The problem of alpha = 0: one without any k, so that A and B are not read."""
        return self._replace(k=0)


def rows_at_once(m: int) -> int:
    """How many of m rows a kernel for few of them is compiled for: all, rounded up to a power of two, or the most."""
    return min(MOST_ROWS, 1 << max(0, m - 1).bit_length())


def _lines(shape: tuple[int, ...], strides: tuple[int, ...], aligned: bool, transposed: bool) -> tuple[bool, Lines]:
    """Whether lines of op(X) are its rows, and the lines. A batch of one is a matrix that the whole batch shares."""
    rows, columns = shape[-2:]
    row_stride, column_stride = strides[-2:]
    if transposed:
        rows, columns, row_stride, column_stride = columns, rows, column_stride, row_stride
    batch = strides[0] if len(shape) == 3 and shape[0] > 1 else 0
    # The stride of an axis of length 1 means nothing: a single line may be followed by an aligned one.
    if column_stride == 1 or columns <= 1 or rows == 0:
        return True, Lines(rows, row_stride if rows > 1 else _rounded_up(columns), batch, aligned)
    return False, Lines(columns, column_stride, batch, aligned)


def _rounded_up(floats: int) -> int:
    """To a multiple of what a vector access takes."""
    return -(-floats // VECTOR_FLOATS) * VECTOR_FLOATS
