"""What decides machine code beside the program: Python, packages, NVIDIA's libraries, and Numba's settings."""

from __future__ import annotations

import re
import sys
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib
from numba import config

#: What takes part between Python and machine code: packages, and NVIDIA's libraries (libdevice comes with nvvm).
PACKAGES = ("numba", "numba-cuda", "llvmlite", "numpy", "cuda-core")
LIBRARIES = ("nvvm", "nvrtc", "nvJitLink")

#: Settings that decide no machine code of a GPU, and are other ones in another terminal or on another computer.
_APART = re.compile(
    ".*WARN|CACHE_|COLOR_|CPU_|CUDA_LOG_|ENABLE_AVX|NUMBA_.*NUM_THREADS|RUNNING_UNDER|THREADING_|.*SVML",
)


@cache
def toolchain() -> tuple[Any, ...]:
    """Python, the packages and the libraries that make machine code.

    A library's version alone would not do, since a patch release changes machine code and does not change what the
    library says: its file has to be the same one.
    """
    packages = tuple((name, metadata.version(name)) for name in PACKAGES)
    return (sys.version, packages, *(file_state(library_path(name)) for name in LIBRARIES))


def library_path(name: str) -> str | None:
    """Where one of NVIDIA's libraries is; None if there is none, which the compiler will say."""
    try:
        return str(load_nvidia_dynamic_lib(name).abs_path)
    except DynamicLibNotFoundError:
        return None


def file_state(path: str | None) -> tuple[str, int, int] | None:
    """What tells a file from the one that an update puts in its place."""
    if path is None:
        return None
    stat = Path(path).stat()
    return path, stat.st_size, stat.st_mtime_ns


def settings() -> dict[str, str]:
    """Numba's, as they are now: from the environment, from its file, or set since."""
    found = {name: repr(value) for name, value in vars(config).items() if name.isupper() and name[0] != "_"}
    return {name: value for name, value in found.items() if not _APART.match(name)}
