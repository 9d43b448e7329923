"""What happens to a sum of products on its way to C: scaling, adding, bias, activation, a user's function.

    x = alpha · sum + beta · C + bias,  then activation,  then epilogue

`make_epilogue` puts together one device function for a kernel. Functions of a user are device functions
like any other: compiled into the kernel, and part of its key, see `function_key`.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import float32, int64, uint32
from numba.core.errors import NumbaError

from numba_gemm.device.target import SIMULATOR, device_function

_SQRT_HALF = np.float32(math.sqrt(0.5))
_TWO_SQRT_2_OVER_PI = np.float32(2 * math.sqrt(2 / math.pi))
_CUBIC = np.float32(0.044715)
_HALF, _ONE = np.float32(0.5), np.float32(1)


def relu(x):
    """max(x, 0); NaN stays NaN."""
    return float32(0) if x < float32(0) else x


def gelu(x):
    """The Gaussian error linear unit x · Φ(x), by erfc, which does not cancel where Φ is small."""
    return float32(x * _HALF * float32(math.erfc(-x * _SQRT_HALF)))


def gelu_tanh(x):
    """The tanh approximation of gelu, ½x(1 + tanh u); 1 + tanh u = 2/(1 + exp(−2u)) does not cancel."""
    return float32(x / (_ONE + _exp(-_TWO_SQRT_2_OVER_PI * (x + _CUBIC * x * x * x))))


def silu(x):
    """The sigmoid linear unit x / (1 + exp(−x))."""
    return float32(x / (_ONE + _exp(-x)))


if SIMULATOR:

    def _exp(x):
        """Like the GPU's: overflows to infinity without complaint."""
        with np.errstate(over="ignore"):
            return np.exp(np.float32(x))
else:

    @device_function
    def _exp(x):
        return float32(math.exp(x))


ACTIVATIONS: dict[str, Callable[[Any], Any]] = {"relu": relu, "gelu": gelu, "gelu_tanh": gelu_tanh, "silu": silu}


@dataclass(frozen=True)
class Epilogue:
    """What decides the code of an epilogue. Two that are equal compile to the same code."""

    bias: bool = False
    activation: str | None = None
    #: Key of the user's function, see `function_key`; the function itself is no part of the comparison.
    key: str | None = None
    function: Callable[..., Any] | None = field(default=None, compare=False, repr=False)
    #: Whether the kernel computes the transpose of what the user sees: rows are the user's columns.
    transposed: bool = False


def make_epilogue(epilogue: Epilogue) -> Any:
    """Device function (sum, old, row, column, bias, alpha, beta) → value of C[row, column].

    `old` is the present value of C, used only where beta is not 0. `bias` is an (N, stride) array whose
    first column counts.
    """
    BIAS = epilogue.bias
    TRANSPOSED = epilogue.transposed
    activate = device_function(ACTIVATIONS[epilogue.activation] if epilogue.activation else _identity)
    apply = _user_function(epilogue.function)

    @device_function
    def finish(total, old, row, column, bias, alpha, beta):
        x = alpha * total
        if beta != float32(0):
            x += beta * old
        if BIAS:
            x += bias[row if TRANSPOSED else column, 0]
        x = activate(x)
        return float32(apply(x, column, row) if TRANSPOSED else apply(x, row, column))

    return finish


def _identity(x):
    return x


def _user_function(function: Callable[..., Any] | None) -> Any:
    """The user's f(x) or f(x, row, column) as a device function of three arguments."""
    if function is None:

        @device_function
        def nothing(x, row, column):
            return x

        return nothing
    inner = device_function(function) if isinstance(function, types.FunctionType) else function
    if takes_position(function):

        @device_function
        def of_position(x, row, column):
            return inner(x, int64(row), int64(column))  # signed, so that row - col may be negative

        return of_position

    @device_function
    def of_value(x, row, column):
        return inner(x)

    return of_value


