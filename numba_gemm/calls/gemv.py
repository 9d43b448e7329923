"""`gemv`: a matrix times a vector, at the speed of memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from numba_gemm import ladder
from numba_gemm.calls import checks
from numba_gemm.device.epilogue import Epilogue
from numba_gemm.driver import cuda_api
from numba_gemm.driver.admitted import Admitted, Products, layout_of
from numba_gemm.driver.operands import as_operand, overlap
from numba_gemm.driver.product import product_of
from numba_gemm.driver.streams import stream_handle
from numba_gemm.kernels.skinny import GEMV_TILE
from numba_gemm.problem import Operand, arrange

_products = Products()


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
    matrix = as_operand(a, "a", handle)
    if len(matrix.shape) != 2:
        raise ValueError(f"a has shape {matrix.shape}; gemv takes one matrix, with two dimensions")
    outputs, terms = reversed(matrix.shape) if trans_a else matrix.shape
    of_x = _as_column(as_operand(x, "x", handle), terms, matrix, trans_a)
    of_y = None if y is None else _as_column(as_operand(y, "y", handle), outputs, matrix, trans_a)
    if of_y is not None:
        _check_output(of_y, matrix, of_x)
    elif beta != 0:
        raise ValueError(f"beta is {beta}, which adds beta · y, but there is no y; pass one or beta=0")
    version = ladder.find("skinny")
    device = checks.common_device([operand for operand in (matrix, of_x, of_y) if operand is not None])
    tile = checks.checked_tile(version, GEMV_TILE, device)

    with cuda_api.on_device(device):
        if of_y is None:
            y = cuda.device_array(outputs, np.float32)
            of_y = _as_column(as_operand(y, "y", handle), outputs, matrix, trans_a)
        layout = layout_of(matrix, of_x, of_y, None, alpha, bool(trans_a))
        admitted = _products.get(layout)
        if admitted is None:
            arrangement = arrange(matrix, of_x, of_y, trans_a=trans_a, few_rows=True)
            product = product_of(version, tile, arrangement, Epilogue(), None, alpha, beta, _products.workspaces)
            admitted = Admitted(product, matrix, of_x, of_y, None)
            _products.add(layout, admitted)
        admitted.launch(matrix, of_x, of_y, None, alpha, beta, handle)
    return y


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


def _check_output(y: Operand, matrix: Operand, x: Operand) -> None:
    """Raises ValueError if y cannot be written, or is read at the same time."""
    if y.read_only:
        raise ValueError("y is read-only; the result cannot be written to it: pass a writable array")
    for operand in (matrix, x):
        if overlap(y, operand):
            raise ValueError(
                f"y (from {y.pointer:#x}) overlaps {operand.name} (from {operand.pointer:#x}), which is read while y "
                "is written; pass an array of its own"
            )
