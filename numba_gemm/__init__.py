"""The SGEMM optimisation ladder as readable Numba-CUDA kernels."""

from typing import Any

from numba_gemm.compiler.packages import compiler_problem, installed_packages

_problem = compiler_problem(installed_packages(("numpy", "numba-cuda")))

if _problem is None:
    from numba_gemm.bench.tune import Tuning, tune
    from numba_gemm.calls.gemv import gemv
    from numba_gemm.calls.padded import padded
    from numba_gemm.calls.plan import Plan, plan
    from numba_gemm.calls.sgemm import sgemm
    from numba_gemm.explaining import explain
    from numba_gemm.inspecting import inspect
    from numba_gemm.ladder import VERSIONS, Version
    from numba_gemm.tile import Tile
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
