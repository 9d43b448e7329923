"""Write notes/machine_code.json: what the notes say about machine code. Takes some minutes and needs no GPU.

`python -m notes.make.machine_code [VERSION …]` in a checkout, with the toolkit that pyproject.toml pins. With
names of versions, only these are compiled, and what the file has of others is kept.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
from collections.abc import Callable
from dataclasses import fields

from notes.make.facts import ARCH, MACHINE_CODE, Entry
from numba_gemm import ladder
from numba_gemm.analysis.code.banks import Banks, banks
from numba_gemm.analysis.code.inspection import inspect
from numba_gemm.analysis.code.machine_code import ARCHITECTURES

#: Detours that a page compares with a rung.
COMPARED = ("cp_async_ptx", "cp_async_intrinsic")
LAYOUTS = ("padded_rows", "untransposed", "padded_columns", "split_columns", "swizzled")


def main(names: list[str]) -> int:
    """Compile, and write the file, an entry a line."""
    stored = json.loads(MACHINE_CODE.read_text(encoding="utf-8")) if names else {"inspections": [], "banks": []}

    def made(group: str, keys: list[tuple[str, ...]], make: Callable[..., Entry]) -> str:
        kept = {_key(entry): entry for entry in stored[group]}
        return ",\n".join(json.dumps(make(*key) if not names or key[0] in names else kept[key]) for key in keys)

    inspections = made("inspections", inspected(), inspection)
    banks_counted = made("banks", counted(), wavefronts)
    parts = (
        f'"toolkit": {json.dumps(toolkit())}',
        f'"inspections": [\n{inspections}\n]',
        f'"banks": [\n{banks_counted}\n]',
    )
    MACHINE_CODE.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")
    return 0


def inspected() -> list[tuple[str, ...]]:
    """Names of versions, and the architectures that they are compiled for."""
    rungs = [
        (version.name, arch)
        for version in ladder.RUNGS
        for arch in ARCHITECTURES
        if divmod(int(arch.removeprefix("sm_")), 10) >= version.min_cc
    ]
    return [*rungs, *((name, ARCH) for name in COMPARED)]


def counted() -> list[tuple[str, ...]]:
    """Names of versions whose wavefronts are counted: those with shared memory whose blocks can be traced alone."""
    rungs = [version.name for version in ladder.RUNGS if version.number != 1 and not version.has_workspace]
    return [(name,) for name in (*rungs, *LAYOUTS)]


def toolkit() -> str:
    """The version of the linker that makes the machine code."""
    return importlib.metadata.version("nvidia-nvjitlink")


def inspection(name: str, arch: str) -> Entry:
    """The figures of `inspect`, and the name of the version."""
    return {"name": name, **inspect(name, arch=arch).to_dict()}


def wavefronts(name: str) -> Entry:
    """Wavefronts of shared memory for a tile of K, with the widths of accesses that the machine code has."""
    found = banks(name, arch=ARCH)
    totals = [field.name for field in fields(Banks) if field.name.endswith(("_per_tile", "_per_ffma"))]
    return {"name": name, **{total: getattr(found, total) for total in totals}}


def _key(entry: Entry) -> tuple[str, ...]:
    return (entry["name"], entry["arch"]) if "arch" in entry else (entry["name"],)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
