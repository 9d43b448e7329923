"""Copies for kernels that take whole tiles of contiguous memory: what else there is goes through scratch.

Such an operand is copied, padded with zeros, into a scratch of the form that the kernel takes; C comes back from one.
Padding with zeros is exact: they add nothing to any sum of products. The scratch is part of the workspace of the
launches, and the copies are steps among them.
"""

from __future__ import annotations

from typing import NamedTuple

from numba_gemm.driver import launch
from numba_gemm.kernels import staging
from numba_gemm.kernels.interface import Array, Launches, Part, Step, Zeros
from numba_gemm.ladder import Version
from numba_gemm.problem import Lines, Operand, Problem, is_contiguous
from numba_gemm.tile import Tile

_SCRATCH = {"a": "whole a", "b": "whole b", "c": "whole c"}


class Form(NamedTuple):
    """A problem in the form that a kernel takes, and the copies from and to the caller's arrays that this needs."""

    problem: Problem
    before: tuple[Step, ...]
    after: tuple[Step, ...]
    scratch: tuple[Part, ...]


def load() -> None:
    """Compile and load the copy kernel on the current device, so that a later copy only launches."""
    one = Array("", (1, 1), (1, 1))
    launch.prepare(staging.step(one, one))


def copy(source: Operand, target: Operand, stream: int) -> None:
    """target[i, j] = source[i, j], or 0 where the source has no such element; asynchronous."""
    if target.size == 0:
        return
    step = staging.step(Array("source", source.shape, source.strides), Array("target", target.shape, target.strides))
    launch.prepare_on(step, {"source": source, "target": target}, stream)()


def takes_as_is(
    version: Version,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    aligned: bool,
    multiples: tuple[int, int],
    *,
    column_major: bool = False,
) -> bool:
    """Whether a version's kernel can read or write a matrix where it lies.

    `multiples` are those of the tile for its rows and columns; `aligned` is whether it starts at a multiple of what the
    version asks for.
    """
    if 0 in shape or version.traits.takes_variants:
        return True
    whole = not version.needs_whole_tiles or all(
        extent % multiple == 0 for extent, multiple in zip(shape, multiples, strict=True)
    )
    if column_major:
        shape, strides = shape[::-1], strides[::-1]
    return whole and aligned and is_contiguous(shape, strides)


def takes_operand(
    version: Version, operand: Operand, multiples: tuple[int, int], *, column_major: bool = False
) -> bool:
    """Whether a version's kernel can read or write an operand where it lies."""
    aligned = operand.pointer % version.traits.alignment == 0
    return takes_as_is(version, operand.shape, operand.strides, aligned, multiples, column_major=column_major)


def form_of(version: Version, tile: Tile, problem: Problem) -> Form:
    """The form in which a version without variants takes a problem."""
    m, n, k = problem.m, problem.n, problem.k
    if version.needs_whole_tiles:
        m, n, k = tile.padded(m, n, k)
    k_major = version.traits.a_k_major
    whole = problem._replace(
        m=m,
        n=n,
        k=k,
        a=Lines(k, m) if k_major else Lines(m, k),
        b=Lines(k, n),
        c=Lines(m, n),
        a_along_k=not k_major,
        b_along_k=False,
        c_along_n=True,
    )
    before: list[Step] = []
    after: list[Step] = []
    scratch: list[Part] = []
    for place, shape, column_major in (("a", (m, k), k_major), ("b", (k, n), False), ("c", (m, n), False)):
        lines, given, strides = problem.matrix(place)
        aligned = lines.aligned or version.traits.alignment == 4
        if given == shape and takes_as_is(version, given, strides, aligned, (1, 1), column_major=column_major):
            continue
        scratch.append(Part(_SCRATCH[place], shape[0] * shape[1]))
        outside = Array(place, given, strides)
        inside = Array(_SCRATCH[place], shape, (1, shape[0]) if column_major else (shape[1], 1))
        if place == "c":
            after.append(staging.step(inside, outside))
        elif 0 not in shape:
            before.append(staging.step(outside, inside))
    return Form(whole, tuple(before), tuple(after), tuple(scratch))


def around(launches: Launches, form: Form) -> Launches:
    """The launches for the problem in its form, with the copies before and after, on scratch where there is one."""
    staged = {part.name for part in form.scratch}

    def on_scratch(step: Step | Zeros) -> Step | Zeros:
        assert isinstance(step, Step)
        arguments = tuple(
            argument._replace(place=_SCRATCH[argument.place])
            if isinstance(argument, Array) and _SCRATCH.get(argument.place) in staged
            else argument
            for argument in step.arguments
        )
        return step._replace(arguments=arguments)

    steps = (*form.before, *map(on_scratch, launches.steps), *form.after)
    return Launches(steps, form.scratch, len(form.before) + launches.main_index)
