"""`VERSIONS`: the ladder as one table. Dispatch, tests, benchmarks and documents iterate it."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from numba_gemm.kernels import signatures
from numba_gemm.kernels.detours import ex8_warp_tiled, thread_tile, untransposed
from numba_gemm.kernels.variant import Variant
from numba_gemm.tile import LaunchConfig, Tile

#: What a version may be able to do beyond C = A·B on whole tiles, and the arguments that ask for it.
CAPABILITIES: dict[str, tuple[str, ...]] = {
    "scale": ("alpha", "beta"),
    "transpose": ("trans_a", "trans_b"),
    "epilogue": ("bias", "activation", "epilogue"),
    "batch": ("3-D operands",),
    "edges": (),
}


@dataclass(frozen=True)
class Version:
    """One kernel of the ladder, or a detour that changes one thing of a rung."""

    #: The rung, counted from 1; None for a detour.
    number: int | None
    name: str
    #: What it teaches, in one line.
    summary: str
    capabilities: frozenset[str]
    #: Least compute capability, (major, minor).
    min_cc: tuple[int, int]
    default_tile: Tile
    #: A tile of few threads that still exercises every line, for the simulator.
    small_tile: Tile
    #: Operand addresses have to be multiples of this many bytes.
    alignment: int
    #: The module in `numba_gemm.kernels` that holds it.
    module_name: str
    #: Files of `ptx/` that are linked into it; such a kernel cannot be cached on disk.
    foreign_files: tuple[str, ...] = ()
    #: Whether shared memory is dynamic, so that a tile may pass 48 KB.
    dynamic_shared: bool = False
    #: Whether the kernel is made for a `Variant`: any layout, edges, epilogues.
    takes_variants: bool = False
    #: Whether the kernel reads A column-major, all m of a k side by side, instead of row-major.
    a_k_major: bool = False
    #: Whether its blocks exchange partial sums: the module's `workspace` says how much memory a launch needs.
    has_workspace: bool = False
    #: Whether its blocks leave parts of outputs in the workspace, as many as the module's `parts_of` says, for
    #: the kernel in `kernels.reduce` to add up.
    has_parts: bool = False
    #: Whether it adds to C, which therefore has to be zero before.
    adds_to_c: bool = False
    #: Whether it takes the smaller of M and N as its rows, few of which it computes at once.
    few_rows: bool = False

    def __str__(self) -> str:
        return self.name if self.number is None else f"{self.number} ({self.name})"

    @property
    def module(self) -> ModuleType:
        return importlib.import_module(f"numba_gemm.kernels.{self.module_name}")

    def check(self, tile: Tile) -> None:
        """Raises ValueError, with the constraint and the numbers, for a tile this kernel cannot use."""
        if tile.through_shared and not getattr(self.module, "TAKES_THROUGH_SHARED", False):
            raise ValueError(f"{tile}: version {self} stores its outputs directly; through_shared is for rung 6")
        self.module.check(tile)

    def launch_config(
        self, tile: Tile, variant: Variant, m: int, n: int, k: int, batch: int, multiprocessors: int
    ) -> LaunchConfig:
        """The grid for a version that takes variants; one with a workspace also asks how large the device is."""
        config: LaunchConfig = (
            self.module.launch_config(tile, variant, m, n, k, batch, multiprocessors)
            if self.has_workspace
            else self.module.launch_config(tile, variant, m, n, batch)
        )
        return config

    def make_kernel(self, tile: Tile, variant: Variant | None = None) -> Any:
        """The kernel for a tile, as made by `cuda.jit`; the same object each time.

        A version that takes variants is made for one: by default for whole row-major matrices.
        """
        return (
            self.module.make_kernel(tile, variant or Variant())
            if self.takes_variants
            else self.module.make_kernel(tile)
        )

    @property
    def signature(self) -> Any:
        """The Numba types of the kernel's arguments."""
        if self.has_workspace:
            return signatures.WITH_WORKSPACE
        return signatures.GENERAL if self.takes_variants else signatures.PLAIN

    @property
    def takes_everything(self) -> bool:
        """Whether it does all that the contract of `sgemm` has, on operands as they are."""
        return self.takes_variants and self.capabilities.issuperset(CAPABILITIES)

    @property
    def needs_whole_tiles(self) -> bool:
        return "edges" not in self.capabilities


