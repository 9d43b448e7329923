"""The ladder, one file a rung: read v1 to v5 in order, each as a diff of the one before.

A kernel computes C[M,N] = A[M,K] · B[K,N] on row-major float32 arrays. Each file holds, in this
order: the idea and its cost, `DEFAULT_TILE`, facts for the library around it, `check(tile)`, `make_kernel(tile)`, and
`steps`, which says what is launched for a problem, and the workspace in which the blocks of these launches exchange
partial sums. `interface` has the words for all that. The words of the field are in notes/glossary.md.

Each file is to be read as a diff of the one before (`numba-gemm diff 2 3`): what stays is textually the same, and lines
that carry the new idea are marked `# new:`.

Conventions that hold in every file, because each of them decides machine code:

- Sizes are captured as `np.uint32` and thread indices start as `uint32(...)`. All index arithmetic
  is then unsigned; a signed index would cost a select for Python's negative indexing at each access.
- Loops over tiles of K count by `while` and `k0 = uint32(k0 + BK)`: Numba computes uint32 sums in 64 bits and gives
  `range` a second counter, and both would be carried in registers that the loop needs. Where it is the other way round,
  in rungs 2 and 5, a comment says so.
- Shapes stand at the ends of the lines that make an array: `As = …  # (BM, BK)`.
- Shapes of shared and local arrays are captured tuples of plain ints.
- Arrays are indexed as arrays, `As[m, k]`. The compiler flattens the offsets, and hoists them.
- Names: `row0`, `col0` are the block's corner in C; `m`, `n` the thread's corner inside the block;
  `k0` the first k of a tile, `k` a step inside it; capital `As`, `Bs` live in shared memory.
"""
