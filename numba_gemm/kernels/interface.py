"""What a kernel module offers the library, and the words in which it does: `Traits`, `Structure`, `Step`, `Launches`.

A module has `DEFAULT_TILE`, `SMALL_TILE` (for the simulator), `TRAITS`, `STRUCTURE`, `SIGNATURE`, `check(tile)`,
`make_kernel(tile[, variant])` and

    steps(tile, variant, problem, multiprocessors) → Launches

which says what it launches for a problem, in order, and the workspace that the launches need. The arguments of a step
name what they are (`Array("a", …)`, `ALPHA`); where that lies in memory is filled in at each call, by
`numba_gemm.driver`. So nothing else has to know how many launches a product takes, or what passes between them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numba import float32, int64, types, uint32

from numba_gemm.device.epilogue import Epilogue
from numba_gemm.hardware.quantity import Result
from numba_gemm.problem import Problem
from numba_gemm.tile import LaunchConfig, Tile

# Facts -----------------------------------------------------------------------------------------------

#: What a version may be able to do beyond C = A·B on whole tiles, and the arguments that ask for it.
CAPABILITIES: dict[str, tuple[str, ...]] = {
    "scale": ("alpha", "beta"),
    "transpose": ("trans_a", "trans_b"),
    "epilogue": ("bias", "activation", "epilogue"),
    "batch": ("3-D operands",),
    "edges": (),
}
EVERYTHING = frozenset(CAPABILITIES)
#: cp.async exists from this compute capability on.
AMPERE = (8, 0)


@dataclass(frozen=True)
class Traits:
    """What a kernel can do, and what it needs."""

    #: Names of `CAPABILITIES`.
    capabilities: frozenset[str] = frozenset()
    #: Least compute capability, (major, minor).
    min_cc: tuple[int, int] = (5, 0)
    #: Operand addresses have to be multiples of this many bytes.
    alignment: int = 4
    #: Files of `ptx/` that are linked into it; such a kernel cannot be cached on disk.
    foreign_files: tuple[str, ...] = ()
    #: Whether shared memory is dynamic, so that a tile may pass 48 KB.
    dynamic_shared: bool = False
    #: Whether the kernel is made for a `Variant`: any layout, edges, epilogues.
    takes_variants: bool = False
    #: Whether the kernel reads A column-major, all m of a k side by side, instead of row-major.
    a_k_major: bool = False
    #: Whether it takes the smaller of M and N as its rows, few of which it computes at once.
    few_rows: bool = False
    #: Whether the order of all additions is fixed, so that results are the same in every run.
    deterministic: bool = True
    #: Blocks per SM that the launch bound for a tile asks for.
    resident_blocks: Callable[[Tile], int] = Tile.resident_blocks.fget  # type: ignore[attr-defined]


#: Of a kernel with edges in dynamic shared memory, which does all that the contract of `sgemm` has.
TAKES_EVERYTHING = Traits(capabilities=EVERYTHING, min_cc=AMPERE, dynamic_shared=True, takes_variants=True)

#: How a tile reaches shared memory: a float at a time or 16 bytes at a time through registers, by cp.async, or not at
#: all.
Copy = Literal["floats", "vectors", "async", "none"]


@dataclass(frozen=True, kw_only=True)
class Structure(Result):
    """How a kernel does its work, as far as its tile does not say it: for the models.

    Attributes:
        lanes: neighbouring threads have neighbouring "columns" of C, neighbouring "rows", the places of a "warp tile",
            or lines of one that lie as many apart as there are lanes ("warp lines").
        shared: whether operands pass through shared memory.
        a_in_lines: whether the tile of A is As[m, k], so that a fragment of A is a column; else As[k, m].
        b_in_lines: whether the tile of B is Bs[n, k]; else Bs[k, n].
        a_padding: floats that a row of As is longer than the tile.
        split_columns: whether a thread's columns are groups of four that are spread over the block tile.
        swizzled: whether 16-byte chunks of a row of Bs are exchanged by xor.
        copy_a: how the tile of A is copied.
        copy_b: how the tile of B is copied; "none" where each thread has its part of it in registers.
        turns_a: whether the copy of A transposes it.
        prefetch: whether the next tile is on its way while this one is computed.
        paired_fragments: whether the fragments of step k + 1 are read while those of step k are used.
    """

    lanes: Literal["columns", "rows", "warp tile", "warp lines"] = "columns"
    shared: bool = True
    a_in_lines: bool
    b_in_lines: bool = False
    a_padding: int = 0
    split_columns: bool = False
    swizzled: bool = False
    copy_a: Copy
    copy_b: Copy
    turns_a: bool
    prefetch: bool
    paired_fragments: bool = False


# What a kernel is compiled for -----------------------------------------------------------------------


@dataclass(frozen=True)
class Variant:
    """One instantiation of a kernel that takes any shape and layout."""

    #: Whether k is the contiguous index of A (row-major A) rather than m (A transposed).
    a_along_k: bool = True
    #: Whether k is the contiguous index of B (B transposed) rather than n (row-major B).
    b_along_k: bool = False
    #: Whether all addresses and leading dimensions allow 16-byte accesses.
    vector: bool = True
    #: Whether M, N, K are whole tiles: nothing is checked then.
    whole: bool = True
    #: Whether C lies row by row; else column by column.
    c_along_n: bool = True
    #: Rows that a kernel for few of them computes at once; 0 for kernels with a tile of rows.
    rows: int = 0
    epilogue: Epilogue = field(default_factory=Epilogue)

    @classmethod
    def of(cls, problem: Problem, tile: Tile, epilogue: Epilogue) -> Variant:
        """What the kernel for a problem has to be compiled for."""
        m, n, k = problem.m, problem.n, problem.k
        return cls(
            a_along_k=problem.a_along_k,
            b_along_k=problem.b_along_k,
            vector=problem.vector and k > 0,  # without k only C counts: not worth a kernel of its own
            # A kernel for few rows is bound by memory and has time to check.
            whole=k > 0 and not problem.rows and (m, n, k) == tile.padded(m, n, k),
            c_along_n=problem.c_along_n,
            rows=problem.rows,
            # Rows and columns matter to a bias and to a user's function; without them, one kernel does for both.
            epilogue=replace(
                epilogue, transposed=problem.transposed and (epilogue.bias or epilogue.function is not None)
            ),
        )


_MATRIX = float32[:, ::1]

#: A, B, C: row-major and contiguous.
PLAIN = types.void(_MATRIX, _MATRIX, _MATRIX)

#: A, B, C, bias as arrays whose rows are as long as the leading dimension · M, N, K · alpha, beta ·
#: the distance of two matrices in a batch of A, B, C, in floats.
GENERAL = types.void(
    *(_MATRIX, _MATRIX, _MATRIX, _MATRIX),
    *(uint32, uint32, uint32),
    *(float32, float32),
    *(int64, int64, int64),
)

#: The arguments of `GENERAL` · partial sums, flags · how many matrices the batch has.
WITH_WORKSPACE = types.void(*GENERAL.args, float32[::1], uint32[::1], uint32)

#: Source and target of a copy, with any strides.
STAGING = types.void(float32[:, :], float32[:, :])


# What is launched ------------------------------------------------------------------------------------


class Kernel(NamedTuple):
    """A kernel that need not have been made yet: the function that makes it, for what, and its signature."""

    make: Callable[..., Any]
    made_for: tuple[Any, ...]
    signature: Any
    #: Whether its machine code may be kept on disk: not with linked files.
    cacheable: bool = True

    @property
    def identity(self) -> str:
        """A text that no other kernel has."""
        return f"{self.make.__module__}.{self.make.__qualname__} {self.made_for!r}"


class Array(NamedTuple):
    """An array as an argument: what it is, and its shape; row-major without gaps unless `strides` say else."""

    #: "a", "b", "c", "bias", or the name of a `Part` of the workspace; "" for one without elements.
    place: str
    shape: tuple[int, ...]
    #: In elements.
    strides: tuple[int, ...] | None = None
    #: Where it starts, in bytes from the place's address.
    offset: int = 0
    dtype: type[np.float32] | type[np.uint32] = np.float32


#: In place of a bias where there is none.
NOTHING = Array("", (0, 1))
#: Scalars that are filled in at each call.
ALPHA: Literal["alpha"] = "alpha"
BETA: Literal["beta"] = "beta"

Argument = Array | int | float | Literal["alpha", "beta"]


class Part(NamedTuple):
    """A part of the workspace, in which the blocks of a product's launches exchange what they have."""

    name: str
    length: int
    dtype: type[np.float32] | type[np.uint32] = np.float32
    #: Whether all of it is zero before the first launch; then the kernels leave it zero.
    zeroed: bool = False


