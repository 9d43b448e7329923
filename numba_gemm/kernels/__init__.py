"""The ladder, one file a rung: read v1 to v5 in order, each as a diff of the one before.

A kernel computes C[M,N] = A[M,K] · B[K,N] on row-major float32 arrays. Each file holds, in this
order: the idea and its cost, `DEFAULT_TILE`, `make_kernel(tile)`, `launch_config(tile, m, n, k)`. One whose blocks
exchange partial sums also says, by `workspace`, how much memory a launch needs for that. One that leaves parts of
outputs there says so by `LEAVES_PARTS`, and how many by `parts_of`; `reduce` adds them up.

Conventions that hold in every file, because each of them decides machine code:

- Sizes are captured as `np.uint32` and thread indices start as `uint32(...)`. All index arithmetic
  is then unsigned; a signed index would cost a select for Python's negative indexing at each access.
- From rung 3 on, loops over tiles of K count by `while` and `k0 = uint32(k0 + BK)`: Numba computes uint32
  sums in 64 bits and gives `range` a second counter, and both would be carried in registers that the loop needs.
- Shapes of shared and local arrays are captured tuples of plain ints.
- Arrays are indexed as arrays, `As[m, k]`. The compiler flattens the offsets, and hoists them.
- Names: `row0`, `col0` are the block's corner in C; `m`, `n` the thread's corner inside the block;
  `k0` the first k of a tile, `k` a step inside it; capital `As`, `Bs` live in shared memory.
"""
