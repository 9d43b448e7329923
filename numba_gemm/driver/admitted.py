"""Products whose operands have been checked: what a later call with the same layouts need not ask again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from numba_gemm.driver import cuda_api
from numba_gemm.driver.operands import wait_for_producers
from numba_gemm.driver.product import Product
from numba_gemm.driver.workspace import Workspaces
from numba_gemm.problem import VECTOR_BYTES, Operand

Layout = tuple[Any, ...]


def layout_of(a: Operand, b: Operand, c: Operand, bias: Operand | None, alpha: float, options: Any = None) -> Layout:
    """All of a call that is likely to be the same at the next, and decides what has to be checked and launched.

    Shapes and strides, the device, which operands start at multiples of 16, whether A·B counts at all, and what else
    the caller distinguishes.
    """
    aligned = alignments(a.pointer, b.pointer, c.pointer)
    of_bias = None if bias is None else (bias.shape, bias.strides)
    operands = (a.shape, a.strides, b.shape, b.strides, c.shape, c.strides, of_bias)
    return (operands, c.device, aligned, alpha == 0, options)


def alignments(a: int, b: int, c: int) -> tuple[bool, bool, bool]:
    """Which of the addresses take 16-byte accesses. Each by itself: not every kernel asks it of all three."""
    return a % VECTOR_BYTES == 0, b % VECTOR_BYTES == 0, c % VECTOR_BYTES == 0


Span = tuple[int, int]


def clearance(span: Span, span_c: Span) -> tuple[int, int]:
    """How far from C's address an operand's has to be so that their bytes, first to last, are apart.

    Spans are the bytes that each touches, first and one past the last, from its address on. Apart they are where the
    operand's address less that of C is at most the first of the two numbers, or at least the second.
    """
    return span_c[0] - span[1], span_c[1] - span[0]


class Admitted:
    """A product whose layout has been checked: what is left to check at a call is where its operands lie."""

    __slots__ = ("clearance_a", "clearance_b", "clearance_bias", "product", "repeat")

    def __init__(self, product: Product, a: Operand, b: Operand, c: Operand, bias: Operand | None) -> None:
        self.product = product
        #: A shorter way to launch it, and what says for which tensors; see `numba_gemm.driver.repeat`.
        self.repeat: tuple[Callable[..., bool], Callable[..., bool]] | None = None
        self.clearance_a, self.clearance_b = clearance(a.span, c.span), clearance(b.span, c.span)
        self.clearance_bias = clearance(bias.span, c.span) if bias is not None else (0, 0)

    def may_launch(self, a: Operand, b: Operand, c: Operand, bias: Operand | None) -> bool:
        """Whether C can be written, lies on one device with the others and, beyond doubt, apart from them.

        False means that it has to be looked at closely, not that it is wrong.
        """
        device = c.device
        if c.read_only or a.device != device or b.device != device or (bias is not None and bias.device != device):
            return False
        if not (_apart(a, c, self.clearance_a) and _apart(b, c, self.clearance_b)):
            return False
        return bias is None or _apart(bias, c, self.clearance_bias)

    def launch(
        self, a: Operand, b: Operand, c: Operand, bias: Operand | None, alpha: float, beta: float, stream: int
    ) -> None:
        """Enqueue it, after what the operands' producers have enqueued."""
        # The usual case is that nobody has to be waited for: a handle may be 0, so compare with None.
        if a.producer_stream is not None or b.producer_stream is not None or c.producer_stream is not None:
            wait_for_producers((a, b, c), stream)
        if bias is not None and bias.producer_stream is not None:
            cuda_api.wait_for_producer(bias.producer_stream, stream)
        self.product(a.pointer, b.pointer, c.pointer, bias.pointer if bias else None, alpha, beta, stream)


def _apart(operand: Operand, c: Operand, limits: tuple[int, int]) -> bool:
    distance = operand.pointer - c.pointer
    return distance <= limits[0] or distance >= limits[1]


class Products(threading.local):
    """What a thread has launched lately, ready to be launched again for operands elsewhere in memory."""

    #: More layouts than this at a time are no inner loop.
    _MOST = 512

    def __init__(self) -> None:
        self._admitted: dict[Layout, Admitted] = {}
        self._repeats: dict[tuple[Any, ...], Callable[..., bool]] = {}
        #: Those of this thread; a plan has its own.
        self.workspaces = Workspaces()

    def get(self, layout: Layout) -> Admitted | None:
        return self._admitted.get(layout)

    def add(self, layout: Layout, admitted: Admitted) -> None:
        if len(self._admitted) >= self._MOST:
            self._admitted.clear()
            self._repeats.clear()
        self._admitted[layout] = admitted

    def get_repeat(self, a: Any, b: Any, c: Any, options: Any) -> Callable[..., bool] | None:
        """What repeats the last product of such tensors that went a longer way: of these shapes, with these options."""
        try:
            return self._repeats.get((a.shape, b.shape, c.shape, options))
        except (AttributeError, TypeError, RuntimeError):  # no array, or one without a plain shape
            return None

    def add_repeat(self, a: Any, b: Any, c: Any, options: Any, repeat: Callable[..., bool]) -> None:
        self._repeats[a.shape, b.shape, c.shape, options] = repeat
