"""Four neighbouring outputs of a thread, through the epilogue, to C: 16 bytes at once where that is allowed."""

from __future__ import annotations

from typing import Any

import numpy as np

from numba_gemm.device.activation import LONG
from numba_gemm.device.epilogue import Epilogue, make_epilogue
from numba_gemm.device.opaque import opaque
from numba_gemm.device.target import device_function
from numba_gemm.device.vector import load4, store4


def make_store(epilogue: Epilogue, *, vector: bool, whole: bool) -> Any:
    """Device function (C, row, column, M, N, acc, i, j, bias, alpha, beta) that stores acc[i, j … j+3].

    Outputs outside C[M, N] are not written. C is read only where beta is not 0.
    """
    finish = make_epilogue(epilogue)
    VECTOR, WHOLE = vector, whole
    ZERO = np.float32(0)
    NONE, FOUR, ONE, TWO, THREE = (np.uint32(x) for x in (0, 4, 1, 2, 3))
    # In one piece of straight-line code the compiler computes the activations of all outputs side by side, and takes
    # up to 255 registers for that: fewer blocks fit, or it spills. Four at a time cost about half as much with small
    # tiles, and a little more with the largest, of which a multiprocessor has 8 warps (H200: the note on rung 6).
    FOUR_AT_A_TIME = whole and epilogue.activation in LONG

    @device_function
    def exists(row, M):
        if FOUR_AT_A_TIME:
            return opaque(M) != NONE  # always; but the compiler does not know, and ends a piece of code here
        return WHOLE or row < M

    @device_function
    def store_vector(C, row, column, acc, i, j, bias, alpha, beta):
        old = (ZERO, ZERO, ZERO, ZERO)
        if beta != ZERO:
            old = load4(C, (row, column))
        store4(
            C,
            (row, column),
            finish(acc[i, j], old[0], row, column, bias, alpha, beta),
            finish(acc[i, j + ONE], old[1], row, column + ONE, bias, alpha, beta),
            finish(acc[i, j + TWO], old[2], row, column + TWO, bias, alpha, beta),
            finish(acc[i, j + THREE], old[3], row, column + THREE, bias, alpha, beta),
        )

    @device_function
    def store_scalar(C, row, column, N, x, bias, alpha, beta):
        if WHOLE or column < N:
            old = ZERO
            if beta != ZERO:
                old = C[row, column]
            C[row, column] = finish(x, old, row, column, bias, alpha, beta)

    @device_function
    def store(C, row, column, M, N, acc, i, j, bias, alpha, beta):
        if exists(row, M):
            if VECTOR and (WHOLE or column + FOUR <= N):
                store_vector(C, row, column, acc, i, j, bias, alpha, beta)
            else:
                # No loop: with an index that is not a constant, acc would leave the registers.
                store_scalar(C, row, column, N, acc[i, j], bias, alpha, beta)
                store_scalar(C, row, column + ONE, N, acc[i, j + ONE], bias, alpha, beta)
                store_scalar(C, row, column + TWO, N, acc[i, j + TWO], bias, alpha, beta)
                store_scalar(C, row, column + THREE, N, acc[i, j + THREE], bias, alpha, beta)

    return store
