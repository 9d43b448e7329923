"""Run one block of a kernel as plain Python, all threads in lock step, and record every access to an array.

The functions that run are the kernel's own, with its constants, so that what is recorded cannot drift from the code.
Only the names that they look up are exchanged: `cuda` for a block whose `threadIdx` holds the numbers of all threads
at once, arrays for ones that record, and the helpers of `numba_gemm.device` that become single instructions for the
accesses which these make. An expression is evaluated once for all threads, as a warp executes one instruction for its
32 threads; so each recorded access is one memory instruction, with an address for each thread.

A branch that all threads take the same way is taken. Where they disagree, the block is run again for the threads of
either side alone, and what both do is put together by line and number of times. Data are computed too, but then no
side sees what the other one wrote: addresses must not depend on data.

It works in any process: compiler, GPU and Numba's simulator are not involved. Of `cuda`, a kernel may use thread and
block indices, shared and local arrays, and `syncthreads`; of the device helpers, those that are plain Python or have a
stand-in here.
"""

from __future__ import annotations

import builtins
import inspect
import linecache
import operator
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from types import CellType, CodeType, FrameType, FunctionType, SimpleNamespace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from numba import cuda

from numba_gemm.compiler.target import SIMULATOR
from numba_gemm.device import async_copy, batch, shared_memory, vector

Space = Literal["global", "shared"]
#: A copy by cp.async is two accesses that are one instruction: a "copy" in global and one in shared memory.
Kind = Literal["read", "write", "copy"]

#: Stands in `Access.starts` for a thread that takes no part.
NOT_ACCESSED = -1

_ASSIGNMENT = re.compile(r"\s*(\w+)\s*=[^=]")


@dataclass(frozen=True)
class Access:
    """One access of all threads of a block at the same time.

    Attributes:
        array: name of the array: the kernel's parameter, or the variable that shared memory was assigned to.
        space: whether it is in global or in shared memory.
        kind: "read", "write", or "copy" for both sides of a cp.async.
        site: file and line of the source, "v4_vectorized.py:84".
        floats: neighbouring floats that each thread accesses: 1, or 4 where the source says 16 bytes.
        epoch: number of barriers passed before.
        starts: for each thread the index of its first float in the array's memory, or `NOT_ACCESSED`.

    """

    array: str
    space: Space
    kind: Kind
    site: str
    floats: int
    epoch: int
    starts: npt.NDArray[np.int64] = field(repr=False)

    def with_threads_of(self, other: Access) -> Access:
        """The same access with those threads, too, that take part in `other` alone."""
        return replace(self, starts=np.maximum(self.starts, other.starts))


@dataclass(frozen=True)
class Trace:
    """What one block did, in the order of the source."""

    threads: int
    barriers: int
    #: Whether threads took different branches, so that what was written to the arrays means nothing.
    diverged: bool
    accesses: tuple[Access, ...] = field(repr=False)


def trace(
    kernel: Any,
    arguments: Sequence[Any],
    *,
    block: Sequence[int],
    grid: Sequence[int] = (1,),
    block_index: Sequence[int] = (0,),
    shared_bytes: int = 0,
) -> Trace:
    """Run block `block_index` of a launch `kernel[grid, block, 0, shared_bytes](*arguments)`.

    Args:
        kernel: what `@cuda.jit` returned, on a GPU machine or not, or in the simulator.
        arguments: NumPy float32 arrays, each axis but the last with any positive stride, and numbers. What the block
            writes is written to the arrays.
        block, grid, block_index: threads, blocks, and the block's place, as (x, y, z); what is left out is 1, or 0.
        shared_bytes: dynamic shared memory.

    Raises:
        IndexError: for an access outside an array's memory.
        ValueError: for a 16-byte access to a place that is not a multiple of 16 bytes.

    """
    dimensions = _three(block, 1)
    threads = int(np.prod(dimensions))
    x, y, z = (np.ravel(axis, order="F") for axis in np.indices(dimensions, np.uint32))
    launch = _Launch(kernel, arguments, dimensions, _three(grid, 1), _three(block_index, 0), shared_bytes, (x, y, z))
    return launch.run(np.arange(threads))


def _three(sizes: Sequence[int], rest: int) -> tuple[int, int, int]:
    x, y, z = (*sizes, rest, rest)[:3]
    return x, y, z


# Threads ---------------------------------------------------------------------------------------------


class _Divergence(Exception):  # noqa: N818 - no error: control flow
    """Some threads take a branch and some do not; `taken` says which do."""

    def __init__(self, taken: npt.NDArray[np.bool_]) -> None:
        self.taken = taken


