"""`VERSIONS`: the ladder as one table. Dispatch, tests, benchmarks and documents iterate it."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from numba_gemm.kernels import (
    skinny,
    split_k,
    split_k_atomic,
    v1_naive,
    v2_shared,
    v3_register,
    v4_vectorized,
    v5_cp_async,
    v6_boundary,
    v7_warp_tiled,
    v8_stream_k,
)
from numba_gemm.kernels.detours import (
    cp_async_b,
    cp_async_intrinsic,
    cp_async_k_major,
    cp_async_ptx,
    ex7_along_k,
    ex8_warp_tiled,
    naive_rows,
    naive_square,
    padded_columns,
    padded_rows,
    register_prefetch,
    split_columns,
    swizzled,
    thread_tile,
    through_shared,
    untransposed,
)
from numba_gemm.kernels.interface import CAPABILITIES, WITH_WORKSPACE, Launches, Structure, Traits, Variant
from numba_gemm.problem import Problem
from numba_gemm.tile import Tile

__all__ = ["CAPABILITIES", "RUNGS", "VERSIONS", "Version", "find", "with_capability"]


@dataclass(frozen=True)
class Version:
    """One kernel of the ladder, or a detour that changes one thing of a rung."""

    #: The rung, counted from 1; None for a detour.
    number: int | None
    name: str
    #: What it teaches, in one line.
    summary: str
    #: Where the kernel is, with what `kernels.interface` asks of a module.
    module: ModuleType = field(repr=False)
    default_tile: Tile
    #: A tile of few threads that still exercises every line, for the simulator.
    small_tile: Tile

    def __str__(self) -> str:
        return self.name if self.number is None else f"{self.number} ({self.name})"

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def traits(self) -> Traits:
        """What the kernel can do, and what it needs."""
        traits: Traits = self.module.TRAITS
        return traits

    @property
    def structure(self) -> Structure:
        """How the kernel does its work, for the models."""
        structure: Structure = self.module.STRUCTURE
        return structure

    @property
    def capabilities(self) -> frozenset[str]:
        """What the kernel can do beyond C = A·B on whole tiles: names of `CAPABILITIES`."""
        return self.traits.capabilities

    @property
    def min_cc(self) -> tuple[int, int]:
        """Least compute capability, (major, minor)."""
        return self.traits.min_cc

    @property
    def takes_everything(self) -> bool:
        """Whether it does all that the contract of `sgemm` has, on operands as they are."""
        return self.traits.takes_variants and self.capabilities.issuperset(CAPABILITIES)

    @property
    def needs_whole_tiles(self) -> bool:
        """Whether M, N and K have to be multiples of the tile's sizes."""
        return "edges" not in self.capabilities

    @property
    def has_workspace(self) -> bool:
        """Whether its blocks may exchange partial sums."""
        return self.signature is WITH_WORKSPACE

    @property
    def signature(self) -> Any:
        """The Numba types of the kernel's arguments."""
        return self.module.SIGNATURE

    def check(self, tile: Tile) -> None:
        """Raises ValueError, with the constraint and the numbers, for a tile this kernel cannot use."""
        self.module.check(tile)

    def shared_bytes(self, tile: Tile, variant: Variant) -> int:
        """Bytes of dynamic shared memory per block, which depend on no sizes of the matrices."""
        launches = self.launches(tile, variant, Problem.contiguous(tile.bm, tile.bn, tile.bk), 1)
        return launches.main.config.shared_bytes

    def launches(self, tile: Tile, variant: Variant, problem: Problem, multiprocessors: int) -> Launches:
        """What it launches for a problem, in order, and the workspace that this needs."""
        launches: Launches = self.module.steps(tile, variant, problem, multiprocessors)
        return launches

    def oriented(self, problem: Problem) -> Problem:
        """The problem as the kernel computes it: as it is, or its transpose."""
        if not self.traits.takes_variants:
            return problem
        return problem.with_few_rows() if self.traits.few_rows else problem.by_rows_of_c()

    def make_kernel(self, tile: Tile, variant: Variant | None = None) -> Any:
        """The kernel for a tile, as made by `cuda.jit`; the same object each time.

        A version that takes variants is made for one: by default for whole row-major matrices.
        """
        if self.traits.takes_variants:
            return self.module.make_kernel(tile, variant or Variant())
        return self.module.make_kernel(tile)


def _version(
    number: int | None,
    name: str,
    summary: str,
    module: ModuleType,
    default_tile: Tile | None = None,
    small_tile: Tile | None = None,
) -> Version:
    """A line of the table. Two names may share a module and differ in their tiles, which are the module's if absent."""
    return Version(number, name, summary, module, default_tile or module.DEFAULT_TILE, small_tile or module.SMALL_TILE)