def _version(
    number: int | None,
    name: str,
    summary: str,
    *,
    module_name: str,
    capabilities: Iterable[str] = (),
    min_cc: tuple[int, int] = (5, 0),
    alignment: int = 4,
    foreign_files: tuple[str, ...] = (),
    dynamic_shared: bool = False,
    takes_variants: bool = False,
    few_rows: bool = False,
    a_k_major: bool = False,
    default_tile: Tile | None = None,
    small_tile: Tile | None = None,
) -> Version:
    """A line of the table. Two names may share a module and differ in their tiles, which are the module's if absent."""
    module = importlib.import_module(f"numba_gemm.kernels.{module_name}")
    return Version(
        number=number,
        name=name,
        summary=summary,
        capabilities=frozenset(capabilities),
        min_cc=min_cc,
        default_tile=default_tile or module.DEFAULT_TILE,
        small_tile=small_tile or module.SMALL_TILE,
        alignment=alignment,
        module_name=module_name,
        foreign_files=foreign_files,
        dynamic_shared=dynamic_shared,
        takes_variants=takes_variants,
        has_workspace=hasattr(module, "workspace"),
        has_parts=getattr(module, "LEAVES_PARTS", False),
        adds_to_c=getattr(module, "ADDS_TO_C", False),
        few_rows=few_rows,
        a_k_major=a_k_major,
    )


#: For names whose module has a small tile that takes its rung's time in the simulator.
_TINY_SQUARE = Tile(bm=4, bn=4, bk=4)
#: cp.async exists from compute capability 8.0 on.
_AMPERE = (8, 0)

