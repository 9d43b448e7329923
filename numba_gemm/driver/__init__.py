"""From a product to launches: operands, grids, memory, the driver's interface; and `compare`."""

from numba_gemm.driver.multiply import compare

__all__ = ["compare"]
