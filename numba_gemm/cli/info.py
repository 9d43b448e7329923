"""`numba-gemm info`: what is here, what is missing and how to get it, and what does not fit together.

Looks without importing Numba, so that it works where nothing else does.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from numba_gemm.compiler.packages import CUDA_MAJOR, PACKAGES, Problem, find_problems, installed_packages, major
from numba_gemm.hardware.at_hand import at_hand


@dataclass(frozen=True)
class Missing:
    """Something that is not here: what it is for, and how to get it."""

    name: str
    purpose: str
    remedy: str


@dataclass(frozen=True)
class Info:
    """What this machine and environment have."""

    python: str
    gpu: dict[str, Any] | None
    driver: dict[str, str]
    #: Tools and libraries by name, and where they were found.
    tools: dict[str, str]
    packages: dict[str, str]
    settings: dict[str, str]
    missing: tuple[Missing, ...]
    problems: tuple[Problem, ...]

    @property
    def fits(self) -> bool:
        """Whether everything that is here works together; what is missing does not count."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def info() -> Info:
    """Look at this machine and environment."""
    gpu, why_no_gpu = _gpu()
    driver = _driver()
    packages = installed_packages()
    tools = {name: place for name, find in _TOOLS.items() if (place := find()) is not None}
    settings = {name: os.environ[name] for name in _SETTINGS if name in os.environ}
    missing = tuple(_missing(why_no_gpu, tools, major(driver.get("cuda"))))
    problems = tuple(find_problems(packages, driver.get("cuda")))
    return Info(platform.python_version(), gpu, driver, tools, packages, settings, missing, problems)


#: Environment variables that change what the package does.
_SETTINGS = (
    "NUMBA_ENABLE_CUDASIM",
    "NUMBA_GEMM_TUNING",
    "NUMBA_GEMM_KERNEL_CACHE",
    "NUMBA_GEMM_KERNEL_CACHE_BYTES",
    "NUMBA_GEMM_CODE_CACHE",
    "NUMBA_GEMM_CODE_CACHE_BYTES",
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_TF32_OVERRIDE",
    "CUDA_HOME",
)


# The device ------------------------------------------------------------------------------------------


def _gpu() -> tuple[dict[str, Any] | None, str]:
    """The GPU, or why there is none."""
    try:
        found = at_hand()
    except (RuntimeError, ValueError) as error:
        return None, str(error)
    if found is None:
        return None, "the CUDA driver is missing, or shows no device"
    facts = found.to_dict()
    names = ("name", "compute_capability", "multiprocessors", "clock_hz", "l2_bytes", "memory_bandwidth", "fp32_peak")
    return {name: facts[name] for name in names}, ""


def _driver() -> dict[str, str]:
    """The CUDA version that the driver is for, and its own version, as far as they can be had."""
    found = {}
    try:
        from cuda.bindings import driver

        status, number = driver.cuDriverGetVersion()
        if int(status) == 0:
            found["cuda"] = f"{number // 1000}.{number % 1000 // 10}"
    except (ImportError, RuntimeError, OSError):  # without libcuda the bindings raise RuntimeError
        pass
    release = _nvidia_smi()
    if release:
        found["version"] = release
    return found


