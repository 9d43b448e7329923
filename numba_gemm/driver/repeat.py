"""A product once more, with PyTorch tensors that lie elsewhere: the shortest way to the driver.

An inner loop calls a plan, or `sgemm`, with tensors that differ from the last ones in nothing but where they lie. Each
question that is asked of a tensor costs about 0.1 µs and the launch itself about 4, so exactly what keeps memory safe
is asked here, in one function whose facts are all local to it. What makes a tensor another kind of operand is one
question for all three: PyTorch's own guard, by which `torch.compile` decides whether compiled code still fits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from numba_gemm.driver.admitted import Admitted, alignments
from numba_gemm.problem import VECTOR_BYTES, Operand
from numba_gemm.tile import FLOAT_BYTES

#: (a, b, c, alpha, beta, stream): whether it was launched. False: nothing was done, look closely.
Repeat = Callable[[Any, Any, Any, float, float, int], bool]
#: True of tensors with the types, dtypes, devices, shapes, strides and lazy flags of the ones that it was made for.
SameKind = Callable[[Any, Any, Any], bool]


def repeat_of(
    admitted: Admitted, tensors: tuple[Any, Any, Any], operands: tuple[Operand, Operand, Operand]
) -> Repeat | None:
    """What repeats a product that has just been launched with these; None unless all three are plain tensors."""
    torch: Any = sys.modules.get("torch")
    if torch is None or any(type(tensor) is not torch.Tensor for tensor in tensors):
        return None  # arrays of another library, which may have the layout of tensors before them
    if any(operand.size == 0 for operand in operands):
        return None
    if admitted.repeat is not None:
        same_kind, repeat = admitted.repeat
        if same_kind(*tensors):
            return repeat
    try:
        stream_of, current_device = torch._C._cuda_getCurrentRawStream, torch._C._cuda_getDevice
        # Without the two options, some releases of PyTorch end the process.
        guards = torch._C._dynamo.guards.TensorGuards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None)
    except (AttributeError, TypeError):
        return None  # another PyTorch: the long way is open
    repeat = _repeat(guards.check, stream_of, current_device, torch.cuda.device_count() > 1, admitted, operands)
    admitted.repeat = guards.check, repeat
    return repeat


def _repeat(
    same_kind: SameKind,
    stream_of: Callable[[int], int],
    current_device: Callable[[], int],
    several_devices: bool,
    admitted: Admitted,
    operands: tuple[Operand, Operand, Operand],
) -> Repeat:
    device = operands[2].device
    aligned = alignments(*(operand.pointer for operand in operands))
    all_aligned = all(aligned)
    multiple = VECTOR_BYTES if all_aligned else FLOAT_BYTES
    (below_a, above_a), (below_b, above_b) = admitted.clearance_a, admitted.clearance_b
    product, launch = admitted.product, admitted.product.direct()
    assert device is not None

    def repeat(a: Any, b: Any, c: Any, alpha: float, beta: float, stream: int) -> bool:
        # Under `no_grad`, the guard of some releases takes tensors that require grad for others.
        if not same_kind(a, b, c) or a.requires_grad or b.requires_grad or c.requires_grad:
            return False
        at_a, at_b, at_c = a.data_ptr(), b.data_ptr(), c.data_ptr()
        # Mostly they are the same objects. 1 + 0j equals 1.0 as well.
        if alpha is not product.alpha and (type(alpha) is not float or alpha != product.alpha):
            return False
        if beta is not product.beta and (type(beta) is not float or beta != product.beta):
            return False
        if stream_of(device) != stream or (several_devices and current_device() != device):
            return False
        # The kernel was chosen for exactly these alignments.
        if (at_a | at_b | at_c) % multiple or (not all_aligned and alignments(at_a, at_b, at_c) != aligned):
            return False
        from_c = at_a - at_c
        if below_a < from_c < above_a:
            return False
        from_c = at_b - at_c
        if below_b < from_c < above_b:
            return False
        launch(at_a, at_b, at_c, stream)
        return True

    return repeat
