"""Variants that teach by contrast: callable like the rungs, each with one thing changed.

Each file says against which rung it is to be read, what it changes, and what that costs. Where the whole kernel stands
in the file, lines that are new against the rung are marked; where only an index map differs, the file is that map
(over `layouts`, `v3_register.make_register_kernel` or `v5_cp_async.make_pipelined_kernel`). Figures are machine code
for sm_90, and wavefronts by `numba_gemm.analysis.code.banks` of one block for one tile of K.

From the naive kernel: naive_rows, naive_square, thread_tile. From rung 3: padded_rows. From rung 4: untransposed,
padded_columns, split_columns, swizzled, register_prefetch. From rung 5: cp_async_ptx, cp_async_intrinsic, cp_async_b,
cp_async_k_major. The ladder for the RTX 5080: ex3 to ex6 are kernels from elsewhere with their own tiles, then
ex7_along_k and ex8_warp_tiled.
"""
