"""What callers may pass as `stream`, as the driver's integer handle."""

from __future__ import annotations

from typing import Any

from numba_gemm.compiler.target import SIMULATOR

DEFAULT_STREAM = 0


def stream_handle(stream: Any) -> int:
    """The handle of a Numba, cuda.core or PyTorch stream, of anything with `__cuda_stream__`, or an int.

    None is the default stream.

    Raises:
        TypeError: for anything else, saying what is accepted.

    """
    if stream is None:
        return DEFAULT_STREAM
    if isinstance(stream, int) and not isinstance(stream, bool):
        if stream < 0:
            raise TypeError(f"stream is {stream}; a stream handle is not negative")
        return stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        # The protocol is a method that returns (version, handle); early cuda.core had a property.
        _, handle = protocol() if callable(protocol) else protocol
        return int(handle)
    for attribute in ("cuda_stream", "ptr"):  # PyTorch; CuPy
        handle = getattr(stream, attribute, None)
        if isinstance(handle, int):
            return handle
    if SIMULATOR and type(stream).__module__.startswith("numba.cuda.simulator"):
        return DEFAULT_STREAM
    raise TypeError(
        f"stream is {stream!r}, of type {type(stream).__name__}; pass a Numba, cuda.core, PyTorch or CuPy stream, "
        "an object with __cuda_stream__, or an integer handle"
    )
