"""What kernels call: vector access, asynchronous copies, unrolling.

Everything that touches Numba-CUDA's extension interface is in this folder, so that a port to another
compiler has one folder to change. Each helper is an ordinary Python function, which is what runs in
Numba's simulator; `overload` gives the same name its machine code on a GPU. The tests hold the two
against each other.
"""

from numba_gemm.device.target import SIMULATOR, device_function, launch_bounds

__all__ = ["SIMULATOR", "device_function", "launch_bounds"]
