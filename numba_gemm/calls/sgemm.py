"""`sgemm`: read the arguments, and hand them to the owner of the call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from numba_gemm import ladder
from numba_gemm.auto import database
from numba_gemm.auto.choose import choose
from numba_gemm.auto.entry import Choice
from numba_gemm.calls import checks
from numba_gemm.device.epilogue import Epilogue
from numba_gemm.driver import outputs
from numba_gemm.driver.again import again_of
from numba_gemm.driver.operands import as_operand
from numba_gemm.driver.product import Admission, Operands, ThreadProducts
from numba_gemm.driver.streams import stream_handle
from numba_gemm.ladder import Version
from numba_gemm.problem import Problem
from numba_gemm.tile import Tile

_products = ThreadProducts()


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
    options = (requested.name if requested else database.revision(), finish, tile, trans_a, trans_b, pad)
    kind: Any = None
    if c is not None or beta == 0:
        try:
            kind = (a.shape, b.shape, None if c is None else c.shape, options)
            again = _products.again.get(kind)
        except (AttributeError, TypeError, RuntimeError):  # no array, or one without a plain shape
            kind = again = None
        if again is not None:
            done = again(a, b, c, bias, alpha, beta, handle)
            if done is not None:
                return done

    matrix_a, matrix_b = as_operand(a, "a", handle), as_operand(b, "b", handle)
    vector = None if bias is None else as_operand(bias, "bias", handle)
    if c is None and beta != 0:
        raise ValueError(f"beta is {beta}, which adds beta · c, but there is no c; pass one or beta=0")
    shape = checks.output_shape(matrix_a, matrix_b, trans_a, trans_b)
    given = c
    if c is None:
        device = checks.common_device([operand for operand in (matrix_a, matrix_b, vector) if operand is not None])
        c, matrix_c = outputs.new("c", shape, device)
    else:
        matrix_c = as_operand(c, "c", handle)
        checks.check_shape_of_output(matrix_c, matrix_a, matrix_b, shape)
    if vector is not None:
        checks.check_bias(vector, shape[-1])

    operands = Operands(matrix_a, matrix_b, matrix_c, vector)
    problem = Problem.of(matrix_a, matrix_b, matrix_c, trans_a=trans_a, trans_b=trans_b, bias=vector)
    asked = checks.arguments_given(
        alpha=alpha,
        beta=beta,
        batch=None if len(shape) == 2 else shape[0],
        trans_a=trans_a,
        trans_b=trans_b,
        bias=bias is not None,
        activation=activation is not None,
        epilogue=epilogue is not None,
    )
    admit = partial(_admit, operands, problem, requested, tile, finish, asked, pad)
    product = _products.launch(operands, problem, options, alpha, beta, handle, admit)
    if kind is not None:
        again = again_of(product, (a, b, given, bias), shape)
        if again is not None:
            _products.again[kind] = again
    return c


def _admit(
    operands: Operands,
    problem: Problem,
    requested: Version | None,
    tile: Tile | None,
    finish: Epilogue,
    asked: set[str],
    pad: bool,
) -> Admission:
    """Check the call, and choose what to do it with."""
    a, b, c, bias = operands
    checks.check_writable(c)
    for operand in (a, b, bias):
        if operand is not None:
            checks.check_disjoint(c, operand)
    device = checks.common_device(operands.present)
    picked = Choice(requested, tile or requested.default_tile) if requested else choose(device, problem.key, tile)
    checks.check_capabilities(picked.version, asked)
    used = checks.checked_tile(picked.version, picked.tile, device)
    if not pad:
        checks.check_whole(picked.version, used, a, b, c)
    return Admission(picked.version, used, finish, device)
