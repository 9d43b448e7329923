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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
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


# What code uses ---------------------------------------------------------------------------------------


@dataclass
class _Use:
    """What code does with a value that it has a name for: the attributes that it takes, and what it does with those.

    It matters for modules: of them only what is used is compiled in, and may change the code.
    """

    attributes: dict[str, _Use] = field(default_factory=dict)
    #: It is also passed on, to where any attribute may be taken.
    whole: bool = False

    def of(self, module: types.ModuleType, names: tuple[str, ...]) -> Iterator[tuple[str, Any, _Use]]:
        """What is used of a module by code with these names: names, values and their uses."""
        uses = dict.fromkeys(names, _Use(whole=True)) if self.whole else self.attributes
        for name, use in uses.items():
            if hasattr(module, name):
                yield name, getattr(module, name), use

    def key(self, names: tuple[str, ...]) -> Any:
        """Equal for uses that are alike."""
        return names if self.whole else tuple((name, use.key(names)) for name, use in self.attributes.items())


_ANY = _Use(whole=True)

#: Bytecodes that fetch a value by name: from globals, and from the closure.
_FROM_GLOBALS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_FROM_CLOSURE = frozenset({"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"})
_ATTRIBUTE = frozenset({"LOAD_ATTR", "LOAD_METHOD"})


@dataclass
class _Names:
    """What a function uses by name."""

    globals: dict[str, _Use] = field(default_factory=dict)
    closure: dict[str, _Use] = field(default_factory=dict)
    #: Of anything, attributes too.
    all: tuple[str, ...] = ()


def _names_of(function: types.FunctionType) -> _Names:
    """Those in the code of a function and of those that it defines."""
    found = _Names(all=tuple(_names(function.__code__)))
    _note_names(function.__code__, found)
    return found


def _note_names(code: types.CodeType, found: _Names) -> None:
    use: _Use | None = None  # of the value that the instruction before fetched
    for instruction in dis.get_instructions(code):
        if instruction.opname == "EXTENDED_ARG":
            continue
        if use is not None and instruction.opname in _ATTRIBUTE:
            use = use.attributes.setdefault(instruction.argval, _Use())
            continue
        if use is not None:
            use.whole = True
        if instruction.opname in _FROM_GLOBALS:
            use = found.globals.setdefault(instruction.argval, _Use())
        elif instruction.opname in _FROM_CLOSURE:
            use = found.closure.setdefault(instruction.argval, _Use())
        else:
            use = None
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _note_names(constant, found)


def _names(code: types.CodeType) -> list[str]:
    """Global names and attributes in a function and in those that it defines."""
    names = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names += _names(constant)
    return names


