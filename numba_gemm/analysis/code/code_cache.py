"""What was compiled and disassembled to look at it, on disk: looking at a kernel again takes no compiler.

Launches have a store of their own, see `compiler.disk_cache`. Both keep an entry a file under all that it depends on:
an edited source file, another tile or another compiler is another entry, and none is ever out of date.
`NUMBA_GEMM_CODE_CACHE=0` in the environment compiles everything anew.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from cuda.pathfinder import find_nvidia_binary_utility

from numba_gemm.compiler.store import Store
from numba_gemm.compiler.toolchain import file_state, settings, toolchain

INSPECTED = Store("machine_code", switch="NUMBA_GEMM_CODE_CACHE", limit="NUMBA_GEMM_CODE_CACHE_BYTES")


def key(*parts: Any) -> str:
    """That of an entry which depends on `parts`, which have to say all in their `repr`, and on the compiler."""
    return repr((parts, toolchain(), sorted(settings().items()), _disassembler()))


@cache
def _disassembler() -> tuple[str, int, int] | None:
    return file_state(find_nvidia_binary_utility("nvdisasm"))
