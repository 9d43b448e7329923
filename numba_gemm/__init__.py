"""The SGEMM optimisation ladder as readable Numba-CUDA kernels."""

from numba_gemm.api import sgemm
from numba_gemm.inspecting import inspect
from numba_gemm.ladder import VERSIONS, Version
from numba_gemm.planning import Plan, plan
from numba_gemm.tile import Tile

__all__ = ["VERSIONS", "Plan", "Tile", "Version", "inspect", "plan", "sgemm"]
__version__ = "0.1.0"
