"""From a kernel in Python to machine code, for any architecture, with or without a GPU.

Numba compiles Python to LTO-IR, and nvJitLink links and optimises that, together with foreign device functions, to
machine code. Numba takes the same steps when it launches a kernel; on its way it makes PTX, too, which takes a fifth
of the time and which nothing here needs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cuda.core import Linker, LinkerOptions, ObjectCode, Program, ProgramOptions
from numba import cuda

from numba_gemm.compiler.compiling import pretended_device


@dataclass(frozen=True)
class Cubin:
    """A kernel's machine code.

    Attributes:
        name: of the kernel, in the machine code.
        code: an ELF image, as the driver loads it.
        log: what ptxas says about registers and spills.

    """

    name: str
    code: bytes = field(repr=False)
    log: str = field(repr=False)


def suffix(capability: tuple[int, int]) -> str:
    """Numba compiles for the architecture-specific features where there are any: "a" for sm_90a."""
    return "a" if capability >= (9, 0) else ""


def compile_cubin(
    kernel: Any,
    signature: Any,
    capability: tuple[int, int],
    foreign: Sequence[Path] = (),
    lineinfo: bool | None = None,
) -> Cubin:
    """Compile `kernel`, which `@cuda.jit(...)` returned, as Numba would on a device of this compute capability.

    Args:
        kernel: its launch bounds, register limit, line information, fast-math and optimisation options are honoured.
        signature: a Numba signature that returns void, or the types of the arguments.
        capability: such as (9, 0).
        foreign: `.cu` and `.ptx` files with the device functions that the kernel calls by `cuda.declare_device`.
        lineinfo: instead of as `kernel` says.

    Raises:
        ValueError: for a foreign file of another kind.
        RuntimeError: if the log of ptxas cannot be understood.

    """
    options = dict(kernel.targetoptions)
    if lineinfo is not None:
        options["lineinfo"] = lineinfo
    with pretended_device(capability):
        ltoir, _ = cuda.compile(
            kernel.py_func,
            signature,
            device=False,
            abi="numba",
            # With the suffix, as at run time: inline PTX may use instructions of sm_90a.
            cc=(*capability, suffix(capability)),
            output="ltoir",
            debug=options.get("debug"),
            opt=options.get("opt"),
            lineinfo=options.get("lineinfo", False),
            fastmath=options.get("fastmath", False),
            launch_bounds=options.get("launch_bounds"),
        )
    target = "sm_{}{}{}".format(*capability, suffix(capability))
    objects = [ObjectCode.from_ltoir(ltoir), *(_foreign_object(path, target) for path in foreign)]
    code, log = _link(objects, target, options)
    return Cubin(_entry_name(log), code, log)


def _foreign_object(path: Path, target: str) -> ObjectCode:
    if path.suffix == ".ptx":
        return ObjectCode.from_ptx(path.read_bytes(), name=path.name)
    if path.suffix != ".cu":
        raise ValueError(f"cannot link {path}: a foreign file is .cu or .ptx, not {path.suffix or 'without suffix'}")
    options = ProgramOptions(
        arch=target,
        name=path.name,
        # Without this NVRTC drops device functions that no kernel in the file calls: all of them.
        relocatable_device_code=True,
        link_time_optimization=True,
    )
    return Program(path.read_text(encoding="utf-8"), "c++", options).compile("ltoir")


def _link(objects: Sequence[ObjectCode], target: str, options: dict[str, Any]) -> tuple[bytes, str]:
    """The linked machine code, and what ptxas says about it."""
    linker_options = LinkerOptions(
        arch=target,
        link_time_optimization=True,
        max_register_count=options.get("max_registers") or None,
        lineinfo=options.get("lineinfo", False),
        ptxas_options=["-v"],
        # What nvJitLink takes from its cache, ptxas has not seen, and says nothing about.
        no_cache=True,
    )
    linker = Linker(*objects, options=linker_options)
    try:
        code = linker.link("cubin").code
        return bytes(code), linker.get_info_log()
    finally:
        linker.close()


def _entry_name(log: str) -> str:
    names: list[str] = re.findall(r"Compiling entry function '([^']+)' for", log)
    if len(names) != 1:
        raise RuntimeError(f"expected one kernel in the log of ptxas, found {len(names)} in:\n{log}")
    return names[0]
