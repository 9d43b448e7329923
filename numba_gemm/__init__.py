"""The SGEMM optimisation ladder as readable Numba-CUDA kernels."""

from numba_gemm.api import sgemm
from numba_gemm.ladder import VERSIONS, Version
from numba_gemm.tile import Tile

__all__ = ["VERSIONS", "Tile", "Version", "sgemm"]
__version__ = "0.1.0"
