"""What was compiled offline, on disk in the user's cache folder: looking at a kernel again takes no compiler.

Numba's own cache, see `device/cache.py`, serves launches and needs a GPU. This one holds an entry a file, a compressed
JSON object, under the digest of all that it depends on. An edited source file, another tile or another compiler is
therefore another entry, and none is ever out of date; one that nobody used for a month is removed.

Any number of processes may read and write at once: a file appears in one step, whole, and two that compile the same
write the same. A file that cannot be read, or is damaged (gzip has a checksum), counts as none; where the folder cannot
be written, nothing is kept. `NUMBA_GEMM_CODE_CACHE=0` in the environment compiles everything anew.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from cuda.pathfinder import DynamicLibNotFoundError, find_nvidia_binary_utility, load_nvidia_dynamic_lib
from platformdirs import user_cache_path

from numba_gemm.compiler.whole_file import replace_file

OPT_OUT = "NUMBA_GEMM_CODE_CACHE"
KEPT_SECONDS = 30 * 24 * 3600

#: What takes part between Python and machine code: packages, and NVIDIA's libraries (libdevice comes with nvvm).
_PACKAGES = ("numba", "numba-cuda", "llvmlite", "numpy", "cuda-core")
_LIBRARIES = ("nvvm", "nvrtc", "nvJitLink")


def enabled() -> bool:
    """Whether entries are read and written: unless the environment says NUMBA_GEMM_CODE_CACHE=0."""
    return os.environ.get(OPT_OUT) != "0"


def folder() -> Path:
    """Where the entries are."""
    return user_cache_path("numba_gemm") / "machine_code"


def key(*parts: Any) -> str:
    """The name of an entry that depends on `parts`, which have to say all in their `repr`, and on the compiler."""
    return hashlib.sha256(repr((parts, compiler())).encode()).hexdigest()


@cache
def compiler() -> tuple[Any, ...]:
    """Python, the packages and the tools that make machine code and its disassembly.

    A library's version alone would not do, since a patch release changes machine code and does not change what the
    library says: its file has to be the same one.
    """
    packages = tuple((name, metadata.version(name)) for name in _PACKAGES)
    return (sys.version, packages, *map(_state, _tools()))


def _tools() -> Iterator[str | None]:
    for name in _LIBRARIES:
        try:
            yield load_nvidia_dynamic_lib(name).abs_path
        except DynamicLibNotFoundError:  # the compiler will say so
            yield None
    yield find_nvidia_binary_utility("nvdisasm")


def _state(path: str | None) -> tuple[str, int, int] | None:
    if path is None:
        return None
    stat = Path(path).stat()
    return path, stat.st_size, stat.st_mtime_ns


def load(name: str) -> dict[str, Any] | None:
    """An entry; None if there is none that can be used, or by opt-out."""
    if not enabled():
        return None
    path = folder() / name
    try:
        record = json.loads(gzip.decompress(path.read_bytes()))
    except (OSError, EOFError, zlib.error, ValueError, RecursionError):
        return None
    with suppress(OSError):
        path.touch()  # used now
    return record if isinstance(record, dict) else None


def store(name: str, record: dict[str, Any]) -> None:
    """Keep an entry, in place of what has its name; does nothing where the folder cannot be written, or by opt-out."""
    if not enabled():
        return
    data = gzip.compress(json.dumps(record).encode(), compresslevel=1)
    try:
        folder().mkdir(parents=True, exist_ok=True)
        replace_file(folder() / name, data)
        _remove_unused(folder())
    except OSError:
        return


@cache
def _remove_unused(where: Path) -> None:
    """Once a process: files that nobody used for a month, those of interrupted writers among them."""
    for path in where.iterdir():
        if time.time() - path.stat().st_mtime > KEPT_SECONDS:
            path.unlink(missing_ok=True)
