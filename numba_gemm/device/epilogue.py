"""What happens to a sum of products on its way to C: scaling, adding, bias, activation, a user's function.

    x = alpha · sum + beta · C + bias,  then activation,  then epilogue

`make_epilogue` puts together one device function for a kernel. Functions of a user are device functions
like any other: compiled into the kernel, and part of its key, see `user_function`.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from numba import float32, int64, uint32
from numba.core.errors import NumbaError

from numba_gemm.compiler.compiling import COMPILING
from numba_gemm.compiler.no_exceptions import nan_if_raised
from numba_gemm.compiler.outline import outline4
from numba_gemm.compiler.target import SIMULATOR, device_function
from numba_gemm.compiler.user_function import copy_of, function_key, is_long, plain
from numba_gemm.device.activation import ACTIVATIONS, LONG


@dataclass(frozen=True)
class Epilogue:
    """What decides the code of an epilogue. Two that are equal compile to the same code."""

    bias: bool = False
    activation: str | None = None
    #: Key of the user's function, and the copy of it that the key is of; the copy is no part of the comparison.
    key: str | None = None
    function: Callable[..., Any] | None = field(default=None, compare=False, repr=False)
    #: Whether the kernel computes the transpose of what the user sees: rows are the user's columns.
    transposed: bool = False


def make_epilogue(epilogue: Epilogue) -> Any:
    """Device function (sum, old, row, column, bias, alpha, beta) → value of C[row, column].

    `old` is the present value of C, used only where beta is not 0. `bias` is an (N, stride) array whose
    first column counts.
    """
    combine, apply = _make_combine(epilogue), _make_apply(epilogue)
    activate = _activation(epilogue)

    @device_function
    def finish(total, old, row, column, bias, alpha, beta):
        return apply(activate(combine(total, old, row, column, bias, alpha, beta)), row, column)

    return finish


def make_epilogue4(epilogue: Epilogue) -> Any:
    """Device function (sums, old, row, columns, bias, alpha, beta) → values of C in four columns of a row.

    As `make_epilogue`, with tuples of four, and what is long in it as a function that is called.
    """
    if is_called(epilogue):
        return _make_with_call(epilogue)
    finish = make_epilogue(epilogue)

    @device_function
    def finish4(sums, old, row, columns, bias, alpha, beta):
        return (
            finish(sums[0], old[0], row, columns[0], bias, alpha, beta),
            finish(sums[1], old[1], row, columns[1], bias, alpha, beta),
            finish(sums[2], old[2], row, columns[2], bias, alpha, beta),
            finish(sums[3], old[3], row, columns[3], bias, alpha, beta),
        )

    return finish4


def is_called(epilogue: Epilogue) -> bool:
    """Whether a part of it is too long to be inlined for every output."""
    return epilogue.activation in LONG or _function_is_called(epilogue.function)


def _function_is_called(function: Callable[..., Any] | None) -> bool:
    """Of a user's function. Where it takes its position, it is mostly a choice; it is inlined."""
    return function is not None and not takes_position(function) and is_long(function)


def _make_with_call(epilogue: Epilogue) -> Any:
    """`make_epilogue4` with one call for four activations, and for the user's function with them if that is long."""
    combine, activate = _make_combine(epilogue), _activation(epilogue)
    if _function_is_called(epilogue.function):
        function, apply = _user_function(epilogue.function), _make_apply(replace(epilogue, function=None))

        @device_function
        def activate_and_apply(x):
            return float32(function(activate(x), uint32(0), uint32(0)))

        call4 = outline4(activate_and_apply)
    else:
        call4, apply = outline4(activate), _make_apply(epilogue)

    @device_function
    def finish4(sums, old, row, columns, bias, alpha, beta):
        x, y, z, w = call4(
            combine(sums[0], old[0], row, columns[0], bias, alpha, beta),
            combine(sums[1], old[1], row, columns[1], bias, alpha, beta),
            combine(sums[2], old[2], row, columns[2], bias, alpha, beta),
            combine(sums[3], old[3], row, columns[3], bias, alpha, beta),
        )
        return (
            apply(x, row, columns[0]),
            apply(y, row, columns[1]),
            apply(z, row, columns[2]),
            apply(w, row, columns[3]),
        )

    return finish4