class _Lanes(np.ndarray):
    """One value for each thread. As a condition it has to be the same for all."""

    def __bool__(self) -> bool:
        values = np.asarray(self, bool)
        if values.any() and not values.all():
            raise _Divergence(values)
        return bool(values[0])

    def __index__(self) -> int:
        values = np.asarray(self)
        if (values != values[0]).any():
            raise _Divergence(values == values[0])
        return int(values[0])


def _lanes(values: npt.NDArray[Any]) -> _Lanes:
    return values.view(_Lanes)


@dataclass(frozen=True)
class _Launch:
    """What is launched; `run` executes some threads of one block of it."""

    kernel: Any
    arguments: Sequence[Any]
    block: tuple[int, int, int]
    grid: tuple[int, int, int]
    block_index: tuple[int, int, int]
    shared_bytes: int
    #: Coordinates of all threads of the block, along x, y and z.
    coordinates: tuple[npt.NDArray[np.uint32], ...]

    def run(self, threads: npt.NDArray[np.intp]) -> Trace:
        """What those threads of the block do."""
        recorder = _Recorder(threads, self.coordinates[0].size)
        function = _Rebinder(recorder, self._cuda(recorder, threads)).rebound(self.kernel.py_func)
        names = inspect.signature(self.kernel.py_func).parameters
        arguments = [
            recorder.argument(name, value) if isinstance(value, np.ndarray) else value
            for name, value in zip(names, self.arguments, strict=True)
        ]
        try:
            function(*arguments)
        except _Divergence as divergence:
            taken = divergence.taken
        else:
            return Trace(len(threads), recorder.barriers, False, tuple(recorder.accesses))
        return _joined(self.run(threads[taken]), self.run(threads[~taken]))

    def _cuda(self, recorder: _Recorder, threads: npt.NDArray[np.intp]) -> Any:
        """What the kernel finds under the name `cuda`."""
        x, y, z = (_lanes(axis[threads]) for axis in self.coordinates)

        def place(sizes: tuple[int, int, int]) -> Any:
            return SimpleNamespace(**dict(zip("xyz", sizes, strict=True)))

        return SimpleNamespace(
            threadIdx=SimpleNamespace(x=x, y=y, z=z),
            blockIdx=place(self.block_index),
            blockDim=place(self.block),
            gridDim=place(self.grid),
            shared=SimpleNamespace(array=lambda shape, *_: recorder.shared(shape, self.shared_bytes)),
            local=SimpleNamespace(array=lambda shape, dtype: _Local(len(threads), shape, dtype.scalar)),
            syncthreads=recorder.barrier,
        )


def _joined(*sides: Trace) -> Trace:
    """What disjoint sets of threads do; the same line for the same time is one access again."""
    together: dict[tuple[Any, ...], Access] = {}
    for side in sides:
        times: Counter[tuple[Any, ...]] = Counter()
        for access in side.accesses:
            what = (access.array, access.kind, access.site, access.floats, access.epoch)
            key = (*what, times[what])
            times[what] += 1
            other = together.get(key)
            together[key] = other.with_threads_of(access) if other else access
    return Trace(
        sum(side.threads for side in sides), max(side.barriers for side in sides), True, tuple(together.values())
    )


# Arrays ----------------------------------------------------------------------------------------------


class _Local:
    """An array of each thread's own, in registers: nothing to record."""

    def __init__(self, threads: int, shape: int | tuple[int, ...], dtype: type[np.generic]) -> None:
        shape = (shape,) if isinstance(shape, int) else shape
        self._values = np.zeros((threads, *shape), dtype)
        self._own = np.arange(threads)

    def _index(self, index: Any) -> tuple[Any, ...]:
        return (self._own, *(index if isinstance(index, tuple) else (index,)))

    def __getitem__(self, index: Any) -> _Lanes:
        return _lanes(self._values[self._index(index)])

    def __setitem__(self, index: Any, value: Any) -> None:
        self._values[self._index(index)] = value


