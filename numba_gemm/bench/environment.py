"""What a stored figure was measured on: the device, its driver and clocks, and the versions in use."""

from __future__ import annotations

import platform
from typing import Any

from cuda.bindings import driver as cu
from numba import cuda

from numba_gemm.compiler.packages import installed_packages
from numba_gemm.driver import cuda_api


def describe() -> dict[str, Any]:
    """A JSON object; names no host and no user."""
    device = cuda.get_current_device()
    return {
        "gpu": device.name.decode() if isinstance(device.name, bytes) else str(device.name),
        "compute_capability": ".".join(map(str, device.compute_capability)),
        "multiprocessors": int(device.MULTIPROCESSOR_COUNT),
        "maximum_clock_mhz": int(device.CLOCK_RATE) // 1000,
        "l2_bytes": int(device.L2_CACHE_SIZE),
        "cuda_driver": _cuda_version(int(cuda_api.checked("cuDriverGetVersion", cu.cuDriverGetVersion()))),
        "python": platform.python_version(),
        "packages": installed_packages(),
    }


def _cuda_version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"
