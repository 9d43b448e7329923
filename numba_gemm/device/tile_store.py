"""Four neighbouring outputs of a thread, through the epilogue, to C: 16 bytes at once where that is allowed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import uint32

from numba_gemm.compiler.target import device_function
from numba_gemm.device.epilogue import Epilogue, is_called, make_epilogue, make_epilogue4
from numba_gemm.device.vector import load4, store4


def make_store(epilogue: Epilogue, *, vector: bool, whole: bool) -> Any:
    """Device function (C, row, column, M, N, acc, i, j, bias, alpha, beta) that stores acc[i, j … j+3].

    Outputs outside C[M, N] are not written. C is read only where beta is not 0.
    """
    finish, finish4 = make_epilogue(epilogue), make_epilogue4(epilogue)
    # What is long in it is a function that takes four values. Without one, edges are stored one output at a time: with
    # four together the compiler gave rung 6 a main loop with more conflicts of registers (H200: a tenth slower).
    CALLED = is_called(epilogue)
    VECTOR, WHOLE = vector, whole
    ZERO = np.float32(0)
    NOTHING = (ZERO, ZERO, ZERO, ZERO)
    FOUR, ONE, TWO, THREE = (np.uint32(x) for x in (4, 1, 2, 3))

    @device_function
    def four(acc, i, j):
        return acc[i, j], acc[i, j + ONE], acc[i, j + TWO], acc[i, j + THREE]

    @device_function
    def store_vector(C, row, column, acc, i, j, bias, alpha, beta):
        old = NOTHING
        if beta != ZERO:
            old = load4(C, (row, column))
        columns = (column, column + ONE, column + TWO, column + THREE)
        sums = four(acc, i, j)
        x, y, z, w = finish4(sums, old, row, columns, bias, alpha, beta)
        store4(C, (row, column), x, y, z, w)

    @device_function
    def inside(column, N):
        """The column, or the last one of C: what is computed from there in place of outputs outside is not stored."""
        return uint32(column) if WHOLE else min(uint32(column), uint32(N - ONE))

    @device_function
    def value(C, row, column, N):
        return C[row, column] if WHOLE or column < N else ZERO

    @device_function
    def store_each(C, row, column, N, acc, i, j, bias, alpha, beta):
        columns = (uint32(column), inside(column + ONE, N), inside(column + TWO, N), inside(column + THREE, N))
        old = NOTHING
        if beta != ZERO:
            old = (
                C[row, column],
                value(C, row, column + ONE, N),
                value(C, row, column + TWO, N),
                value(C, row, column + THREE, N),
            )
        sums = four(acc, i, j)
        x, y, z, w = finish4(sums, old, row, columns, bias, alpha, beta)
        C[row, column] = x
        if WHOLE or column + ONE < N:
            C[row, column + ONE] = y
        if WHOLE or column + TWO < N:
            C[row, column + TWO] = z
        if WHOLE or column + THREE < N:
            C[row, column + THREE] = w

    @device_function
    def store_scalar(C, row, column, N, x, bias, alpha, beta):
        if WHOLE or column < N:
            old = ZERO
            if beta != ZERO:
                old = C[row, column]
            C[row, column] = finish(x, old, row, column, bias, alpha, beta)

    @device_function
    def store(C, row, column, M, N, acc, i, j, bias, alpha, beta):
        if WHOLE or row < M:
            if VECTOR and (WHOLE or column + FOUR <= N):
                store_vector(C, row, column, acc, i, j, bias, alpha, beta)
            elif CALLED:
                if WHOLE or column < N:
                    store_each(C, row, column, N, acc, i, j, bias, alpha, beta)
            else:
                # No loop: with an index that is not a constant, acc would leave the registers.
                store_scalar(C, row, column, N, acc[i, j], bias, alpha, beta)
                store_scalar(C, row, column + ONE, N, acc[i, j + ONE], bias, alpha, beta)
                store_scalar(C, row, column + TWO, N, acc[i, j + TWO], bias, alpha, beta)
                store_scalar(C, row, column + THREE, N, acc[i, j + THREE], bias, alpha, beta)

    return store
