"""Compile a kernel to machine code for any architecture, without a GPU, and say what is in it.

It is compiled as it is for a launch, see `compiler.cubin`. The result is therefore what would run, including the
registers and spills that the assembler (ptxas) reports.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from cuda.pathfinder import find_nvidia_binary_utility

from numba_gemm.analysis.code import code_cache
from numba_gemm.compiler.cubin import Cubin, compile_cubin
from numba_gemm.compiler.sources import fingerprint, fingerprint_of
from numba_gemm.compiler.target import SIMULATOR
from numba_gemm.device.async_copy import foreign_source
from numba_gemm.kernels.interface import Variant
from numba_gemm.ladder import Version
from numba_gemm.tile import Tile

ARCHITECTURES = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")

# From compute capability 9.0 every block's static shared memory starts with 1 KB that belongs to the system.
_RESERVED_SHARED_BYTES = 1024

_PACKAGE = Path(__file__).parents[2]


@dataclass(frozen=True)
class MachineCode:
    """A kernel compiled for one architecture.

    Attributes:
        arch: the architecture as asked for, such as "sm_90".
        name: the mangled name of the kernel in the machine code.
        registers: 32-bit registers per thread, as final in the machine code.
        spill_store_bytes: bytes per thread that register spills store to local memory.
        spill_load_bytes: bytes per thread that register spills load from local memory.
        local_bytes: bytes per thread of the kernel's stack frame in local memory: spills, and arrays that
            found no place in registers. Frames of functions that it calls are not included.
        shared_bytes: bytes of static shared memory per block that the kernel declares.
        sass: disassembly of the kernel; functions that it calls are not included.
        cubin: the machine code as an ELF image, as the driver loads it.

    """

    arch: str
    name: str
    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    local_bytes: int
    shared_bytes: int
    sass: str = field(repr=False)
    cubin: bytes = field(repr=False)


def compile_version(
    version: Version, arch: str, tile: Tile | None = None, variant: Variant | None = None
) -> MachineCode:
    """A version's kernel as `compile_kernel` compiles it, or as it is kept on disk from an earlier time.

    The disassembly names the lines of source files, unless the version links a `.cu` file.

    Args:
        version: an entry of `VERSIONS`.
        arch: one of `ARCHITECTURES`.
        tile: the tile to compile for instead of the version's default.
        variant: for a version that takes variants, the one to compile; by default for whole row-major matrices.

    Raises:
        ValueError: for an unknown architecture.
        RuntimeError: like `compile_kernel`.

    """
    _require_compiler()
    tile = tile or version.default_tile
    foreign = [foreign_source(name) for name in version.traits.foreign_files]
    lineinfo = not any(path.suffix == ".cu" for path in foreign)
    kernel = version.make_kernel(tile, variant)
    entry = code_cache.key(
        (version.name, tile, variant or Variant()),
        (kernel.py_func.__module__, str(version.signature), sorted(kernel.targetoptions.items())),
        arch,
        # Paths of source files are part of the result.
        (str(_PACKAGE), *_sources(), fingerprint_of(foreign)),
    )
    kept = code_cache.INSPECTED.load(entry)
    if kept is not None:
        return MachineCode(**kept.facts, cubin=kept.data)
    code = compile_kernel(kernel, version.signature, arch, foreign, lineinfo)
    facts = asdict(code)
    cubin = facts.pop("cubin")
    code_cache.INSPECTED.keep(entry, facts, cubin)
    return code


@cache
def _sources() -> tuple[str, str]:
    """Fingerprints of what kernels are made of, and of how they are compiled, described and kept."""
    return fingerprint(), fingerprint_of([Path(__file__), Path(code_cache.__file__)])


_sources()  # now: a file that is edited later is another one than was imported


def compile_kernel(
    kernel: Any, signature: Any, arch: str, foreign: Sequence[str | Path] = (), lineinfo: bool | None = None
) -> MachineCode:
    """Compile `kernel` for `arch` as Numba would on such a GPU; needs neither a GPU nor a driver.

    Args:
        kernel: what `@cuda.jit(...)` returned. Its launch bounds, register limit, line information, fast-math
            and optimisation options are honoured.
        signature: a Numba signature that returns void: `types.void(float32[:, ::1], ...)`.
        arch: one of `ARCHITECTURES`.
        foreign: paths of the `.cu` and `.ptx` files that hold the device functions which the kernel calls by
            `cuda.declare_device(..., abi="c")`. A `.cu` file takes part in link-time optimisation, so that
            its functions can be inlined; those of a `.ptx` file are always called.
        lineinfo: whether the disassembly names lines of source files, instead of as `kernel` says. The
            instructions stay the same. Not together with a `.cu` file: its line information is of another version
            than Numba's, and the linker refuses the two.

    Device functions that the kernel calls are typed once per process: their Numba IR, not their machine code,
    is shared by all architectures. Other threads that compile wait, and then compile for their own devices.

    Raises:
        ValueError: for an unknown architecture or a foreign file of another kind.
        RuntimeError: in Numba's simulator, without nvdisasm, or when a tool's output cannot be understood.

    """
    _require_compiler()
    capability = _compute_capability(arch)
    cubin = compile_cubin(kernel, signature, capability, [Path(path) for path in foreign], lineinfo)
    return _describe(arch, cubin, _RESERVED_SHARED_BYTES if capability >= (9, 0) else 0)


def disassemble(cubin: bytes) -> str:
    """All sections of `cubin` as text, by nvdisasm; with lines of source files, where it has line information.

    Raises:
        RuntimeError: when nvdisasm is missing or fails.

    """
    nvdisasm = find_nvidia_binary_utility("nvdisasm")
    if nvdisasm is None:
        raise RuntimeError(
            "nvdisasm was not found: install it with `pip install 'numba-gemm[inspect]'` "
            "(part of the extra `dev`), or install a CUDA toolkit"
        )
    # nvdisasm reads files only.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        done = subprocess.run([nvdisasm, "--print-line-info", str(path)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(
            f"{nvdisasm} failed with exit status {done.returncode} (is it older than the compiler?): "
            f"{done.stderr.strip()}"
        )
    return done.stdout


def _require_compiler() -> None:
    if SIMULATOR:
        raise RuntimeError(
            "machine code cannot be compiled in Numba's simulator: unset NUMBA_ENABLE_CUDASIM and start again"
        )


def _compute_capability(arch: str) -> tuple[int, int]:
    if arch not in ARCHITECTURES:
        raise ValueError(f"unknown architecture {arch!r}: one of {', '.join(ARCHITECTURES)}")
    return divmod(int(arch.removeprefix("sm_")), 10)


def _describe(arch: str, cubin: Cubin, reserved_shared: int) -> MachineCode:
    name = cubin.name
    frame = _search(
        rf"Function properties for {re.escape(name)}\n.*?(\d+) bytes stack frame, "
        r"(\d+) bytes spill stores, (\d+) bytes spill loads",
        cubin.log,
        "the log of ptxas",
    )
    local, stores, loads = map(int, frame.groups())
    sections = _sections(disassemble(cubin.code))
    return MachineCode(
        arch=arch,
        name=name,
        registers=_registers(sections, name),
        spill_store_bytes=stores,
        spill_load_bytes=loads,
        local_bytes=local,
        shared_bytes=_shared_bytes(sections, name, reserved_shared),
        sass=_section(sections, f".text.{name}"),
        cubin=cubin.code,
    )


def _search(pattern: str, text: str, what: str) -> re.Match[str]:
    found = re.search(pattern, text)
    if found is None:
        raise RuntimeError(f"{what} is not as expected, nothing matches {pattern!r} in:\n{text}")
    return found


def _sections(disassembly: str) -> dict[str, str]:
    """Text of every ELF section by its name."""
    headed = re.split(r"^//-{5,} (\S+).*$", disassembly, flags=re.MULTILINE)
    return dict(zip(headed[1::2], headed[2::2], strict=True))


def _section(sections: dict[str, str], name: str) -> str:
    if name not in sections:
        raise RuntimeError(f"no section {name} in the disassembly, only: {', '.join(sections)}")
    return sections[name]


def _registers(sections: dict[str, str], name: str) -> int:
    """Registers per thread of the linked kernel.

    The log of ptxas has a figure too, but from before the link: a called function of a `.ptx` file that needs
    more registers than its caller raises the kernel's count, and ptxas has not seen it.
    """
    for attribute in _section(sections, ".nv.info").split("//-----"):
        if "EIATTR_REGCOUNT" in attribute and f"index@({name})" in attribute:
            return int(_search(r"index@.*\n.*\.word\s+(0x[0-9a-f]+)", attribute, "EIATTR_REGCOUNT")[1], 16)
    raise RuntimeError(f"no register count (EIATTR_REGCOUNT) of {name} in the machine code")


def _shared_bytes(sections: dict[str, str], name: str, reserved: int) -> int:
    """Static shared memory per block; the log of ptxas omits it where a `.ptx` file is linked."""
    section = sections.get(f".nv.shared.{name}")
    size = re.search(r"\.zero\s+(\d+)", section or "")
    # Dynamic shared memory alone has an empty section, or none, or just what the system reserves.
    return int(size[1]) - reserved if size else 0
