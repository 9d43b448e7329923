"""Workspaces: the memory in which the blocks of a launch exchange partial sums, one for each stream.

A workspace holds partial sums, which need no initial value, and flags. Flags are zero before a launch, and a kernel
that has used one sets it back. So they are cleared once, when the memory is new, and a call costs two questions
to the driver, about the stream, and no further work on the device.

Launches on one stream run one after another, and can use the same memory. Launches on two streams may
run at once: concurrent streams never share a workspace, nor do two owners. Owners are a thread, for what `sgemm`
launches, and a plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from numba_gemm.driver import cuda_api
from numba_gemm.driver.cuda_api import DeviceMemory
from numba_gemm.kernels.signatures import WorkspaceSize
from numba_gemm.tile import FLOAT_BYTES

#: In place of the number of the legacy default stream; others have none below 0.
_NUMBER_OF_DEFAULT = -1
#: Partial sums are written by 16 bytes; flags begin at a cache line of their own.
_ALIGNED_FLOATS = 32


class Workspace(NamedTuple):
    """Where a launch finds its workspace."""

    #: Addresses of the partial sums and of the flags.
    sums: int
    flags: int
    #: Keeps the memory alive; None for what ends in stream order.
    memory: DeviceMemory | None = None


def allocate(size: WorkspaceSize, stream: int) -> Workspace:
    """A workspace on the current device for launches on one stream; it lives as long as the result."""
    memory = DeviceMemory(_nbytes(size))
    return _cleared(memory.pointer, size, stream)._replace(memory=memory)


@contextmanager
def in_stream_order(size: WorkspaceSize, stream: int) -> Iterator[Workspace]:
    """A workspace that exists, in stream order, for what is enqueued inside the `with`, and cleared for it."""
    with cuda_api.device_memory(_nbytes(size), stream) as pointer:
        yield _cleared(pointer, size, stream)


def _nbytes(size: WorkspaceSize) -> int:
    return (_rounded(size.floats) + size.flags) * FLOAT_BYTES


def _cleared(pointer: int, size: WorkspaceSize, stream: int) -> Workspace:
    flags = pointer + _rounded(size.floats) * FLOAT_BYTES
    cuda_api.zero_words(flags, size.flags, stream)
    return Workspace(pointer, flags)


def _rounded(floats: int) -> int:
    return -(-floats // _ALIGNED_FLOATS) * _ALIGNED_FLOATS


class Workspaces:
    """The workspaces of one owner, one for each device and stream, as large as the largest launch there needed.

    For one thread at a time. They are freed with their owner.
    """

    #: Streams that keep theirs; one more, and the one that came first loses it, which waits for the device.
    MOST = 16

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        #: By device and number of the stream: a handle may be used again, by a stream that does not wait for
        #: what the one before has left to do.
        self._kept: dict[tuple[int, int], tuple[WorkspaceSize, Workspace]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, size: WorkspaceSize, stream: int, device: int | None = None) -> Workspace | None:
        """The workspace for a launch on that stream of the current device, at least that large.

        A caller that knows which device is the current one may say so.

        None while the stream is being captured: a graph runs at times of its own, on streams of its own, and must
        not share memory with anything. It needs a workspace `in_stream_order`, which becomes part of it.
        """
        if stream in cuda_api.LEGACY_DEFAULT:
            number = _NUMBER_OF_DEFAULT
        elif cuda_api.is_capturing(stream):
            return None
        else:
            number = cuda_api.stream_id(stream)
        key = (cuda_api.current_device() if device is None else device, number)
        kept = self._kept.get(key)
        if kept is not None:
            of_kept, workspace = kept
            if size.floats <= of_kept.floats and size.flags <= of_kept.flags:
                return workspace
            size = WorkspaceSize(max(size.floats, of_kept.floats), max(size.flags, of_kept.flags))
        elif len(self._kept) >= self.MOST:
            del self._kept[next(iter(self._kept))]
        workspace = allocate(size, stream)
        self._kept[key] = (size, workspace)
        return workspace
