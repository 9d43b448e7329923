"""Run a Python program under `ncu` (Nsight Compute) and read what it counts, one row a launch of ours."""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from cuda.pathfinder import find_nvidia_binary_utility
from numba import cuda

from numba_gemm import ladder
from numba_gemm.analysis.code.machine_code import ARCHITECTURES
from numba_gemm.driver.operands import as_operand
from numba_gemm.driver.product import Operands, prepare_product


class NoCountersError(RuntimeError):
    """There are no counters here, or nobody may read them."""


def multiply_once(names: Sequence[str], shape: tuple[int, int, int]) -> None:
    """Every version once, with its default tile, on matrices of zeros."""
    m, n, k = shape
    matrices = [cuda.to_device(np.zeros(size, np.float32)) for size in ((m, k), (k, n), (m, n))]
    operands = Operands(*(as_operand(matrix, name, 0) for matrix, name in zip(matrices, "abc", strict=True)))
    for name in names:
        version = ladder.find(name)
        prepare_product(version, version.default_tile, operands).launch(operands, 1.0, 0.0, 0)
        cuda.synchronize()


def parse(text: str) -> list[dict[str, str]]:
    """The rows of `ncu --csv --page raw`, one a launch of ours in order, by column; below the header are units."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(lines))[1:]
    ours = ("pattern_load", "pattern_store", "crowd_store", "sgemm")
    return [row for row in rows if any(name in row["Kernel Name"] for name in ours)]


def counted(row: dict[str, str], metric: str) -> int | None:
    """A counter, None where this GPU has none."""
    text = row.get(metric, "").replace(",", "")
    try:
        return round(float(text))
    except ValueError:
        return None


def ncu() -> str:
    """The profiler.

    Raises:
        NoCountersError: if there is none.

    """
    found = shutil.which("ncu")
    if found is None:
        raise NoCountersError("there is no ncu on the path: install Nsight Compute")
    return found


def available() -> list[str]:
    """The counters that `ncu` knows here, without the `.sum` and the like behind them.

    Raises:
        NoCountersError: if there is no ncu.

    """
    return subprocess.run([ncu(), "--query-metrics"], capture_output=True, text=True, check=False).stdout.split()


def profile(metrics: Sequence[str], arguments: Sequence[str], launches: int) -> list[dict[str, str]]:
    """What ncu counts of so many launches of ours while Python runs with these arguments, one row a launch.

    Raises:
        NoCountersError: without ncu, or without the permission to read counters.
        RuntimeError: if ncu or what it runs fails, or there are more or fewer launches.

    """
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "ncu.csv")
        command = [ncu(), "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none"]
        command += ["--log-file", str(log), "--metrics", ",".join(metrics)]
        done = subprocess.run([*command, sys.executable, *arguments], capture_output=True, text=True, check=False)
        text = log.read_text(encoding="utf-8") if log.exists() else ""
    if "ERR_NVGPUCTRPERM" in text + done.stdout + done.stderr:
        raise NoCountersError("the driver lets only the administrator read counters (ERR_NVGPUCTRPERM)")
    if done.returncode:
        errors = [line for line in text.splitlines() if line.startswith("==ERROR==")]
        raise RuntimeError("\n".join((f"ncu: exit status {done.returncode}", *errors, done.stdout, done.stderr)))
    rows = parse(text)
    if len(rows) != launches:
        raise RuntimeError(f"ncu reports {len(rows)} launches instead of {launches}:\n{text[:2000]}")
    return rows


def architecture() -> str | None:
    """The one of this GPU, as `inspect` knows it; None where nothing can be compiled for it and disassembled.

    Raises:
        NoCountersError: without a GPU.

    """
    if not cuda.is_available():
        raise NoCountersError("there is no GPU")
    major, minor = cuda.get_current_device().compute_capability
    arch = f"sm_{major}{minor}"
    return arch if find_nvidia_binary_utility("nvdisasm") and arch in ARCHITECTURES else None
