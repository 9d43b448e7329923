"""Numba's host side: what the library needs of the compiler, and adds to it and to the simulator.

Together with `numba_gemm.device` it holds all that touches Numba's extension interface, so that a port to another
compiler changes these two. `packages` and `sources` can be imported where Numba-CUDA cannot.
"""

from numba_gemm.compiler import sources as sources  # before all that it reads is imported
