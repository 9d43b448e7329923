"""32-bit words in the memory of the device, or of the simulator, by their address."""

import ctypes

import numpy as np
from numba import cuda

from numba_gemm import runtime
from numba_gemm.device import SIMULATOR


def words(pointer, count):
    """What is there, after all that has been enqueued."""
    host = np.empty(count, np.uint32)
    if SIMULATOR:
        ctypes.memmove(host.ctypes.data, pointer, host.nbytes)
    elif count:
        cuda.synchronize()
        runtime.checked("cuMemcpyDtoH", runtime.cu.cuMemcpyDtoH(host.ctypes.data, pointer, host.nbytes))
    return host


def set_words(pointer, values):
    """Write words, and wait until they are there."""
    host = np.ascontiguousarray(values, np.uint32)
    if SIMULATOR:
        ctypes.memmove(pointer, host.ctypes.data, host.nbytes)
    else:
        runtime.checked("cuMemcpyHtoD", runtime.cu.cuMemcpyHtoD(pointer, host.ctypes.data, host.nbytes))
