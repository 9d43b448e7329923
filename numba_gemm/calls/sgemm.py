"""`sgemm`: validate, choose, launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda

from numba_gemm import ladder
from numba_gemm.auto import database
from numba_gemm.calls import checks
from numba_gemm.driver import cuda_api, multiply
from numba_gemm.driver.admitted import Admitted, Products, layout_of
from numba_gemm.driver.operands import as_operand, wait_for_producers
from numba_gemm.driver.product import product_of
from numba_gemm.driver.repeat import repeat_of
from numba_gemm.driver.streams import stream_handle
from numba_gemm.problem import Operand, arrange
from numba_gemm.tile import Tile

_products = Products()


def sgemm(
    a: Any,
    b: Any,
    c: Any = None,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    trans_a: bool = False,
    trans_b: bool = False,
    version: int | str = "auto",
    bias: Any = None,
    activation: str | None = None,
    epilogue: Callable[..., Any] | None = None,
    pad: bool = True,
    tile: Tile | None = None,
    stream: Any = None,
) -> Any:
    """C = epilogue(activation(alpha · op(A)·op(B) + beta · C + bias)) in float32, in GPU memory. Asynchronous.

    Args:
        a: (M, K) float32, or (P, M, K) for a batch: Numba, PyTorch, CuPy or JAX, or anything with
            `__cuda_array_interface__` or `__dlpack__`. One of the last two dimensions has unit stride.
        b: (K, N) or (P, K, N) float32. A 2-D operand, or a batch of one, is shared by the whole batch.
        c: (M, N) or (P, M, N) float32, written in place and returned. If absent, a new Numba device array.
        alpha, beta: scalars, used as float32. `beta == 0` never reads C, `alpha == 0` never reads A or B.
        trans_a, trans_b: op(X) = Xᵀ; no copy is made.
        version: number or name of a rung or detour, or "auto" for the fastest.
        bias: (N,) float32, added to every row.
        activation: None, "relu", "gelu", "gelu_tanh" or "silu".
        epilogue: a Python function f(x) or f(x, row, col), compiled into the kernel.
        pad: rungs 2 to 5 work on whole tiles of contiguous, aligned memory. True: other operands are
            copied, padded with zeros, into scratch on the device. False: they are a ValueError. Rungs from 6 on
            take everything as it is.
        tile: a `Tile` to use instead of the version's default.
        stream: a Numba, cuda.core, PyTorch or CuPy stream, anything with `__cuda_stream__`, or a handle;
            the default stream if absent. Work is ordered after that of the arrays' producers.

    Rungs 1 to 5 and the detours compute A·B of two matrices; `VERSIONS` says what each can do.

    Returns:
        `c`, or a new Numba device array.

    Raises:
        TypeError: an operand that is not float32 in GPU memory, an option of the wrong type.
        ValueError: shapes that do not fit, an unknown version, an option that the version has no
            capability for, a tile that breaks a constraint, a `c` that is read-only or overlaps.
        RuntimeError: a device below the version's compute capability.
        All of them come before anything is launched or written.
    """
    alpha, beta = checks.scalar("alpha", alpha), checks.scalar("beta", beta)
    checks.check_flag("trans_a", trans_a)
    checks.check_flag("trans_b", trans_b)
    checks.check_flag("pad", pad)
    checks.check_tile_type(tile)
    finish = checks.epilogue_of(bias is not None, activation, epilogue)
    requested = None if version == "auto" else ladder.find(version)
    handle = stream_handle(stream)

    # What "auto" stands for may change when this process has tuned.
    options = (requested.name if requested else database.revision(), finish, tile, trans_a, trans_b)
    if bias is None and c is not None:
        repeat = _products.get_repeat(a, b, c, options)
        if repeat is not None and repeat(a, b, c, alpha, beta, handle):
            return c

    matrix_a, matrix_b = as_operand(a, "a", handle), as_operand(b, "b", handle)
    vector = None if bias is None else as_operand(bias, "bias", handle)
    if c is None:
        if beta != 0:
            raise ValueError(f"beta is {beta}, which adds beta · c, but there is no c; pass one or beta=0")
        c = _new_output(matrix_a, matrix_b, vector, trans_a, trans_b)
    matrix_c = as_operand(c, "c", handle)

    # A layout that this thread has launched before needs no second look, only the places in memory do.
    known = _products.get(layout_of(matrix_a, matrix_b, matrix_c, vector, alpha, options))
    if known is not None and known.may_launch(matrix_a, matrix_b, matrix_c, vector):
        with cuda_api.on_device(matrix_c.device or 0):
            known.launch(matrix_a, matrix_b, matrix_c, vector, alpha, beta, handle)
        if vector is None:
            repeat = repeat_of(known, (a, b, c), (matrix_a, matrix_b, matrix_c))
            if repeat is not None:
                _products.add_repeat(a, b, c, options, repeat)
        return c

    shape = checks.shape_of(matrix_a, matrix_b, trans_a, trans_b)
    checks.check_output(matrix_c, matrix_a, matrix_b, shape)
    if vector is not None:
        checks.check_bias(vector, shape.n, matrix_c)
    operands = [operand for operand in (matrix_a, matrix_b, matrix_c, vector) if operand is not None]
    device = checks.common_device(operands)

    picked = checks.choice(requested, tile, device, (matrix_a, matrix_b, matrix_c), trans_a, trans_b)
    chosen = picked.version
    given = checks.arguments_given(
        alpha=alpha,
        beta=beta,
        batch=shape.batch,
        trans_a=trans_a,
        trans_b=trans_b,
        bias=bias is not None,
        activation=activation is not None,
        epilogue=epilogue is not None,
    )
    checks.check_capabilities(chosen, given)
    used_tile = checks.checked_tile(chosen, picked.tile, device)
    if not pad:
        checks.check_whole(chosen, used_tile, matrix_a, matrix_b, matrix_c)

    with cuda_api.on_device(device):
        if chosen.takes_variants:
            arrangement = arrange(
                *(checks.shared_matrix(matrix_a), checks.shared_matrix(matrix_b), matrix_c),
                trans_a=trans_a,
                trans_b=trans_b,
                few_rows=chosen.few_rows,
            )
            workspaces = _products.workspaces
            product = product_of(chosen, used_tile, arrangement, finish, vector, alpha, beta, workspaces)
            admitted = Admitted(product, matrix_a, matrix_b, matrix_c, vector)
            _products.add(layout_of(matrix_a, matrix_b, matrix_c, vector, alpha, options), admitted)
            admitted.launch(matrix_a, matrix_b, matrix_c, vector, alpha, beta, handle)
        else:
            wait_for_producers(operands, handle)
            multiply.multiply(chosen, used_tile, matrix_a, matrix_b, matrix_c, handle)
    return c


def _new_output(a: Operand, b: Operand, bias: Operand | None, trans_a: bool, trans_b: bool) -> Any:
    """A new array for their product, on the device that they are on.

    Raises:
        ValueError: for shapes that do not fit, or operands on different devices.
    """
    shape = checks.shape_of(a, b, trans_a, trans_b)
    device = checks.common_device([operand for operand in (a, b, bias) if operand is not None])
    with cuda_api.on_device(device):
        return cuda.device_array(shape.of_c, np.float32)