@dataclass(frozen=True)
class _Recorded:
    """An array whose accesses are recorded: a view of `memory` from element `offset` on, which may differ by thread."""

    recorder: _Recorder
    name: str
    space: Space
    memory: npt.NDArray[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: Any = 0

    def __getitem__(self, index: Any) -> _Lanes:
        return _lanes(self.memory[self.record(index, "read", 1)])

    def __setitem__(self, index: Any, value: Any) -> None:
        self.memory[self.record(index, "write", 1)] = value

    def moved(self, elements: Any) -> _Recorded:
        """The same shape and strides, `elements` further on."""
        offset = self.offset + np.asarray(elements).astype(np.int64)
        return replace(self, offset=offset)

    def record(self, index: Any, kind: Kind, floats: int, active: Any = True) -> npt.NDArray[np.int64]:
        """Record an access to `floats` elements by the threads that are `active`; the index of each first element."""
        indices = index if isinstance(index, tuple) else (index,)
        places = (np.asarray(i).astype(np.int64) * stride for i, stride in zip(indices, self.strides, strict=True))
        starts = np.broadcast_to(sum(places, np.asarray(self.offset)), (len(self.recorder.threads),))
        used = starts[np.broadcast_to(active, starts.shape)]
        site = _site()
        if used.size and (used.min() < 0 or used.max() + floats > self.memory.size):
            raise IndexError(
                f"{site}: {kind} of elements {used.min()} … {used.max() + floats - 1} of {self.name}, "
                f"which has {self.memory.size}"
            )
        if (used % floats).any():
            raise ValueError(f"{site}: {kind} of {floats} elements of {self.name} at a place that is no multiple of it")
        self.recorder.add(self, kind, site, floats, np.where(active, starts, NOT_ACCESSED))
        return starts


@dataclass
class _Recorder:
    """Collects the accesses of some threads of a block."""

    #: Their numbers in the block.
    threads: npt.NDArray[np.intp]
    block_size: int
    accesses: list[Access] = field(default_factory=list)
    barriers: int = 0
    _shared: dict[str, npt.NDArray[np.float32]] = field(default_factory=dict)

    def barrier(self) -> None:
        self.barriers += 1

    def add(self, array: _Recorded, kind: Kind, site: str, floats: int, starts: npt.NDArray[np.int64]) -> None:
        in_block = np.full(self.block_size, NOT_ACCESSED)
        in_block[self.threads] = starts
        self.accesses.append(Access(array.name, array.space, kind, site, floats, self.barriers, in_block))

    def argument(self, name: str, array: npt.NDArray[Any]) -> _Recorded:
        strides = tuple(stride // array.itemsize for stride in array.strides)
        size = 1 + sum((extent - 1) * stride for extent, stride in zip(array.shape, strides, strict=True))
        flat = np.lib.stride_tricks.as_strided(array, (size if array.size else 0,), (array.itemsize,))
        return _Recorded(self, name, "global", flat, array.shape, strides)

    def shared(self, shape: int | tuple[int, ...], dynamic_bytes: int) -> _Recorded:
        """Static shared memory is told apart by its line; size 0 names the one dynamic allocation."""
        shape = (shape,) if isinstance(shape, int) else shape
        if shape == (0,):
            shape = (dynamic_bytes // 4,)
        size = int(np.prod(shape))
        memory = self._shared.setdefault(_site(), np.full(size, np.nan, np.float32))
        return _Recorded(self, _assigned_name(), "shared", memory, shape, _row_major(shape))

    def view(self, memory: _Recorded, shape: tuple[int, ...], offset: int) -> _Recorded:
        return _Recorded(self, _assigned_name(), "shared", memory.memory, shape, _row_major(shape), offset)


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(np.prod(shape[axis + 1 :])) for axis in range(len(shape)))


# Source ----------------------------------------------------------------------------------------------


#: Lines of these files are no place of an access: the tracer, and functions that are a single instruction.
_INSIDE = frozenset({__file__, async_copy.__file__})


def _caller() -> FrameType:
    """The innermost frame of a kernel or device function."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename in _INSIDE and frame.f_back is not None:
        frame = frame.f_back
    return frame


def _site() -> str:
    frame = _caller()
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def _assigned_name() -> str:
    """The variable that the current line assigns to."""
    frame = _caller()
    found = _ASSIGNMENT.match(linecache.getline(frame.f_code.co_filename, frame.f_lineno))
    return found[1] if found else _site()


class _Rebinder:
    """Makes copies of functions that find other things under the names that they use."""

    def __init__(self, recorder: _Recorder, module: Any) -> None:
        self._done: dict[int, FunctionType] = {}
        self._module = module
        self._stand_ins = dict(_stand_ins(recorder))

    def rebound(self, function: FunctionType) -> FunctionType:
        """The same code with the same constants; everything that it names, and that those name, exchanged."""
        if id(function) in self._done:
            return self._done[id(function)]
        names: dict[str, Any] = {"__builtins__": builtins, "min": _minimum, "max": _maximum, "range": _range}
        cells = tuple(CellType() for _ in function.__closure__ or ())
        copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__, cells)
        self._done[id(function)] = copy  # first, for functions that name each other
        for name in _names(function.__code__):
            if name in function.__globals__:
                names[name] = self._exchanged(function.__globals__[name])
        for cell, original in zip(cells, function.__closure__ or (), strict=True):
            cell.cell_contents = self._exchanged(original.cell_contents)
        return copy

    def _exchanged(self, value: Any) -> Any:
        if value is cuda:
            return self._module
        if id(value) in self._stand_ins:
            return self._stand_ins[id(value)]
        if isinstance(value, FunctionType):
            return self.rebound(value)
        if isinstance(getattr(value, "py_func", None), FunctionType):  # a device function
            return self.rebound(value.py_func)
        if type(value).__name__ == "ExternFunction":
            return self._stand_ins[value.name.rstrip("0123456789")]
        if hasattr(value, "bitwidth"):  # a Numba type such as uint32
            return _Type(getattr(np, str(value)))
        return value


def _minimum(*values: Any) -> Any:
    return reduce(np.minimum, values)


def _maximum(*values: Any) -> Any:
    return reduce(np.maximum, values)


def _range(*bounds: Any) -> Iterable[Any]:
    """Bounds may differ by thread, if all threads have as many turns."""
    if not any(isinstance(bound, np.ndarray) for bound in bounds):
        return range(*bounds)
    start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    first, end = (np.asarray(bound).astype(np.int64) for bound in (start, stop))
    turns = operator.index(_lanes(np.atleast_1d(np.maximum(-((first - end) // int(step)), 0))))
    return (_lanes(np.atleast_1d(first + turn * int(step))) for turn in range(turns))


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


@dataclass(frozen=True)
class _Type:
    """A Numba type, as a kernel uses it: called, it converts."""

    scalar: type[np.generic]

    def __call__(self, value: Any) -> Any:
        return value.astype(self.scalar) if isinstance(value, np.ndarray) else self.scalar(value)


def _stand_ins(recorder: _Recorder) -> Mapping[int | str, Any]:
    """What runs instead of the device helpers that are single instructions, by their identity.

    Foreign functions are known by their names, without the number of bytes or groups at the end.
    """

    def load4(array: _Recorded, index: Any) -> tuple[_Lanes, ...]:
        start = array.record(index, "read", 4)
        return tuple(_lanes(array.memory[start + q]) for q in range(4))

    def store4(array: _Recorded, index: Any, *values: Any) -> None:
        start = array.record(index, "write", 4)
        for q, value in enumerate(values):
            array.memory[start + q] = value

    def copy(floats: int, target: _Recorded, to: Any, source: _Recorded, where: Any, count: Any) -> None:
        """At once: a correct kernel cannot tell. With a count of 0 a thread reads nothing and writes zeros."""
        reads = np.broadcast_to(np.asarray(count) > 0, (len(recorder.threads),))
        come_from = np.where(reads, source.record(where, "copy", floats, reads), 0)
        go_to = target.record(to, "copy", floats)
        for q in range(floats):
            target.memory[go_to + q] = np.where(reads, source.memory[come_from + q], 0)

    def copy16(target: _Recorded, to: Any, source: _Recorded, where: Any, count: Any = 4) -> None:
        copy(4, target, to, source, where, count)

    def copy4(target: _Recorded, to: Any, source: _Recorded, where: Any, count: Any = 1) -> None:
        copy(1, target, to, source, where, count)

    def foreign_copy16(target: tuple[_Recorded, Any], source: tuple[_Recorded, Any]) -> None:
        copy(4, *target, *source, 4)

    def nothing(*_: Any) -> None:
        pass

    helpers: list[tuple[Any, Any]] = [
        (vector.load4, load4),
        (vector.store4, store4),
        (async_copy.cp_async16, copy16),
        (async_copy.cp_async16_or_zero, copy16),
        (async_copy.cp_async4, copy4),
        (async_copy.cp_async4_or_zero, copy4),
        (async_copy.cp_async_commit, nothing),
        (async_copy.cp_async_wait, nothing),
        (shared_memory.shared_view, recorder.view),
        (batch.moved, _Recorded.moved),
    ]
    if not SIMULATOR:  # which has no foreign functions either
        helpers.append((async_copy.address_of, lambda array, index: (array, index)))
    return {
        **{id(helper): stand_in for helper, stand_in in helpers},
        "numba_gemm_cp_async": foreign_copy16,
        "numba_gemm_cp_async_commit": nothing,
        "numba_gemm_cp_async_wait": nothing,
    }
