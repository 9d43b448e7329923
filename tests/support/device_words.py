"""32-bit words in the memory of the device, or of the simulator, by their address."""

import ctypes

import numpy as np
from numba import cuda

from numba_gemm.compiler.target import SIMULATOR
from numba_gemm.driver import cuda_api


def words(pointer, count):
    """What is there, after all that has been enqueued."""
    host = np.empty(count, np.uint32)
    if SIMULATOR:
        ctypes.memmove(host.ctypes.data, pointer, host.nbytes)
    elif count:
        cuda.synchronize()
        cuda_api.checked("cuMemcpyDtoH", cuda_api.cu.cuMemcpyDtoH(host.ctypes.data, pointer, host.nbytes))
    return host


def set_words(pointer, values):
    """Write words, and wait until they are there."""
    host = np.ascontiguousarray(values, np.uint32)
    if SIMULATOR:
        ctypes.memmove(pointer, host.ctypes.data, host.nbytes)
    else:
        cuda_api.checked("cuMemcpyHtoD", cuda_api.cu.cuMemcpyHtoD(pointer, host.ctypes.data, host.nbytes))
