"""The SGEMM optimisation ladder as readable Numba-CUDA kernels."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from numba_gemm._version import __version__ as __version__
from numba_gemm.compiler.packages import compiler_problem, installed_packages

if TYPE_CHECKING:
    from numba_gemm.analysis.code.inspection import inspect
    from numba_gemm.analysis.models.explain import explain
    from numba_gemm.bench.tune import Tuning, tune

_problem = compiler_problem(installed_packages(("numpy", "numba-cuda")))

if _problem is None:
    from numba_gemm.calls.gemv import gemv
    from numba_gemm.calls.padded import padded
    from numba_gemm.calls.plan import Plan, plan
    from numba_gemm.calls.sgemm import sgemm
    from numba_gemm.ladder import VERSIONS, Version
    from numba_gemm.tile import Tile

#: Public names that a product has no use for, and the modules that are imported when one of them is first asked for.
_LAZY = {
    "Tuning": "numba_gemm.bench.tune",
    "explain": "numba_gemm.analysis.models.explain",
    "inspect": "numba_gemm.analysis.code.inspection",
    "tune": "numba_gemm.bench.tune",
}

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


def __getattr__(name: str) -> Any:
    if _problem is not None:
        # Numba-CUDA cannot even be imported; `numba-gemm info` still works, and says so.
        raise ImportError(f"no {name}: {_problem.text}: {_problem.remedy}")
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_LAZY[name]), name)
    globals()[name] = found  # not asked for here again
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
