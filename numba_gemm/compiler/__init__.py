"""Numba's host side: what the library needs of the compiler, and adds to it and to the simulator.

Together with `numba_gemm.device` it holds all that touches Numba's extension interface, so that a port to another
compiler changes these two. `packages` can be imported where Numba-CUDA cannot.
"""
