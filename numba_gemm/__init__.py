"""The SGEMM optimisation ladder as readable Numba-CUDA kernels."""

from typing import Any

from numba_gemm.packages import compiler_problem, installed_packages

_problem = compiler_problem(installed_packages(("numpy", "numba-cuda")))

if _problem is None:
    from numba_gemm.api import sgemm
    from numba_gemm.explaining import explain
    from numba_gemm.inspecting import inspect
    from numba_gemm.ladder import VERSIONS, Version
    from numba_gemm.padding import padded
    from numba_gemm.planning import Plan, plan
    from numba_gemm.tile import Tile
    from numba_gemm.tuning.tune import Tuning, tune
    from numba_gemm.vector_product import gemv
else:
    # Numba-CUDA cannot even be imported; `numba-gemm info` still works, and says so.
    _why_not = f"{_problem.text}: {_problem.remedy}"

    def __getattr__(name: str) -> Any:
        raise ImportError(f"no {name}: {_why_not}")


__all__ = [
    "VERSIONS",
    "Plan",
    "Tile",
    "Tuning",
    "Version",
    "explain",
    "gemv",
    "inspect",
    "padded",
    "plan",
    "sgemm",
    "tune",
]
__version__ = "0.1.0"
