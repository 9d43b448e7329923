"""From a version and a problem to launches: within the limits of a grid, and on operands that the kernel can take.

A batch of more than 65535 matrices, and for kernels with tiles along grid y more than 65535 rows of tiles, take several
launches, each for a piece of the problem. What a kernel for whole tiles of contiguous memory cannot take as it is goes
through scratch: a copy before, one after, and they are steps as well (`numba_gemm.driver.staging`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from numba_gemm.device.epilogue import Epilogue
from numba_gemm.driver import cuda_api, staging
from numba_gemm.kernels.interface import Array, Launches, Part, Step, Variant, Zeros
from numba_gemm.ladder import Version
from numba_gemm.problem import Problem
from numba_gemm.tile import FLOAT_BYTES, Tile

#: Most blocks of a grid along y, and along z.
MAX_GRID_Y = MAX_GRID_Z = 65535


class _Piece(NamedTuple):
    """A part of a problem that one grid holds, and how many bytes after the operands its own A, B and C start."""

    problem: Problem
    offsets: dict[str, int]


def launches_of(
    version: Version, tile: Tile, problem: Problem, epilogue: Epilogue, variant: Variant | None = None
) -> Launches:
    """What a version launches on the current device for a problem as its kernel computes it; nothing for an empty C.

    `variant` is for measuring another one than the problem needs: a general one does what a special one does.
    """
    if 0 in (problem.m, problem.n, problem.batch):
        return Launches(())
    if version.traits.takes_variants:
        return _in_pieces(version, tile, variant or Variant.of(problem, tile, epilogue), problem)
    form = staging.form_of(version, tile, problem)
    return staging.around(_in_pieces(version, tile, Variant(), form.problem), form)


def _in_pieces(version: Version, tile: Tile, variant: Variant, problem: Problem) -> Launches:
    multiprocessors = cuda_api.multiprocessors(cuda_api.current_device())
    steps: list[Step | Zeros] = []
    parts: dict[str, Part] = {}
    main_index = 0
    for piece, offsets in _batches(problem) if version.traits.takes_variants else _panels(version, tile, problem):
        found = version.launches(tile, variant, piece, multiprocessors)
        main_index = main_index if steps else found.main_index  # that of the first piece
        steps += [_moved(step, offsets) for step in found.steps]
        for part in found.workspace:  # one piece after another uses the same
            if part.name not in parts or part.length > parts[part.name].length:
                parts[part.name] = part
    return Launches(tuple(steps), tuple(parts.values()), main_index)


def _batches(problem: Problem) -> Iterator[_Piece]:
    """As many matrices as a grid has along z."""
    for first in range(0, problem.batch, MAX_GRID_Z):
        count = min(MAX_GRID_Z, problem.batch - first)
        distances = {"a": problem.a.batch, "b": problem.b.batch, "c": problem.c.batch}
        offsets = {place: first * distance * FLOAT_BYTES for place, distance in distances.items()}
        yield _Piece(problem._replace(batch=count), offsets)


def _panels(version: Version, tile: Tile, problem: Problem) -> Iterator[_Piece]:
    """As many rows of tiles as a grid has along y."""
    most = MAX_GRID_Y * tile.bm
    for first in range(0, problem.m, most):
        # Of an A that is read column by column, a panel starts in the first column.
        of_a = first if version.traits.a_k_major else first * problem.a.lead
        offsets = {"a": of_a * FLOAT_BYTES, "c": first * problem.c.lead * FLOAT_BYTES}
        yield _Piece(problem._replace(m=min(most, problem.m - first)), offsets)


def _moved(step: Step | Zeros, offsets: dict[str, int]) -> Step | Zeros:
    """The step for operands that start so many bytes later."""

    def moved(array: Array) -> Array:
        return array._replace(offset=array.offset + offsets.get(array.place, 0))

    if isinstance(step, Zeros):
        return Zeros(moved(step.array))
    return step._replace(
        arguments=tuple(moved(argument) if isinstance(argument, Array) else argument for argument in step.arguments)
    )
