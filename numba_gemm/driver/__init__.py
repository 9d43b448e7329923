"""From a problem to launches: operands, grids, memory, CUDA's driver; and `compare`, a version against cuBLAS."""

from numba_gemm.driver.compare import compare

__all__ = ["compare"]
