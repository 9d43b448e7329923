"""All that the library knows of PyTorch's tensors: how they are read, and how a kind of them is recognised again.

PyTorch is never imported here: only who has it can have a tensor.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from numba_gemm.problem import Operand

#: Reads an array's description: (array, name, stream).
Reader = Callable[[Any, str, int], Operand]


def is_tensor_type(kind: type) -> bool:
    """Whether arrays of a type are tensors."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and issubclass(kind, torch.Tensor)


def make_reader(refuse_dtype: Callable[[str, str], None]) -> Reader:
    """Reads tensors by their own attributes: the array interface would cost ten times as much, three times per call.

    `refuse_dtype(dtype, name)` raises for a tensor of another type than float32.
    """
    torch: Any = sys.modules["torch"]
    float32, strided = torch.float32, torch.strided
    # The raw handle, as compilers for PyTorch ask for it; the public call makes an object, in 6 µs.
    raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)

    def current_stream(device: int) -> int:
        handle: int = raw_stream(device) if raw_stream else torch.cuda.current_stream(device).cuda_stream
        return handle

    def read(tensor: Any, name: str, stream: int) -> Operand:
        if tensor.requires_grad:
            raise ValueError(f"{name} requires grad, which a kernel cannot track; pass {name}.detach()")
        if not tensor.is_cuda:
            raise TypeError(
                f"{name} is a torch.Tensor on {tensor.device}; copy it to the device first, for example with "
                f"{name}.cuda()"
            )
        if tensor.dtype is not float32:
            refuse_dtype(str(tensor.dtype).removeprefix("torch."), name)
        if tensor.layout is not strided or tensor.is_neg():
            raise TypeError(
                f"{name} is a tensor that is no plain array (sparse, or a lazy negation); make it one first"
            )
        device = tensor.get_device()
        # What was enqueued on PyTorch's current stream comes first; it is what filled the tensor.
        producer = current_stream(device)
        shape = tuple(tensor.shape)
        return Operand(
            name,
            tensor.data_ptr(),
            shape,
            tensor.stride(),
            False,
            None if 0 in shape else device,
            producer if producer != stream else None,
            tensor,
        )

    return read


def guard_of(tensors: tuple[Any, ...]) -> Callable[..., bool] | None:
    """True of tensors with the types, dtypes, devices, shapes, strides and lazy flags of these ones.

    None unless all of them are plain tensors, or for a PyTorch without such a guard: the long way is open.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None or any(type(tensor) is not torch.Tensor for tensor in tensors):
        return None  # arrays of another library, which may have the layout of tensors before them
    if _streams_and_devices() is None:
        return None
    try:
        # Without the two options, some releases of PyTorch end the process.
        guards = torch._C._dynamo.guards.TensorGuards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None)
    except (AttributeError, TypeError):
        return None
    check: Callable[..., bool] = guards.check
    return check


def current() -> tuple[Callable[[int], int], Callable[[], int], bool]:
    """PyTorch's current stream of a device, its current device, and whether there are several devices.

    For who has got a guard from `guard_of`.
    """
    found = _streams_and_devices()
    assert found is not None
    return *found, sys.modules["torch"].cuda.device_count() > 1


def _streams_and_devices() -> tuple[Callable[[int], int], Callable[[], int]] | None:
    torch: Any = sys.modules["torch"]
    try:
        return torch._C._cuda_getCurrentRawStream, torch._C._cuda_getDevice
    except AttributeError:
        return None
