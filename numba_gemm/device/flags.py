"""Flags in global memory, by which one block tells another that its results are there.

`raise_flag(flags, index, thread)` says that all that the block has written so far can be read;
`take_flag(flags, index, thread)` waits for that, and sets the flag back, so that all are 0 again when a launch ends.
All threads of a block call them. Nothing but the number of a block orders it before another: blocks start in that
order, so a block may wait for those with lower numbers only. Then the lowest that has not finished never waits for one
that has not started, and the launch ends, on a device of any size.

Why it is safe, in the words of the PTX memory model: the barrier puts the writes of all threads before the fence of
thread 0, its fence and its atomic write of the flag are a release, the atomic read and the fence after it an acquire,
and the barrier puts that before the reads of all threads. A fence at the device's scope also discards what the
multiprocessor's L1 has kept, so that ordinary loads see what another one has written.
"""

from __future__ import annotations

from numba import cuda, uint32

from numba_gemm.compiler.target import SIMULATOR, device_function


@device_function
def raise_flag(flags, index, thread):
    """Set flags[index], when all threads of the block have called this; `thread` is the number in the block."""
    cuda.syncthreads()  # everybody has written …
    if thread == uint32(0):
        cuda.threadfence()  # … and whoever sees the flag sees that, too
        cuda.atomic.exch(flags, index, uint32(1))


if SIMULATOR:

    @device_function
    def take_flag(flags, index, thread):
        if thread == 0 and cuda.atomic.cas(flags, index, 1, 0) == 0:
            raise RuntimeError(f"a block waits for flag {index}, which none of the blocks before it has raised")
        cuda.syncthreads()

else:

    @device_function
    def take_flag(flags, index, thread):
        """Wait until flags[index] is set, and clear it; all threads of the block call this."""
        if thread == uint32(0):
            while cuda.atomic.cas(flags, index, uint32(1), uint32(0)) == uint32(0):
                cuda.nanosleep(uint32(100))
            cuda.threadfence()
        cuda.syncthreads()