def takes_position(function: Callable[..., Any]) -> bool:
    """Whether an epilogue is f(x, row, col) rather than f(x).

    Raises:
        TypeError: if it takes neither one nor three arguments.
    """
    plain = _plain(function)
    try:
        signature = inspect.signature(plain)
    except (TypeError, ValueError) as error:
        raise TypeError(f"epilogue {function!r} has no signature that can be read; pass a Python function") from error
    for count in (1, 3):
        try:
            signature.bind(*range(count))
        except TypeError:
            continue
        return count == 3
    raise TypeError(f"epilogue {plain.__name__}{signature} must take (x) or (x, row, col)")


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
        _user_function(function).compile_device((float32, uint32, uint32))
    except (NumbaError, NotImplementedError, TypeError) as error:
        raise TypeError(
            f"epilogue {function.__name__} cannot be compiled for the GPU: {error}\n"
            "A function that it calls has to be one of Python or NumPy that Numba knows, or given to "
            "numba.cuda.jit(device=True)"
        ) from error


def _plain(function: Any) -> Any:
    """The Python function in one that was already given to Numba."""
    if SIMULATOR and type(function).__module__.startswith("numba.cuda.simulator"):
        return function.fn
    return getattr(function, "py_func", function)


#: Modules whose contents do not change between two calls.
_FIXED_MODULES = frozenset({"math", "cmath", "operator", "numpy", "numba", "numba.cuda"})


def function_key(function: Callable[..., Any]) -> str:
    """A digest of all that decides what a function compiles to.

    That is its bytecode and constants, the values of its closure and defaults, and those of the globals
    that it names, functions among them in the same way. Two functions with the same key are the same code.

    Raises:
        TypeError: for a value that has no reliable description.
    """
    digest = hashlib.sha256()
    for part in _describe(function, (), {}):
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()


def _describe(value: Any, names: tuple[str, ...], seen: dict[Any, int]) -> list[str]:
    """A value as text. `names` are those that the code around it uses: what it may look up in a module."""
    options = getattr(value, "targetoptions", None)
    if options is not None:  # a function already given to Numba
        return ["jit", repr(options.get("fastmath")), *_describe(_plain(value), names, seen)]
    value = _plain(value)
    if isinstance(value, types.FunctionType | types.ModuleType):
        place = (id(value), names if isinstance(value, types.ModuleType) else ())
        if place in seen:  # recursion, or a second use
            return [f"again {seen[place]}"]
        seen[place] = len(seen)
    if isinstance(value, types.FunctionType):
        names = tuple(_names(value.__code__))
        parts = ["function"]
        for part in (value.__code__, value.__defaults__, value.__kwdefaults__ and (*value.__kwdefaults__.items(),)):
            parts += _describe(part, names, seen)
        for cell in value.__closure__ or ():
            parts += _describe(cell.cell_contents, names, seen)
        for name in names:
            if name in value.__globals__:
                parts += [name, *_describe(value.__globals__[name], names, seen)]
        return parts
    if isinstance(value, types.ModuleType):
        parts = ["module", value.__name__]
        if value.__name__ not in _FIXED_MODULES:
            for name in names:  # `settings.SCALE`: the attribute's value is compiled in
                if hasattr(value, name):
                    parts += [name, *_describe(getattr(value, name), names, seen)]
        return parts
    if isinstance(value, types.CodeType):
        parts = ["code", value.co_code.hex(), *value.co_names, *value.co_varnames]
        for constant in value.co_consts:
            parts += _describe(constant, names, seen)
        return parts
    if isinstance(value, tuple | list):
        fields = getattr(value, "_fields", ())
        items = [part for item in value for part in _describe(item, names, seen)]
        return [type(value).__name__, str(len(value)), *fields, *items]
    if isinstance(value, types.BuiltinFunctionType | np.ufunc) or (
        isinstance(value, type) and value.__module__ in ("builtins", "numpy")
    ):
        return ["named", f"{value.__module__ if hasattr(value, '__module__') else ''}.{value.__name__}"]
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return ["array", str(value.dtype), str(value.shape), hashlib.sha256(value.tobytes()).hexdigest()]
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | np.generic | frozenset):
        return [type(value).__name__, repr(value)]
    if type(value).__module__.startswith(("numba.", "numba_cuda.")):  # types such as float32
        return ["numba", repr(value)]
    raise TypeError(
        f"the epilogue uses {value!r}, of type {type(value).__name__}, from its closure or globals; "
        "a kernel can hold numbers, strings, tuples, arrays and functions"
    )


def _names(code: types.CodeType) -> list[str]:
    """Global names and attributes in a function and in those that it defines."""
    names = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names += _names(constant)
    return names