def _activation(epilogue: Epilogue) -> Any:
    return ACTIVATIONS[epilogue.activation] if epilogue.activation else _identity


def _make_combine(epilogue: Epilogue) -> Any:
    """Device function for what comes before the activation."""
    BIAS, TRANSPOSED = epilogue.bias, epilogue.transposed

    @device_function
    def combine(total, old, row, column, bias, alpha, beta):
        x = alpha * total
        if beta != float32(0):
            x += beta * old
        if BIAS:
            x += bias[row if TRANSPOSED else column, 0]
        return x

    return combine


def _make_apply(epilogue: Epilogue) -> Any:
    """Device function for what comes after it: the user's function."""
    TRANSPOSED = epilogue.transposed
    function = _user_function(epilogue.function)

    @device_function
    def apply(x, row, column):
        return float32(function(x, column, row) if TRANSPOSED else function(x, row, column))

    return apply


@device_function
def _identity(x):
    return x


def _user_function(function: Callable[..., Any] | None) -> Any:
    """The user's f(x) or f(x, row, column) as a device function of three arguments, that raises nothing."""
    if function is None:

        @device_function
        def nothing(x, row, column):
            return x

        return nothing
    return nan_if_raised(_rounded(function))


def _rounded(function: Callable[..., Any]) -> Any:
    """Device function (x, row, column) → what the user's function makes of it, as float32."""
    inner = device_function(function) if isinstance(function, types.FunctionType) else function
    if takes_position(function):

        @device_function
        def of_position(x, row, column):
            return float32(inner(x, int64(row), int64(column)))  # signed, so that row - col may be negative

        return of_position

    @device_function
    def of_value(x, row, column):
        return float32(inner(x))

    return of_value


def takes_position(function: Callable[..., Any]) -> bool:
    """Whether an epilogue is f(x, row, col) rather than f(x).

    Raises:
        TypeError: if it takes neither one nor three arguments.
    """
    python = plain(function)
    try:
        signature = inspect.signature(python)
    except (TypeError, ValueError) as error:
        raise TypeError(f"epilogue {function!r} has no signature that can be read; pass a Python function") from error
    for count in (1, 3):
        try:
            signature.bind(*range(count))
        except TypeError:
            continue
        return count == 3
    raise TypeError(f"epilogue {python.__name__}{signature} must take (x) or (x, row, col)")


#: The copy of the function of each key: what kernels were, and will be, made from.
_copies: dict[str, Callable[..., Any]] = {}


def snapshot(function: Callable[..., Any]) -> tuple[str, Callable[..., Any]]:
    """The key of a function as it is now, and the copy that kernels are made from: of it, or of one with the same key.

    Raises:
        TypeError: for a function that takes other arguments, or holds what a kernel cannot.
    """
    key = function_key(function)
    known = _copies.get(key)
    if known is None:
        takes_position(function)
        copy = copy_of(function)
        key = function_key(copy)  # another thread may have changed the function since
        known = _copies.setdefault(key, copy)
    return key, known


def require_compilable(function: Callable[..., Any]) -> None:
    """Compile a function by itself, which takes milliseconds.

    Inside a kernel an error would be found, and reported, once for each of the nested functions around it,
    twice in each: minutes.

    Raises:
        TypeError: if Numba cannot compile it.
    """
    if SIMULATOR:
        return
    try:
        with COMPILING:
            _rounded(function).compile_device((float32, uint32, uint32))
    except (NumbaError, NotImplementedError, TypeError) as error:
        raise TypeError(
            f"epilogue {function.__name__} cannot be compiled for the GPU: {error}\n"
            "A function that it calls has to be one of Python or NumPy that Numba knows, or given to "
            "numba.cuda.jit(device=True)"
        ) from error
