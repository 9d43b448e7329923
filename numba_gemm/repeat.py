"""A product once more, with PyTorch tensors that lie elsewhere: the shortest way to the driver.

An inner loop calls a plan, or `sgemm`, with tensors that differ from the last ones in nothing but where they lie. Each
question that is asked of a tensor costs about 0.1 µs and the launch itself about 4, so exactly what keeps memory safe
is asked here, in one function whose facts are all local to it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from numba_gemm.admitted import Admitted, alignments
from numba_gemm.operands import VECTOR_BYTES, Operand
from numba_gemm.tile import FLOAT_BYTES

#: (a, b, c, alpha, beta, stream): whether it was launched. False: nothing was done, look closely.
Repeat = Callable[[Any, Any, Any, float, float, int], bool]


def repeat_of(
    admitted: Admitted, tensors: tuple[Any, Any, Any], operands: tuple[Operand, Operand, Operand]
) -> Repeat | None:
    """What repeats a product that has just been launched with these; None unless all three are plain tensors."""
    torch: Any = sys.modules.get("torch")
    if torch is None or any(type(tensor) is not torch.Tensor for tensor in tensors):
        return None  # arrays of another library, which may have the layout of tensors before them
    if admitted.repeat is None:
        admitted.repeat = _repeat_with_tensors(torch, admitted, tensors, operands)
    return admitted.repeat


def _repeat_with_tensors(
    torch: Any, admitted: Admitted, tensors: tuple[Any, Any, Any], operands: tuple[Operand, Operand, Operand]
) -> Repeat | None:
    if not all(hasattr(torch._C, name) for name in ("_cuda_getCurrentRawStream", "_cuda_getDevice")):
        return None  # another PyTorch: the long way is open
    if any(operand.size == 0 for operand in operands):
        return None
    shape_a, shape_b, shape_c = (tensor.shape for tensor in tensors)
    strides_a, strides_b, strides_c = (tensor.stride() for tensor in tensors)
    contiguous = all(tensor.is_contiguous() for tensor in tensors)  # the usual case, and the shorter question
    device = tensors[2].get_device()
    float32, stream_of, current_device = torch.float32, torch._C._cuda_getCurrentRawStream, torch._C._cuda_getDevice
    aligned = alignments(*(operand.pointer for operand in operands))
    several_devices = torch.cuda.device_count() > 1
    all_aligned = all(aligned)
    multiple = VECTOR_BYTES if all_aligned else FLOAT_BYTES
    (below_a, above_a), (below_b, above_b) = admitted.clearance_a, admitted.clearance_b
    product, launch = admitted.product, admitted.product.direct()

    def repeat(a: Any, b: Any, c: Any, alpha: float, beta: float, stream: int) -> bool:
        try:
            if (
                a.shape != shape_a
                or b.shape != shape_b
                or c.shape != shape_c
                or not (
                    a.is_contiguous() and b.is_contiguous() and c.is_contiguous()
                    if contiguous
                    else a.stride() == strides_a and b.stride() == strides_b and c.stride() == strides_c
                )
                or not (a.dtype is b.dtype is c.dtype is float32)
                or not (a.get_device() == b.get_device() == c.get_device() == device)
                or (a.requires_grad or b.requires_grad or c.requires_grad)
                or (a.is_neg() or b.is_neg() or c.is_neg())
            ):
                return False
            at_a, at_b, at_c = a.data_ptr(), b.data_ptr(), c.data_ptr()
        except (AttributeError, TypeError, RuntimeError):  # no tensor, or a sparse one
            return False
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