VERSIONS: tuple[Version, ...] = (
    _version(1, "naive", "one thread an output", module_name="v1_naive", capabilities=["edges"]),
    _version(2, "shared", "tiles in shared memory", module_name="v2_shared"),
    _version(3, "register", "8×8 outputs a thread", module_name="v3_register"),
    _version(4, "vectorized", "16-byte accesses", module_name="v4_vectorized", alignment=16),
    _version(
        5,
        "cp_async",
        "cp.async ring, from ptx/",
        module_name="v5_cp_async",
        min_cc=_AMPERE,
        alignment=16,
        foreign_files=("cp_async.cu",),
        dynamic_shared=True,
    ),
    _version(
        6,
        "boundary",
        "any shape and layout, epilogues",
        module_name="v6_boundary",
        capabilities=CAPABILITIES,
        min_cc=_AMPERE,
        dynamic_shared=True,
        takes_variants=True,
    ),
    _version(
        7,
        "warp_tiled",
        "warp tiles, fragments in pairs",
        module_name="v7_warp_tiled",
        capabilities=CAPABILITIES,
        min_cc=_AMPERE,
        dynamic_shared=True,
        takes_variants=True,
    ),
    _version(
        8,
        "stream_k",
        "equal shares for all SMs",
        module_name="v8_stream_k",
        capabilities=CAPABILITIES,
        min_cc=_AMPERE,
        dynamic_shared=True,
        takes_variants=True,
    ),
    _version(
        None,
        "skinny",
        "few rows, bound by memory; GEMV",
        module_name="skinny",
        capabilities=CAPABILITIES,
        min_cc=_AMPERE,
        takes_variants=True,
        few_rows=True,
    ),
    _version(
        None,
        "split_k",
        "rung 7, several blocks a tile",
        module_name="split_k",
        capabilities=CAPABILITIES,
        min_cc=_AMPERE,
        dynamic_shared=True,
        takes_variants=True,
    ),
    _version(
        None,
        "split_k_atomic",
        "split_k, added by atomics",
        module_name="split_k_atomic",
        capabilities=["transpose", "edges"],
        min_cc=_AMPERE,
        dynamic_shared=True,
        takes_variants=True,
    ),
    _version(
        None,
        "cp_async_ptx",
        "rung 5 calling linked PTX",
        module_name="detours.cp_async_ptx",
        min_cc=_AMPERE,
        alignment=16,
        foreign_files=("cp_async.ptx",),
        dynamic_shared=True,
    ),
    _version(
        None,
        "cp_async_intrinsic",
        "rung 5, PTX emitted inline",
        module_name="detours.cp_async_intrinsic",
        min_cc=_AMPERE,
        alignment=16,
        dynamic_shared=True,
    ),
    _version(
        None,
        "naive_rows",
        "rung 1, warps along rows",
        module_name="detours.naive_rows",
        capabilities=["edges"],
    ),
    _version(
        None,
        "naive_16",
        "rung 1, blocks of 16 × 16",
        module_name="detours.naive_square",
        capabilities=["edges"],
    ),
    _version(
        None,
        "thread_tile_4",
        "4×4 a thread, nothing shared",
        module_name="detours.thread_tile",
        capabilities=["edges"],
        default_tile=thread_tile.TILE_4X4,
    ),
    _version(
        None,
        "thread_tile",
        "8×8 a thread, nothing shared",
        module_name="detours.thread_tile",
        capabilities=["edges"],
    ),
    _version(None, "padded_rows", "rung 3, As[BM][BK+1]", module_name="detours.padded_rows"),
    _version(None, "untransposed", "rung 4, As[BM][BK]", module_name="detours.untransposed", alignment=16),
    _version(None, "padded_columns", "rung 4, As[BK][BM+4]", module_name="detours.padded_columns", alignment=16),
    _version(
        None, "split_columns", "rung 4, columns in groups of 4", module_name="detours.split_columns", alignment=16
    ),
    _version(None, "swizzled", "rung 4, Bs swizzled by XOR", module_name="detours.swizzled", alignment=16),
    _version(
        None,
        "register_prefetch",
        "rung 4, next tile in registers",
        module_name="detours.register_prefetch",
        alignment=16,
    ),
    _version(
        None,
        "cp_async_b",
        "rung 5, A through registers",
        module_name="detours.cp_async_b",
        min_cc=_AMPERE,
        alignment=16,
        dynamic_shared=True,
    ),
    _version(
        None,
        "cp_async_k_major",
        "rung 5, A given column-major",
        module_name="detours.cp_async_k_major",
        min_cc=_AMPERE,
        alignment=16,
        dynamic_shared=True,
        a_k_major=True,
    ),
    # The ladder for the RTX 5080. Where a step is a kernel that is here already, it names its file, with its own tile.
    _version(None, "ex3", "naive_16 by another name", module_name="detours.naive_square", capabilities=["edges"]),
    _version(
        None,
        "ex4_bk16",
        "rung 2, tiles of 16",
        module_name="v2_shared",
        default_tile=Tile(bm=16, bn=16, bk=16),
        small_tile=_TINY_SQUARE,
    ),
    _version(None, "ex4_bk32", "rung 2 by another name", module_name="v2_shared", small_tile=_TINY_SQUARE),
    _version(
        None,
        "ex5",
        "rung 3, 2×2 a thread",
        module_name="v3_register",
        default_tile=Tile(bm=32, bn=32, bk=32, tm=2, tn=2),
        small_tile=Tile(bm=8, bn=8, bk=8, tm=2, tn=2),
    ),
    _version(
        None,
        "ex6",
        "As[BM][BK], BK = 64, 4×4",
        module_name="detours.untransposed",
        alignment=16,
        default_tile=untransposed.TILE_EX6,
    ),
    _version(None, "ex7", "4×4, fragments along k", module_name="detours.ex7_along_k", alignment=16),
    _version(None, "ex8", "warp tiles, prefetch", module_name="detours.ex8_warp_tiled", alignment=16),
    _version(
        None,
        "ex9",
        "ex8 with two buffers",
        module_name="detours.ex8_warp_tiled",
        alignment=16,
        default_tile=ex8_warp_tiled.TILE_EX9,
        small_tile=ex8_warp_tiled.SMALL_TILE_EX9,
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