#: For names whose module has a small tile that takes its rung's time in the simulator.
_TINY_SQUARE = Tile(bm=4, bn=4, bk=4)
_EX5, _SMALL_EX5 = Tile(bm=32, bn=32, bk=32, tm=2, tn=2), Tile(bm=8, bn=8, bk=8, tm=2, tn=2)

VERSIONS: tuple[Version, ...] = (
    _version(1, "naive", "one output per thread", v1_naive),
    _version(2, "shared", "tiles in shared memory", v2_shared),
    _version(3, "register", "8×8 outputs per thread", v3_register),
    _version(4, "vectorized", "16-byte accesses", v4_vectorized),
    _version(5, "cp_async", "cp.async ring, from ptx/", v5_cp_async),
    _version(6, "boundary", "any shape and layout, epilogues", v6_boundary),
    _version(7, "warp_tiled", "warp tiles, fragments in pairs", v7_warp_tiled),
    _version(8, "stream_k", "equal shares for all SMs", v8_stream_k),
    _version(None, "skinny", "few rows, bound by memory; GEMV", skinny),
    _version(None, "split_k", "rung 7, several blocks per tile", split_k),
    _version(None, "split_k_atomic", "split_k, added by atomics", split_k_atomic),
    _version(None, "through_shared", "rung 6, outputs through As, Bs", through_shared),
    _version(None, "cp_async_ptx", "rung 5 calling linked PTX", cp_async_ptx),
    _version(None, "cp_async_intrinsic", "rung 5, PTX emitted inline", cp_async_intrinsic),
    _version(None, "naive_rows", "rung 1, warps along rows", naive_rows),
    _version(None, "naive_16", "rung 1, blocks of 16 × 16", naive_square),
    _version(None, "thread_tile_4", "4×4 per thread, nothing shared", thread_tile, thread_tile.TILE_4X4),
    _version(None, "thread_tile", "8×8 per thread, nothing shared", thread_tile),
    _version(None, "padded_rows", "rung 3, As[BM][BK+1]", padded_rows),
    _version(None, "untransposed", "rung 4, As[BM][BK]", untransposed),
    _version(None, "padded_columns", "rung 4, As[BK][BM+4]", padded_columns),
    _version(None, "split_columns", "rung 4, columns in groups of 4", split_columns),
    _version(None, "swizzled", "rung 4, Bs swizzled by XOR", swizzled),
    _version(None, "register_prefetch", "rung 4, next tile in registers", register_prefetch),
    _version(None, "cp_async_b", "rung 5, A through registers", cp_async_b),
    _version(None, "cp_async_k_major", "rung 5, A given column-major", cp_async_k_major),
    # The ladder for the RTX 5080. Where a step is a kernel that is here already, it names its file, with its own tile.
    _version(None, "ex3", "naive_16 by another name", naive_square),
    _version(None, "ex4_bk16", "rung 2, tiles of 16", v2_shared, Tile(bm=16, bn=16, bk=16), _TINY_SQUARE),
    _version(None, "ex4_bk32", "rung 2 by another name", v2_shared, None, _TINY_SQUARE),
    _version(None, "ex5", "rung 3, 2×2 per thread", v3_register, _EX5, _SMALL_EX5),
    _version(None, "ex6", "As[BM][BK], BK = 64, 4×4", untransposed, untransposed.TILE_EX6),
    _version(None, "ex7", "4×4, fragments along k", ex7_along_k),
    _version(None, "ex8", "warp tiles, prefetch", ex8_warp_tiled),
    _version(
        None, "ex9", "ex8 with two buffers", ex8_warp_tiled, ex8_warp_tiled.TILE_EX9, ex8_warp_tiled.SMALL_TILE_EX9
    ),
)

RUNGS: tuple[Version, ...] = tuple(version for version in VERSIONS if version.number is not None)


_BY_NUMBER_OR_NAME: dict[int | str | None, Version] = {
    key: version for version in VERSIONS for key in (version.number, version.name) if key is not None
}


def find(version: int | str) -> Version:
    """The version of that number or name.

    Raises:
        TypeError: if `version` is neither an int nor a str.
        ValueError: if there is none; the message lists all.
    """
    if isinstance(version, bool) or not isinstance(version, int | str):
        raise TypeError(f"version is {version!r}, of type {type(version).__name__}; it must be an int or a str")
    found = _BY_NUMBER_OR_NAME.get(version)
    if found is not None:
        return found
    numbers = ", ".join(str(candidate.number) for candidate in RUNGS)
    names = ", ".join(repr(candidate.name) for candidate in VERSIONS)
    raise ValueError(f"unknown version {version!r}; there are the numbers {numbers} and the names 'auto', {names}")


def with_capability(capability: str) -> list[Version]:
    """The versions that have a capability, in ladder order."""
    return [version for version in VERSIONS if capability in version.capabilities]
