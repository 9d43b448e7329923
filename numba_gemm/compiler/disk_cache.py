"""Compiled kernels on disk, under a key that knows everything the machine code depends on.

Numba's own key holds the kernel's bytecode and closure but not the helper modules that it calls: an
edited helper would be served the old machine code. Here the key is the tile, the kernel's module, and a
fingerprint of every source file of the package that can end up in a kernel.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from numba_gemm.compiler.target import SIMULATOR

#: What can end up in machine code, relative to the package.
_SOURCES = ("compiler/*.py", "device/*.py", "kernels/**/*.py", "tile.py")


@cache
def fingerprint() -> str:
    """SHA-256 over the sources that kernels are made of."""
    root = Path(str(resources.files("numba_gemm")))
    return fingerprint_of(sorted(path for pattern in _SOURCES for path in root.glob(pattern)))


def fingerprint_of(paths: list[Path]) -> str:
    """SHA-256 over names and contents of files."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def enable_disk_cache(kernel: Any, identity: str) -> None:
    """Let `kernel` load and save its machine code under `identity` and the package's fingerprint.

    Does nothing where it cannot work: in the simulator, and where neither the package's folder nor the
    user's cache folder can be written.
    """
    if SIMULATOR:
        return
    from numba.cuda.dispatcher import CUDACache

    class FingerprintedCache(CUDACache):
        def _index_key(self, signature: Any, codegen: Any) -> tuple[Any, ...]:
            import numba_cuda

            # The codegen's tuple names the toolkit and the compute capability.
            return (signature, codegen.magic_tuple(), numba_cuda.__version__, identity, fingerprint())

    try:
        kernel._cache = FingerprintedCache(kernel.py_func)
    except RuntimeError:  # Numba: "cannot cache function …: no locator available"
        return
