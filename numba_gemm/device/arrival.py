"""Which of several blocks comes last, so that it can finish what all of them have begun, and nobody waits.

Each block writes its results, then counts itself. The last one to do so knows that all results are there. It sets the
counter back, so that the next launch finds it at zero.
"""

from __future__ import annotations

from numba import cuda, int32, uint32


def arrives_last(flags, index, blocks, thread):
    """Whether this block is the last of `blocks` that call this with the same index; all its threads call it.

    What threads of those blocks wrote before their calls can be read after a call that returned True.
    """
    cuda.syncthreads()  # everybody has written …
    last = int32(0)
    if thread == uint32(0):
        cuda.threadfence()  # … and whoever sees the count sees that, too
        if cuda.atomic.add(flags, index, uint32(1)) == blocks - uint32(1):
            flags[index] = uint32(0)
            last = int32(1)
        cuda.threadfence()  # nothing that is read from here on was read before
    return cuda.syncthreads_or(last) != 0
