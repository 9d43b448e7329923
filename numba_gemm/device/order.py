"""A line that the compiler moves no load across: a barrier of the warp, which costs one instruction.

Compilers move a load down to where its value is used, across any amount of arithmetic, to save registers in between.
A load that has to set off early, so that the arithmetic hides it, must be kept from that. An empty `asm` with a
memory clobber does not do it: the assembler, which comes last, does not see it. It sees the barrier.
"""

from __future__ import annotations

from numba_gemm.compiler.target import SIMULATOR


def keep_order():
    """Loads before this line are issued before what follows it. All threads of a warp have to come here."""


if not SIMULATOR:
    from numba import cuda
    from numba.cuda.extending import overload

    @overload(keep_order, target="cuda")
    def _():
        return lambda: cuda.syncwarp()
