"""One compilation at a time, and for which device.

Numba compiles for the device that is current, which it asks the driver for; a lock of its own keeps other threads out
of parts of it. To compile for another device, or without one, Numba is told of a device that may not be there: in the
thread that compiles, for as long as it does. Other threads go on with the real one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from types import SimpleNamespace
from typing import Any

from numba_gemm.compiler.target import SIMULATOR

#: Held while anything is compiled, by Numba itself too; a thread that holds it may take it again.
COMPILING: AbstractContextManager[Any]

if SIMULATOR:
    COMPILING = threading.RLock()
else:
    from numba.cuda import dispatcher
    from numba.cuda.core.compiler_lock import global_compiler_lock

    COMPILING = global_compiler_lock


@contextmanager
def pretended_device(compute_capability: tuple[int, int]) -> Iterator[None]:
    """Hold the lock, and let Numba see a device of this compute capability in this thread, where there may be none.

    `cuda.compile` takes the capability as an argument, but the device functions that a kernel calls are
    compiled by their dispatchers, and those ask the current device, which would start the driver.
    """
    thread = threading.get_ident()
    pretended = SimpleNamespace(compute_capability=compute_capability)
    with COMPILING:
        current = dispatcher.get_current_device
        dispatcher.get_current_device = lambda: pretended if threading.get_ident() == thread else current()
        try:
            yield
        finally:
            dispatcher.get_current_device = current


def current_compute_capability() -> tuple[int, int]:
    """That of the device for which Numba compiles now in this thread."""
    major, minor = dispatcher.get_current_device().compute_capability
    return major, minor