def _nvidia_smi() -> str | None:
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    command = [program, "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return None
    lines = done.stdout.split()
    return lines[0] if lines else None


# Tools -----------------------------------------------------------------------------------------------


def _library(name: str) -> Callable[[], str | None]:
    def find() -> str | None:
        try:
            from cuda.pathfinder import load_nvidia_dynamic_lib

            return str(load_nvidia_dynamic_lib(name).abs_path)
        except (ImportError, RuntimeError, OSError):
            return None

    return find


def _binary(name: str) -> Callable[[], str | None]:
    def find() -> str | None:
        try:
            from cuda.pathfinder import find_nvidia_binary_utility

            return find_nvidia_binary_utility(name)
        except (ImportError, RuntimeError, OSError):
            return None

    return find


def _module(name: str) -> Callable[[], str | None]:
    def find() -> str | None:
        found = find_spec(name)
        return found.origin if found else None

    return find


_TOOLS: dict[str, Callable[[], str | None]] = {
    "nvJitLink": _library("nvJitLink"),
    "NVVM": _library("nvvm"),
    "NVRTC": _library("nvrtc"),
    "nvdisasm": _binary("nvdisasm"),
    "cuBLAS": _library("cublas"),
    "PyTorch": _module("torch"),
    "Triton": _module("triton"),
    "pytest-benchmark": _module("pytest_benchmark"),
}

_COMPILER = "compiles kernels: for the GPU, and to look at their machine code without one", "cu{major}"
#: What each tool is for, and the extra of this package that has it; none for what is installed by itself.
_PURPOSES: dict[str, tuple[str, str]] = {
    "nvJitLink": _COMPILER,
    "NVVM": _COMPILER,
    "NVRTC": _COMPILER,
    "nvdisasm": ("reads machine code for `inspect` and `explain --detail`", "inspect"),
    "cuBLAS": ("the baseline of `bench` and `demo` on a GPU", "cublas{major}"),
    "PyTorch": ("a peer in `bench`, and tensors as operands", ""),
    "Triton": ("a peer in `bench`", ""),
    "pytest-benchmark": ("`make bench`", "bench"),
}


def _missing(why_no_gpu: str, tools: Mapping[str, str], cuda_major: int | None) -> list[Missing]:
    found = []
    if why_no_gpu:
        found.append(
            Missing(
                f"a GPU ({why_no_gpu})",
                "runs the kernels: speed, `bench`, `tune`, the tests of what only hardware has; all else works without",
                "a machine with an NVIDIA GPU of compute capability 8.0 or above and a driver for CUDA 12 or 13",
            )
        )
    for name, (purpose, extra) in _PURPOSES.items():
        if name not in tools:
            package = f"'numba-gemm[{extra.format(major=cuda_major or CUDA_MAJOR)}]'" if extra else name.lower()
            package = {"pytorch": "torch"}.get(package, package)
            found.append(Missing(name, purpose, f"pip install {package}"))
    return found


# Showing it ------------------------------------------------------------------------------------------


def show(found: Info, console: Console) -> None:
    """Tables; what is wrong comes last, where it is seen."""
    rows = [("Python", f"{found.python}, {sys.executable}")]
    if found.gpu:
        gpu = found.gpu
        rows += [
            ("GPU", f"{gpu['name']}, compute capability {'.'.join(map(str, gpu['compute_capability']))}"),
            (
                "",
                f"{gpu['multiprocessors']} multiprocessors at {gpu['clock_hz'] / 1e6:.0f} MHz, "
                f"{gpu['fp32_peak'] / 1e12:.1f} TFLOP/s in FP32, {gpu['memory_bandwidth'] / 1e12:.2f} TB/s, "
                f"{gpu['l2_bytes'] / 2**20:.0f} MiB of L2",
            ),
        ]
    else:
        rows.append(("GPU", "none"))
    version, cuda = found.driver.get("version"), found.driver.get("cuda")
    rows.append(("driver", ", ".join(filter(None, (version, cuda and f"for CUDA {cuda}"))) or "none"))
    rows += list(found.tools.items())
    rows += [(f"{name}=", value) for name, value in found.settings.items()]
    console.print(_table(("what", "here"), rows))
    console.print(
        _table(("package", "version"), [(name, found.packages[name]) for name in PACKAGES if name in found.packages])
    )
    if found.missing:
        console.print(
            _table(("missing", "what for", "how to get it"), [(m.name, m.purpose, m.remedy) for m in found.missing])
        )
    for problem in found.problems:
        console.print(f"{problem.text}: {problem.remedy}", style="bold red", markup=False, highlight=False)


def _table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(cell.replace("[", r"\[") for cell in row))
    return table
