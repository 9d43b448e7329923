"""Machine code of every kernel of the library, one file each, and what differs between two such folders.

    python scripts/cubins.py write FOLDER [--arch sm_90]       # in a checkout; repeat in another one
    python scripts/cubins.py compare FOLDER OTHER

For a change that must not change a kernel: write before and after it, and compare. Kernels are those of all versions,
with the default tile, the tile of the simulator's tests and all tiles that `"auto"` may take; for versions that take
any shape and layout also edges, transposes, unaligned operands and epilogues; and the two that follow or prepare
others, the reduction and the copy. Nothing needs a GPU. What `write` finds in the folder it does not compile again.
"""

from __future__ import annotations

import argparse
import hashlib
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from numba_gemm.ladder import VERSIONS

try:
    from numba_gemm.analysis.code.machine_code import compile_kernel
    from numba_gemm.auto.candidates import TILES
    from numba_gemm.device.async_copy import foreign_source
    from numba_gemm.device.epilogue import Epilogue
    from numba_gemm.kernels import reduce, staging
    from numba_gemm.kernels.interface import STAGING, Variant
except ImportError:  # a checkout from before the packages `auto` and `analysis.code`
    from numba_gemm.analysis.machine_code import compile_kernel
    from numba_gemm.kernels.signatures import STAGING
    from numba_gemm.tuning.candidates import _TILES as TILES
    from numba_gemm.variant import Variant

    from numba_gemm.device.async_copy import foreign_source
    from numba_gemm.device.epilogue import Epilogue
    from numba_gemm.kernels import reduce, staging

#: Whole matrices come first; the others are compiled for default tiles only.
VARIANTS = {
    "whole": Variant(),
    "edges": Variant(whole=False),
    "transposed": Variant(a_along_k=False, b_along_k=True),
    "unaligned": Variant(whole=False, vector=False),
    "bias-gelu": Variant(epilogue=Epilogue(bias=True, activation="gelu")),
}


#: Sections whose contents count, by how their names begin: code, constants, and shared memory, which has no contents.
COMPARED = (".text.", ".nv.constant", ".nv.shared.")
NO_BITS = 8


class Kernel(NamedTuple):
    """One kernel to compile."""

    name: str
    make: Callable[[], Any]
    signature: Any
    foreign: tuple[str, ...] = ()


def kernels() -> Iterator[Kernel]:
    """All of them."""
    for version in VERSIONS:
        traits = getattr(version, "traits", version)
        tiles = dict.fromkeys((version.default_tile, version.small_tile, *TILES.get(version.name, ())))
        for tile in tiles:
            variants: dict[str, Variant | None] = {"plain": None}
            if traits.takes_variants:
                variants = dict(VARIANTS) if tile == version.default_tile else {"whole": Variant()}
            for label, variant in variants.items():
                if variant is not None and traits.few_rows:
                    variant = replace(variant, rows=tile.bm, whole=False)
                yield Kernel(
                    f"{version.name} {text_of(tile)} {label}",
                    lambda version=version, tile=tile, variant=variant: version.make_kernel(tile, variant),
                    version.signature,
                    traits.foreign_files,
                )
    tile = next(version for version in VERSIONS if version.name == "split_k").default_tile
    for label, variant in VARIANTS.items():
        variant = reduce.variant_of(variant)
        yield Kernel(f"reduce {label}", lambda variant=variant: reduce.make_kernel(tile, variant), reduce.SIGNATURE)
    yield Kernel("staging", staging.make_kernel, STAGING)


def text_of(tile: Any) -> str:
    """The sizes of a tile, for a file's name."""
    return "x".join(str(getattr(tile, name)) for name in ("bm", "bn", "bk", "tm", "tn", "stages", "wm", "wn", "tk"))


def write(folder: Path, arch: str) -> None:
    """Compile all kernels for an architecture."""
    folder.mkdir(parents=True, exist_ok=True)
    for kernel in kernels():
        path = folder / f"{kernel.name.replace(' ', '_')}.{arch}.cubin"
        if path.exists():
            continue
        foreign = [foreign_source(name) for name in kernel.foreign]
        code = compile_kernel(kernel.make(), kernel.signature, arch, foreign, lineinfo=False)
        path.write_bytes(code.cubin)


def compare(folder: Path, other: Path) -> int:
    """Print what is only in one folder, and what is in both and differs; the exit status."""
    names, others = ({path.name for path in each.glob("*.cubin")} for each in (folder, other))
    for name in sorted(names ^ others):
        print(f"only in {folder if name in names else other}: {name}")
    differing = [name for name in sorted(names & others) if digest(folder / name) != digest(other / name)]
    for name in differing:
        print(f"differs: {name}")
    print(
        f"{len(names & others) - len(differing)} the same, {len(differing)} differ, {len(names ^ others)} in one only"
    )
    return 1 if differing or names != others or not names else 0


def digest(path: Path) -> str:
    """Of what runs: the code of all functions, their registers, and constants; not of names.

    Numba numbers the functions of a process in the order in which it meets them, and the number is part of each name.
    """
    elf = path.read_bytes()
    start, size, count, names_index = (
        *struct.unpack_from("<Q", elf, 0x28),
        *struct.unpack_from("<HHH", elf, 0x3A),
    )
    headers = [struct.unpack_from("<IIQQQQIIQQ", elf, start + index * size) for index in range(count)]
    names_at = headers[names_index][4]
    found = []
    for name_at, kind, _, _, offset, nbytes, _, info, _, _ in headers:
        name = elf[names_at + name_at : elf.index(b"\0", names_at + name_at)].decode()
        prefix = next((prefix for prefix in COMPARED if name.startswith(prefix)), None)
        if prefix is not None:
            contents = b"" if kind == NO_BITS else elf[offset : offset + nbytes]
            registers = info >> 24 if prefix == ".text." else 0
            found.append((prefix, nbytes, registers, hashlib.sha256(contents).hexdigest()))
    assert found, f"{path} has no code"
    return repr(sorted(found))


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    writing = verbs.add_parser("write")
    writing.add_argument("folder", type=Path)
    writing.add_argument("--arch", action="append", help="default: sm_80 and sm_90")
    comparing = verbs.add_parser("compare")
    comparing.add_argument("folder", type=Path)
    comparing.add_argument("other", type=Path)
    given = parser.parse_args()
    if given.verb == "compare":
        return compare(given.folder, given.other)
    for arch in given.arch or ("sm_80", "sm_90"):
        write(given.folder, arch)
    return 0


if __name__ == "__main__":
    sys.exit(main())
