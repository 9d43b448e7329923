"""The packages that decide machine code and timing, and which of their versions do not fit together.

Imports none of them: some may be missing, or not fit together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata

#: The CUDA major version that is recommended where no driver says otherwise.
CUDA_MAJOR = 13

PACKAGES = (
    "numba-gemm",
    "numba",
    "numba-cuda",
    "numpy",
    "cuda-bindings",
    "cuda-core",
    # For CUDA 13, and with the suffix for CUDA 12.
    "nvidia-nvjitlink",
    "nvidia-nvvm",
    "nvidia-cuda-nvrtc",
    "nvidia-cublas",
    "nvidia-nvjitlink-cu12",
    "nvidia-cuda-nvcc-cu12",
    "nvidia-cuda-nvrtc-cu12",
    "nvidia-cublas-cu12",
    "torch",
    "triton",
)


def installed_packages(names: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Versions of those that are installed."""
    found = {}
    for package in names:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


# What does not fit -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """Things that are here and do not fit together."""

    text: str
    remedy: str


def find_problems(packages: Mapping[str, str], driver_cuda: str | None) -> list[Problem]:
    """Versions that are known not to work together.

    Args:
        packages: versions by name; a package that is not installed is absent.
        driver_cuda: the CUDA version that the driver is for, such as "13.0"; None without a driver.
    """
    return [problem for problem in (compiler_problem(packages), _driver(packages, driver_cuda)) if problem is not None]


def compiler_problem(packages: Mapping[str, str]) -> Problem | None:
    """Why kernels cannot be compiled; with it, Numba-CUDA cannot even be imported."""
    numpy, numba_cuda = packages.get("numpy"), packages.get("numba-cuda")
    if numba_cuda is None:
        remedy = f"pip install 'numba-gemm[cu{CUDA_MAJOR}]'"
        return Problem("numba-cuda is not installed: there is no compiler for kernels", remedy)
    if numpy is None or _version(numpy) < (2, 5) or _version(numba_cuda) >= (0, 31):
        return None
    return Problem(
        f"numba-cuda {numba_cuda} uses numpy.row_stack, which NumPy {numpy} does not have any more: no kernel can be "
        "compiled",
        "pip install 'numpy<2.5'",
    )


def _driver(packages: Mapping[str, str], driver_cuda: str | None) -> Problem | None:
    driver, toolkit = major(driver_cuda), major(packages.get("nvidia-nvjitlink"))
    if driver is None or toolkit is None or toolkit <= driver:
        return None
    return Problem(
        f"the compiler is for CUDA {toolkit}, and the driver for CUDA {driver_cuda}, which cannot load what it makes",
        f"pip install 'numba-gemm[cu{driver}]', or a newer driver",
    )


def major(version: str | None) -> int | None:
    """The first number of a version; None of none."""
    return _version(version)[0] if version else None


def _version(text: str) -> tuple[int, int]:
    """Major and minor."""
    numbers = [int(number) for number in re.findall(r"\d+", text)]
    first, second, *_ = [*numbers, 0, 0]
    return first, second