class Step(NamedTuple):
    """One launch."""

    kernel: Kernel
    config: LaunchConfig
    arguments: tuple[Argument, ...]


class Zeros(NamedTuple):
    """In place of a launch: a matrix is set to zero, in stream order. `array` has rows of any leading dimension."""

    array: Array


class Launches(NamedTuple):
    """What a module launches for a problem, in order, and the workspace that this needs."""

    steps: tuple[Step | Zeros, ...]
    workspace: tuple[Part, ...] = ()
    #: Which of the steps multiplies.
    main_index: int = 0

    @property
    def main(self) -> Step:
        """The launch that multiplies."""
        step = self.steps[self.main_index]
        assert isinstance(step, Step)
        return step


def plain_steps(
    make_kernel: Callable[[Tile], Any], traits: Traits, block: Callable[[Tile], tuple[int, int]] | None = None
) -> Callable[[Tile, Variant, Problem, int], Launches]:
    """The `steps` of a module whose kernel takes contiguous matrices A, B, C (`PLAIN`): one launch, a block per tile.

    `block` says the threads of a block along x and y, if they are not all along x.
    """

    def steps(tile: Tile, _variant: Variant, problem: Problem, _multiprocessors: int) -> Launches:
        kernel = Kernel(make_kernel, (tile,), PLAIN, cacheable=not traits.foreign_files)
        shared_bytes = tile.shared_bytes if traits.dynamic_shared else 0
        threads = block(tile) if block else (tile.threads, 1)
        config = LaunchConfig(grid=tile.grid(problem.m, problem.n), block=threads, shared_bytes=shared_bytes)
        of_a = (problem.k, problem.a.lead) if traits.a_k_major else (problem.m, problem.k)
        arrays = Array("a", of_a), Array("b", (problem.k, problem.n)), Array("c", (problem.m, problem.n))
        return Launches((Step(kernel, config, arrays),))

    return steps


