"""Workspaces: the memory in which the blocks of a launch exchange partial sums, one for each stream.

A workspace holds partial sums, which need no initial value, and flags. Flags are zero before a launch, and a kernel
that has used one sets it back. So they are cleared once, when the memory is new, and a call costs two questions
to the driver, about the stream, and no further work on the device.

Launches on one stream run one after another, and can use the same memory. Launches on two streams may
run at once: concurrent streams never share a workspace, nor do two owners. Owners are a thread, for what `sgemm`
launches, and a plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from numba_gemm.driver import cuda_api
from numba_gemm.driver.cuda_api import DeviceMemory
from numba_gemm.kernels.interface import Part
from numba_gemm.tile import FLOAT_BYTES

#: In place of the number of the legacy default stream; others have none below 0.
_NUMBER_OF_DEFAULT = -1
#: Parts begin at a cache line of their own: 128 bytes, more than any access asks for.
_ALIGNMENT = 128


class Size(NamedTuple):
    """The bytes of parts that need no initial value, and of parts that are zero before a launch, and after it."""

    plain: int
    zeroed: int

    @classmethod
    def of(cls, parts: Sequence[Part]) -> Size:
        """The bytes that a workspace with these parts takes, each rounded up to the alignment."""
        return cls(
            sum(_nbytes(part) for part in parts if not part.zeroed), sum(_nbytes(part) for part in parts if part.zeroed)
        )


def _nbytes(part: Part) -> int:
    nbytes = part.length * np.dtype(part.dtype).itemsize
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT


class Workspace(NamedTuple):
    """Where a launch finds its workspace."""

    #: Addresses of the parts that need no initial value, and of those that are zero.
    plain: int
    zeroed: int
    #: Keeps the memory alive; None for what ends in stream order.
    memory: DeviceMemory | None = None

    def places(self, parts: Sequence[Part]) -> dict[str, int]:
        """The addresses of the parts, one behind the other."""
        plain, zeroed, found = self.plain, self.zeroed, {}
        for part in parts:
            if part.zeroed:
                found[part.name], zeroed = zeroed, zeroed + _nbytes(part)
            else:
                found[part.name], plain = plain, plain + _nbytes(part)
        return found


def allocate(size: Size, stream: int) -> Workspace:
    """A workspace on the current device for launches on one stream; it lives as long as the result."""
    memory = DeviceMemory(sum(size))
    return _cleared(memory.pointer, size, stream)._replace(memory=memory)


@contextmanager
def in_stream_order(size: Size, stream: int) -> Iterator[Workspace]:
    """A workspace that exists, in stream order, for what is enqueued inside the `with`, and cleared for it."""
    with cuda_api.device_memory(sum(size), stream) as pointer:
        yield _cleared(pointer, size, stream)


def _cleared(pointer: int, size: Size, stream: int) -> Workspace:
    cuda_api.zero_words(pointer + size.plain, size.zeroed // FLOAT_BYTES, stream)
    return Workspace(pointer, pointer + size.plain)


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
        self._kept: dict[tuple[int, int], tuple[Size, Workspace]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, size: Size, stream: int, device: int | None = None) -> Workspace | None:
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
            if size.plain <= of_kept.plain and size.zeroed <= of_kept.zeroed:
                return workspace
            size = Size(max(size.plain, of_kept.plain), max(size.zeroed, of_kept.zeroed))
        elif len(self._kept) >= self.MOST:
            del self._kept[next(iter(self._kept))]
        workspace = allocate(size, stream)
        self._kept[key] = (size, workspace)
        return workspace
