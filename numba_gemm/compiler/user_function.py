"""A function of a user that is compiled into a kernel: a key of all that it uses, and a copy that nothing can change.

A kernel is made once for a key, and compiled for each device when it is first needed there. Until then the function, or
one that it calls, could get other code, and a closure or a global another value. So the kernel is made from a copy,
`copy_of`, of exactly that of which the key, `function_key`, speaks.
"""

from __future__ import annotations

import dis
import hashlib
import inspect
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from numba_gemm.compiler.target import SIMULATOR, device_function

#: Modules whose contents do not change between two calls.
_FIXED_MODULES = frozenset({"math", "cmath", "operator", "numpy", "numba", "numba.cuda"})

#: Flags of code: takes *arguments, takes **arguments.
_STARRED = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


def plain(function: Any) -> Any:
    """The Python function in one that was already given to Numba."""
    if SIMULATOR and type(function).__module__.startswith("numba.cuda.simulator"):
        return function.fn
    return getattr(function, "py_func", function)


#: Builtins that become one instruction, and what a longer function has: these letters in the name of a bytecode.
_SHORT_CALLS = frozenset({"abs", "max", "min", "float"})
_CALL, _LOOPS = "CALL", ("BACKWARD", "FOR_ITER", "JUMP_ABSOLUTE")


def is_long(function: Any) -> bool:
    """Whether a function calls others, or repeats something: then it is more than a few instructions.

    Of functions that are not written in Python nothing is known; Numba has an instruction for most.
    """
    code = getattr(plain(function), "__code__", None)
    if code is None:
        return False
    names = [instruction.opname for instruction in dis.get_instructions(code)]
    calls = any(_CALL in name for name in names) and not (set(_names(code)) <= _SHORT_CALLS and not code.co_freevars)
    return calls or any(loop in name for name in names for loop in _LOOPS)


# The key ---------------------------------------------------------------------------------------------


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
    if options is not None and plain(value) is not value:  # a function already given to Numba
        return [
            "jit",
            repr(options.get("fastmath")),
            *map(str, _signatures(value)),
            *_describe(plain(value), names, seen),
        ]
    value = plain(value)
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
        arguments = (value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount)
        starred = value.co_flags & _STARRED
        parts = ["code", value.co_code.hex(), f"{arguments} {starred}", *value.co_names, *value.co_varnames]
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


def _signatures(jitted: Any) -> list[Any]:
    """Those that were given to Numba with a function: its arguments are converted to them."""
    return [] if jitted._can_compile else jitted.nopython_signatures


# The copy --------------------------------------------------------------------------------------------


def copy_of(function: Callable[..., Any]) -> Any:
    """A function with the same key, whose code, closure, defaults and globals are its own, as are those it calls."""
    made: dict[Any, Any] = {}
    return _copied_function(function, made) if isinstance(function, types.FunctionType) else _copied(function, (), made)


def _copied(value: Any, names: tuple[str, ...], made: dict[Any, Any]) -> Any:
    """A value as far as `_describe` describes it. `made` has what was copied before: once each, as in the original."""
    place = (id(value), names if isinstance(value, types.ModuleType) else ())
    if place in made:
        return made[place]
    if isinstance(value, types.FunctionType):
        # Numba compiles no plain function that another one calls, but knows some as what they are, as `libdevice`'s.
        return device_function(_copied_function(value, made)) if SIMULATOR else value
    if plain(value) is not value:
        made[place] = _jitted_like(value, _copied_function(plain(value), made))
        return made[place]
    if isinstance(value, types.ModuleType) and value.__name__ not in _FIXED_MODULES:
        copy = made[place] = types.ModuleType(value.__name__)
        for name in names:
            if hasattr(value, name):
                setattr(copy, name, _copied(getattr(value, name), names, made))
        return copy
    if isinstance(value, tuple | list):
        items = [_copied(item, names, made) for item in value]
        return getattr(type(value), "_make", type(value))(items)
    if isinstance(value, np.ndarray):
        return value.copy(order="K")
    return value


def _copied_function(function: types.FunctionType, made: dict[Any, Any]) -> types.FunctionType:
    place = (id(function), ())
    if place in made:
        return made[place]
    cells = tuple(types.CellType() for _ in function.__closure__ or ())
    copy = made[place] = types.FunctionType(function.__code__, {}, function.__name__, None, cells)
    copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
    copy.__dict__.update(function.__dict__)  # a decorator leaves the signature there
    names = tuple(_names(copy.__code__))
    copy.__defaults__ = _copied(function.__defaults__, names, made)
    copy.__kwdefaults__ = function.__kwdefaults__ and {
        name: _copied(value, names, made) for name, value in function.__kwdefaults__.items()
    }
    for cell, original in zip(cells, function.__closure__ or (), strict=True):
        cell.cell_contents = _copied(original.cell_contents, names, made)
    for name in names:
        if name in function.__globals__:
            copy.__globals__[name] = _copied(function.__globals__[name], names, made)
    return copy


def _jitted_like(jitted: Any, function: types.FunctionType) -> Any:
    """A function given to Numba in the same way as another one."""
    options = getattr(jitted, "targetoptions", None)
    if options is None:  # the simulator's
        return type(jitted)(function, device=jitted._device, fastmath=jitted._fastmath)
    signatures = _signatures(jitted)
    if signatures and not hasattr(jitted, "compile_device"):
        return jitted  # for the CPU alone: kernels cannot call it
    copy = type(jitted)(function, targetoptions=options)
    for signature in signatures:
        copy.compile_device(signature.args, signature.return_type)
    if signatures:
        copy.disable_compile()
    return copy
