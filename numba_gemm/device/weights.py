"""One thread's share of the large operand of a product with few rows, from memory straight into registers.

Each thread has four columns of B, and of each step along K one or more groups of four k. A group is a 4 × 4 square of
floats, and four loads of 16 bytes, whichever way the lines of B run:

    lines along n, B[k, n]                 lines along k (B transposed), B[n, k]

         n … n+3                                k … k+3
      k  ▓▓▓▓  one load                      n  ▓▓▓▓  one load
     +1  ▓▓▓▓                               +1  ▓▓▓▓
     +2  ▓▓▓▓  lanes side by side           +2  ▓▓▓▓  lanes side by side
     +3  ▓▓▓▓  have the next columns        +3  ▓▓▓▓  have the next k

Each float is read by one thread, once. Columns that do not exist are read as the last one that does: their sums are
never stored, and nothing has to be checked. A k that does not exist counts as 0.

A thread works with an array that begins at its own first float, so that only the step has to be added to that address.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import int64, uint32

from numba_gemm.compiler.target import device_function
from numba_gemm.device.streaming import load4_once


class WeightsLoad(NamedTuple):
    """Device functions for one thread's share: of each step the k from k_mine on, of the columns those from column on.

    `start(k_mine, column, N, lead)` is how many floats into B the first square begins. The others,
    (B, w, square, k, k_mine, column, N, k_end), fill w[square, i, j] with the B of k + k_mine + i and column + j; their
    B is moved to the start.
    """

    start: Any
    #: Fills w, if all k of the step exist.
    whole: Any
    #: Fills w; k from k_end on are not read and count as 0.
    partial: Any


def make_weights_load(*, along_k: bool, vector: bool) -> WeightsLoad:
    """The loads for one layout; `vector` is whether four neighbours in a line are 16 bytes at a multiple of 16.

    Then there are a multiple of four columns, or of k if lines run along k.
    """
    ALONG_K = along_k
    WIDTH = np.uint32(4 if vector and not along_k else 1)

    @device_function
    def start(k_mine, column, N, lead):
        first = min(column, uint32(N - WIDTH))
        if ALONG_K:
            return int64(first) * int64(lead) + int64(k_mine)
        return int64(k_mine) * int64(lead) + int64(first)

    return WeightsLoad(start, *(_make(along_k, vector, partial) for partial in (False, True)))


def _make(along_k: bool, vector: bool, partial: bool) -> Any:
    ALONG_K, VECTOR, PARTIAL = along_k, vector, partial
    ZERO, ONE, TWO, THREE, FOUR = (np.uint32(x) for x in range(5))
    NOTHING = np.float32(0)

    @device_function
    def float_at(B, line, place, exists):
        return NOTHING if PARTIAL and not exists else B[line, place]

    @device_function
    def four_k(B, line, k, left):
        """Four neighbours along k, of which `left` exist."""
        if VECTOR:
            if PARTIAL and left == ZERO:
                return NOTHING, NOTHING, NOTHING, NOTHING
            return load4_once(B, (line, k))
        return (
            float_at(B, line, k, left > ZERO),
            float_at(B, line, k + ONE, left > ONE),
            float_at(B, line, k + TWO, left > TWO),
            float_at(B, line, k + THREE, left > THREE),
        )

    @device_function
    def four_columns(B, k, exists, after):
        """Four neighbours along n, of which `after` exist beyond the first."""
        if PARTIAL and not exists:
            return NOTHING, NOTHING, NOTHING, NOTHING
        if VECTOR:
            return load4_once(B, (k, ZERO))
        return B[k, ZERO], B[k, min(ONE, after)], B[k, min(TWO, after)], B[k, min(THREE, after)]

    @device_function
    def put(w, square, line, x):
        for q in range(FOUR):
            if ALONG_K:
                w[square, q, line] = x[q]
            else:
                w[square, line, q] = x[q]

    @device_function
    def load(B, w, square, k, k_mine, column, N, k_end):
        first = uint32(k + k_mine)
        left = uint32(k_end - min(first, k_end))  # k that exist from the first one on
        after = uint32(N - ONE - min(column, uint32(N - ONE)))  # columns that exist beyond the first one
        for line in range(FOUR):
            if ALONG_K:
                put(w, square, line, four_k(B, min(uint32(line), after), k, left))
            else:
                put(w, square, line, four_columns(B, uint32(k + line), left > line, after))

    return load
