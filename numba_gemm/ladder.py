"""`VERSIONS`: the ladder as one table. Dispatch, tests, benchmarks and documents iterate it."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from numba_gemm.kernels import signatures
from numba_gemm.tile import Tile
from numba_gemm.variant import Variant

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

    def __str__(self) -> str:
        return self.name if self.number is None else f"{self.number} ({self.name})"

    @property
    def module(self) -> ModuleType:
        return importlib.import_module(f"numba_gemm.kernels.{self.module_name}")

    def check(self, tile: Tile) -> None:
        """Raises ValueError, with the constraint and the numbers, for a tile this kernel cannot use."""
        self.module.check(tile)

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
        return signatures.GENERAL if self.takes_variants else signatures.PLAIN

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
) -> Version:
    module = importlib.import_module(f"numba_gemm.kernels.{module_name}")
    return Version(
        number=number,
        name=name,
        summary=summary,
        capabilities=frozenset(capabilities),
        min_cc=min_cc,
        default_tile=module.DEFAULT_TILE,
        small_tile=module.SMALL_TILE,
        alignment=alignment,
        module_name=module_name,
        foreign_files=foreign_files,
        dynamic_shared=dynamic_shared,
        takes_variants=takes_variants,
    )


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