def general_arguments(problem: Problem) -> tuple[Argument, ...]:
    """The arguments of a kernel that takes any layout (`GENERAL`): each matrix as an array of its lines."""
    a, b, c = problem.a, problem.b, problem.c
    bias = NOTHING
    if problem.bias is not None:  # a column of an array
        bias = Array("bias", (problem.m if problem.transposed else problem.n, problem.bias))
    return (
        *(Array("a", (a.number, a.lead)), Array("b", (b.number, b.lead)), Array("c", (c.number, c.lead)), bias),
        *(problem.m, problem.n, problem.k),
        *(ALPHA, BETA),
        *(a.batch, b.batch, c.batch),
    )


def general_launch(
    make_kernel: Callable[[Tile, Variant], Any], tile: Tile, variant: Variant, problem: Problem, shared_bytes: int
) -> Launches:
    """One launch, of a kernel that takes any layout (`GENERAL`); grid: tiles, 1, matrices."""
    tiles_n, tiles_m = tile.grid(problem.m, problem.n)
    config = LaunchConfig((tiles_m * tiles_n, 1, problem.batch), (tile.threads, 1), shared_bytes)
    return Launches((Step(Kernel(make_kernel, (tile, variant), GENERAL), config, general_arguments(problem)),))


def workspace_arguments(problem: Problem, parts: Sequence[Part]) -> tuple[Argument, ...]:
    """The arguments of a kernel that has a workspace (`WITH_WORKSPACE`), of partial sums and flags."""
    lengths = {part.name: part.length for part in parts}
    return (
        *general_arguments(problem),
        Array("sums", (lengths.get("sums", 0),)),
        Array("flags", (lengths.get("flags", 0),), dtype=np.uint32),
        problem.batch,
    )


def sums_and_flags(sums: int, flags: int = 0) -> tuple[Part, ...]:
    """A workspace of so many partial sums, and of so many flags or counters."""
    parts = Part("sums", sums), Part("flags", flags, np.uint32, zeroed=True)
    return tuple(part for part in parts if part.length)
