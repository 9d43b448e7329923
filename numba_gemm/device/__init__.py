"""Device functions: only what kernels call, such as vector accesses, asynchronous copies and copies of tiles.

Each helper is an ordinary Python function, which is what runs in Numba's simulator; `overload` gives the same name its
machine code on a GPU. The tests hold the two against each other. Numba's host side is in `numba_gemm.compiler`.
"""