def _closure(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Names and values of what a function has from the one around it."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:
            raise TypeError(f"the epilogue uses {name!r} from its closure, which has no value yet") from None


# The key ---------------------------------------------------------------------------------------------


def function_key(function: Callable[..., Any]) -> str:
    """A digest of all that decides what a function compiles to.

    That is its bytecode and constants, the values of its closure and defaults, and those of the globals
    that it names, functions among them in the same way. Two functions with the same key are the same code.

    Raises:
        TypeError: for a value that has no reliable description, or has no value yet.
    """
    digest = hashlib.sha256()
    try:
        for part in _Description().of(function, "", _ANY, ()):
            digest.update(part.encode())
            digest.update(b"\0")
    except RecursionError:
        raise TypeError(
            f"the epilogue {function!r} uses values or functions in each other, too many to follow"
        ) from None
    return digest.hexdigest()


class _Description:
    """Values as text."""

    def __init__(self) -> None:
        self._seen: dict[Any, int] = {}  # functions and modules, by what is used of them
        self._around: set[int] = set()  # the tuples and lists that the present value is in

    def of(self, value: Any, where: str, use: _Use, names: tuple[str, ...]) -> list[str]:
        """A value that the code around it, which has these names, calls `where`, and uses in this way."""
        options = getattr(value, "targetoptions", None)
        if options is not None and plain(value) is not value:  # a function already given to Numba
            fast = repr(options.get("fastmath"))
            return ["jit", fast, *map(str, _signatures(value)), *self.of(plain(value), where, use, names)]
        value = plain(value)
        if isinstance(value, types.FunctionType | types.ModuleType):
            place = (id(value), use.key(names) if isinstance(value, types.ModuleType) else ())
            if place in self._seen:  # recursion, or a second use
                return [f"again {self._seen[place]}"]
            self._seen[place] = len(self._seen)
        if isinstance(value, types.FunctionType):
            return self._function(value, where)
        if isinstance(value, types.ModuleType):
            parts = ["module", value.__name__]
            if value.__name__ not in _FIXED_MODULES:
                for name, attribute, below in use.of(value, names):
                    parts += [name, *self.of(attribute, f"{where}.{name}", below, names)]
            return parts
        if isinstance(value, types.CodeType):
            arguments = (value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount)
            starred = value.co_flags & _STARRED
            parts = ["code", value.co_code.hex(), f"{arguments} {starred}", *value.co_names, *value.co_varnames]
            for constant in value.co_consts:
                parts += self.of(constant, where, _ANY, names)
            return parts
        if isinstance(value, tuple | list):
            return self._items(value, where, names)
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
        called = f", as {where!r}" if where else ""
        raise TypeError(
            f"the epilogue uses {value!r}, of type {type(value).__name__}{called}; "
            "a kernel can hold numbers, strings, tuples, arrays and functions"
        )

    def _function(self, function: types.FunctionType, where: str) -> list[str]:
        called = _names_of(function)
        keywords = function.__kwdefaults__ and (*function.__kwdefaults__.items(),)
        parts = ["function"]
        for part in (function.__code__, function.__defaults__, keywords):
            parts += self.of(part, where or function.__name__, _ANY, called.all)
        for name, value in _closure(function):
            parts += self.of(value, name, called.closure.get(name, _ANY), called.all)
        for name, use in called.globals.items():
            if name in function.__globals__:
                parts += [name, *self.of(function.__globals__[name], name, use, called.all)]
        return parts

    def _items(self, values: Any, where: str, names: tuple[str, ...]) -> list[str]:
        if id(values) in self._around:
            raise TypeError(f"the epilogue uses {where!r}, a {type(values).__name__} that contains itself")
        self._around.add(id(values))
        parts = [type(values).__name__, str(len(values)), *getattr(values, "_fields", ())]
        for value in values:
            parts += self.of(value, where, _ANY, names)
        self._around.remove(id(values))
        return parts


def _signatures(jitted: Any) -> list[Any]:
    """Those that were given to Numba with a function: its arguments are converted to them."""
    return [] if jitted._can_compile else jitted.nopython_signatures


# The copy --------------------------------------------------------------------------------------------


def copy_of(function: Callable[..., Any]) -> Any:
    """A function with the same key, whose code, closure, defaults and globals are its own, as are those it calls."""
    made: dict[Any, Any] = {}
    if isinstance(function, types.FunctionType):
        return _copied_function(function, made)
    return _copied(function, _ANY, (), made)


def _copied(value: Any, use: _Use, names: tuple[str, ...], made: dict[Any, Any]) -> Any:
    """A value as far as it is described. `made` has what was copied before: once each, as in the original."""
    place = (id(value), use.key(names) if isinstance(value, types.ModuleType) else ())
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
        for name, attribute, below in use.of(value, names):
            setattr(copy, name, _copied(attribute, below, names, made))
        return copy
    if isinstance(value, tuple | list):
        items = [_copied(item, _ANY, names, made) for item in value]
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
    called = _names_of(copy)
    copy.__defaults__ = _copied(function.__defaults__, _ANY, called.all, made)
    copy.__kwdefaults__ = function.__kwdefaults__ and {
        name: _copied(value, _ANY, called.all, made) for name, value in function.__kwdefaults__.items()
    }
    for cell, (name, value) in zip(cells, _closure(function), strict=True):
        cell.cell_contents = _copied(value, called.closure.get(name, _ANY), called.all, made)
    for name, use in called.globals.items():
        if name in function.__globals__:
            copy.__globals__[name] = _copied(function.__globals__[name], use, called.all, made)
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
