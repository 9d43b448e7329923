"""A product once more, with PyTorch tensors that lie elsewhere: the shortest way to the driver.

An inner loop calls a plan, or `sgemm`, with tensors that differ from the last ones in nothing but where they lie. Each
question that is asked of a tensor costs about 0.1 µs and the launch itself about 4, so exactly what keeps memory safe
is asked here, in one function whose facts are all local to it. What makes a tensor another kind of operand is one
question for all of them: PyTorch's own guard, by which `torch.compile` decides whether compiled code still fits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba_gemm.driver import outputs, torch_tensors
from numba_gemm.driver.product import Product
from numba_gemm.problem import VECTOR_BYTES
from numba_gemm.tile import FLOAT_BYTES

#: (a, b, c, bias, alpha, beta, stream): C, if it was launched. None: nothing was done, look closely.
Again = Callable[[Any, Any, Any, Any, float, float, int], Any]


def again_of(product: Product, tensors: tuple[Any, Any, Any, Any], shape_c: tuple[int, ...]) -> Again | None:
    """What repeats a product that has just been launched with these; None unless all of them are plain tensors.

    Of the tensors A, B, C and bias, C and the bias may be None: without C, a new one of its shape is made at each call.
    """
    problem = product.problem
    if 0 in (problem.m, problem.n, problem.k, problem.batch):
        return None
    present = tuple(tensor for tensor in tensors if tensor is not None)
    if product.guard is not None:
        kind, guard, again = product.guard
        if kind == (tensors[2] is None) and guard(*present):
            return again
    guard = torch_tensors.guard_of(present)
    if guard is None:
        return None
    again = _again(guard, product, outputs.maker(shape_c, product.device) if tensors[2] is None else None)
    product.guard = tensors[2] is None, guard, again
    return again


def _again(same_kind: Callable[..., bool], product: Product, new_c: outputs.Maker | None) -> Again:
    device, problem = product.device, product.problem
    stream_of, current_device, several_devices = torch_tensors.current()
    aligned = problem.a.aligned, problem.b.aligned, problem.c.aligned
    all_aligned = all(aligned)
    multiple = VECTOR_BYTES if all_aligned else FLOAT_BYTES
    (below_a, above_a), (below_b, above_b), (below_bias, above_bias) = product.clearances
    launch = product.direct()

    def again(a: Any, b: Any, c: Any, bias: Any, alpha: float, beta: float, stream: int) -> Any:
        # Under `no_grad`, the guard of some releases takes tensors that require grad for others.
        if bias is None:
            if new_c is None:
                if not same_kind(a, b, c) or a.requires_grad or b.requires_grad or c.requires_grad:
                    return None
            elif not same_kind(a, b) or a.requires_grad or b.requires_grad:
                return None
        elif new_c is None:
            if not same_kind(a, b, c, bias) or a.requires_grad or b.requires_grad or c.requires_grad:
                return None
        elif not same_kind(a, b, bias) or a.requires_grad or b.requires_grad:
            return None
        at_a, at_b = a.data_ptr(), b.data_ptr()
        # Mostly they are the same objects. 1 + 0j equals 1.0 as well.
        if alpha is not product.alpha and (type(alpha) is not float or alpha != product.alpha):
            return None
        if beta is not product.beta and (type(beta) is not float or beta != product.beta):
            return None
        if stream_of(device) != stream or (several_devices and current_device() != device):
            return None
        if new_c is None:
            at_c = c.data_ptr()
        else:
            c, at_c = new_c()
        if not (at_a and at_b and at_c):  # a tensor whose storage has been given back
            return None
        # The kernel was chosen for exactly these alignments.
        if (at_a | at_b | at_c) % multiple or (not all_aligned and _alignments(at_a, at_b, at_c) != aligned):
            return None
        from_c = at_a - at_c
        if below_a < from_c < above_a:
            return None
        from_c = at_b - at_c
        if below_b < from_c < above_b:
            return None
        if bias is None:
            launch(at_a, at_b, at_c, stream)
            return c
        if bias.requires_grad:
            return None
        at_bias = bias.data_ptr()
        from_c = at_bias - at_c
        if not at_bias or at_bias % FLOAT_BYTES or below_bias < from_c < above_bias:
            return None
        product(at_a, at_b, at_c, at_bias, alpha, beta, stream)
        return c

    return again


def _alignments(a: int, b: int, c: int) -> tuple[bool, bool, bool]:
    """Which of the addresses take 16-byte accesses. Each by itself: not every kernel asks it of all three."""
    return a % VECTOR_BYTES == 0, b % VECTOR_BYTES == 0, c % VECTOR_BYTES == 0
