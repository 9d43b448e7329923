"""How many blocks of a loaded kernel fit on a multiprocessor, by the driver's own calculation."""

from __future__ import annotations

from cuda.bindings import driver

from numba_gemm.driver.cuda_api import checked


def resident_blocks(function: int, threads: int, dynamic_shared_bytes: int) -> int:
    """How many blocks of a kernel a multiprocessor holds at once.

    Args:
        function: the kernel as it is loaded on the current device, the handle of a CUfunction.
        threads: per block.
        dynamic_shared_bytes: per block, besides its static shared memory.

    Raises:
        DriverError: if the driver fails.
    """
    counted = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(function, threads, dynamic_shared_bytes)
    return int(checked("cuOccupancyMaxActiveBlocksPerMultiprocessor", counted))
