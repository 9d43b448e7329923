"""`gemv`: a matrix times a vector, at the speed of memory."""

from __future__ import annotations

from functools import partial
from typing import Any

from numba_gemm import ladder
from numba_gemm.calls import checks
from numba_gemm.device.epilogue import Epilogue
from numba_gemm.driver import outputs
from numba_gemm.driver.again import again_of
from numba_gemm.driver.operands import as_operand
from numba_gemm.driver.product import Admission, Operands, ThreadProducts
from numba_gemm.driver.streams import stream_handle
from numba_gemm.kernels.skinny import GEMV_TILE
from numba_gemm.problem import Operand, Problem

_products = ThreadProducts()


def gemv(
    a: Any,
    x: Any,
    y: Any = None,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    trans_a: bool = False,
    stream: Any = None,
) -> Any:
    """Compute y = alpha · op(A)·x + beta · y in float32, in GPU memory, with A read once. Asynchronous.

    Args:
        a: (M, K) float32: Numba, PyTorch, CuPy or JAX, or anything with `__cuda_array_interface__` or `__dlpack__`. One
            of its dimensions has unit stride.
        x: (K,) float32 with any positive stride.
        y: (M,) float32 with any positive stride, written in place and returned. If absent, a new Numba device array.
        alpha, beta: scalars, used as float32. `beta == 0` never reads y, `alpha == 0` never reads A or x.
        trans_a: op(A) = Aᵀ; no copy is made. Then x has M elements and y has K.
        stream: as for `sgemm`.

    Returns:
        `y`, or a new Numba device array.

    Raises:
        TypeError: an operand that is not float32 in GPU memory, an option of the wrong type.
        ValueError: shapes that do not fit, a stride that is not positive, a `y` that is read-only or overlaps.
        RuntimeError: a device below compute capability 8.0.
        All of them come before anything is launched or written.
    """
    alpha, beta = checks.scalar("alpha", alpha), checks.scalar("beta", beta)
    checks.check_flag("trans_a", trans_a)
    handle = stream_handle(stream)
    kind: Any = None
    if y is not None or beta == 0:
        try:
            kind = (a.shape, x.shape, None if y is None else y.shape, trans_a)
            again = _products.again.get(kind)
        except (AttributeError, TypeError, RuntimeError):  # no array, or one without a plain shape
            kind = again = None
        if again is not None:
            done = again(a, x, y, None, alpha, beta, handle)
            if done is not None:
                return done

    matrix = as_operand(a, "a", handle)
    if len(matrix.shape) != 2:
        raise ValueError(f"a has shape {matrix.shape}; gemv takes one matrix, with two dimensions")
    length, terms = reversed(matrix.shape) if trans_a else matrix.shape
    of_x = _as_column(as_operand(x, "x", handle), terms, matrix, trans_a)
    given = y
    if y is None:
        if beta != 0:
            raise ValueError(f"beta is {beta}, which adds beta · y, but there is no y; pass one or beta=0")
        y, of_y = outputs.new("y", (length,), checks.common_device([matrix, of_x]))
    else:
        of_y = as_operand(y, "y", handle)
    operands = Operands(matrix, of_x, _as_column(of_y, length, matrix, trans_a))
    problem = Problem.of(matrix, of_x, operands.c, trans_a=trans_a)
    admit = partial(_admit, operands)
    product = _products.launch(operands, problem, trans_a, alpha, beta, handle, admit)
    if kind is not None:
        again = again_of(product, (a, x, given, None), (length,))
        if again is not None:
            _products.again[kind] = again
    return y


def _admit(operands: Operands) -> Admission:
    """Check the call, whose shapes fit."""
    matrix, x, y, _ = operands
    checks.check_writable(y)
    for operand in (matrix, x):
        checks.check_disjoint(y, operand)
    version = ladder.find("skinny")
    device = checks.common_device(operands.present)
    return Admission(version, checks.checked_tile(version, GEMV_TILE, device), Epilogue(), device)


def _as_column(vector: Operand, length: int, matrix: Operand, trans_a: bool) -> Operand:
    """The vector as a matrix of one column.

    Raises:
        ValueError: if it has another length or dimension than the matrix asks for, or no positive stride.
    """
    if vector.shape != (length,):
        raise ValueError(
            f"{vector.name} has shape {vector.shape}; with {'the transpose of ' if trans_a else ''}a of "
            f"{matrix.shape} it must be ({length},)"
        )
    (stride,) = vector.strides
    if length > 1 and stride < 1:
        raise ValueError(
            f"{vector.name} has a stride of {stride} elements; it must be positive: make it contiguous first"
        )
    return vector._replace(shape=(length, 1), strides=(stride if length > 1 else 1, 1))
