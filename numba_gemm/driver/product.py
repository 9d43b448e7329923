"""One owner of a call: whatever its name, a product of operands goes through `Products`.

    called with such tensors before?         → launch                            `again`: all checks in one function
    launched for such a problem before?      → where operands lie, launch        `Product.may_launch`, `Product.launch`
    else                                     → check, choose, build, launch      the call's `Admission`

A product that has been built is kept under its `Problem`, the operands' devices, and what else the caller
distinguishes. It has the launches with everything filled in but the places of operands and the scalars; what is left
to check at a call is where the operands lie.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from numba_gemm.device.epilogue import Epilogue
from numba_gemm.driver import cuda_api, grids, launch, staging, workspace
from numba_gemm.driver.operands import as_operand, wait_for_producers
from numba_gemm.driver.workspace import Size, Workspace, Workspaces
from numba_gemm.kernels.interface import ALPHA, BETA, Part, Variant
from numba_gemm.ladder import Version
from numba_gemm.problem import Operand, Problem
from numba_gemm.tile import Tile


class Operands(NamedTuple):
    """A, B, C and the bias of a call."""

    a: Operand
    b: Operand
    c: Operand
    bias: Operand | None = None

    @property
    def present(self) -> tuple[Operand, ...]:
        """The operands of the call, without a bias that it does not have."""
        return self[:3] if self.bias is None else self  # type: ignore[return-value]


class Admission(NamedTuple):
    """A call that has been checked: what it is to be done with, and on which device."""

    version: Version
    tile: Tile
    epilogue: Epilogue
    device: int


Span = tuple[int, int]


def clearance(span: Span, span_c: Span) -> tuple[int, int]:
    """How far from C's address an operand's has to be so that their bytes, first to last, are apart.

    Spans are the bytes that each touches, first and one past the last, from its address on. Apart they are where the
    operand's address less that of C is at most the first of the two numbers, or at least the second.
    """
    return span_c[0] - span[1], span_c[1] - span[0]


class Built(NamedTuple):
    """What a product is made of."""

    launches: tuple[launch.Launch, ...]
    #: The one that multiplies; None where C has no elements.
    main: launch.Launch | None
    #: As the caller sees it.
    problem: Problem
    device: int
    #: Whether the kernels compute Cᵀ = Bᵀ·Aᵀ.
    swapped: bool
    #: Whether nothing is added up, whatever alpha is.
    zero: bool
    #: Whether it takes an alpha and a beta.
    scales: bool


class Product:
    """The launches of one problem, for operands that may lie elsewhere at each call. For one thread."""

    __slots__ = (
        "_launches",
        "_swapped",
        "_zero",
        "alpha",
        "beta",
        "clearances",
        "device",
        "guard",
        "main",
        "problem",
        "scales",
    )

    def __init__(self, built: Built) -> None:
        self._launches, self.main, self.problem, self.device, self._swapped, self._zero, self.scales = built
        #: Scalars of the last launch; NaN is equal to none.
        self.alpha = self.beta = math.nan
        #: How far from C A, B and the bias have to be.
        of_c = self.problem.span("c")
        self.clearances = tuple(clearance(self.problem.span(place), of_c) for place in ("a", "b", "bias"))
        #: What repeats it with tensors of the kind that were launched last, see `numba_gemm.driver.again`.
        self.guard: Any = None

    def may_launch(self, operands: Operands, alpha: float, beta: float) -> bool:
        """Whether A, B and the bias lie apart from C beyond doubt. False: look closely; it may be no error."""
        if not self.scales and (alpha != 1 or beta != 0):
            return False
        a, b, c, bias = operands
        for operand, (below, above) in zip((a, b, bias), self.clearances, strict=True):
            if operand is not None and below < operand.pointer - c.pointer < above:
                return False
        return True

    def launch(self, operands: Operands, alpha: float, beta: float, stream: int) -> None:
        """Enqueue the product on `stream`, after what the operands' producers have enqueued."""
        wait_for_producers(operands.present, stream)
        a, b, c, bias = operands
        self(a.pointer, b.pointer, c.pointer, bias.pointer if bias else None, alpha, beta, stream)

    def __call__(self, a: int, b: int, c: int, bias: int | None, alpha: float, beta: float, stream: int) -> None:
        """Enqueue the product for operands at these addresses. Whether alpha is 0 has been decided when it was made."""
        if alpha != self.alpha or beta != self.beta:
            self._set_scalars(alpha, beta)
        if self._swapped:
            a, b = b, a
        for one in self._launches:
            one.set_place("a", a)
            one.set_place("b", b)
            one.set_place("c", c)
            if bias is not None:
                one.set_place("bias", bias)
            one.stream = stream
            one()

    def _set_scalars(self, alpha: float, beta: float) -> None:
        self.alpha = math.nan  # until all of them are written: what interrupts this must not be believed
        for one in self._launches:
            one.set_scalar(ALPHA, 0.0 if self._zero else alpha)  # an empty sum is 0 for any alpha, even infinity
            one.set_scalar(BETA, beta)
        self.alpha, self.beta = alpha, beta

    def bound(self, operands: Operands, alpha: float = 1.0, beta: float = 0.0, stream: int = 0) -> Callable[[], None]:
        """What enqueues it, again and again, for these operands, which the caller keeps. For who measures."""
        a, b, c, bias = operands
        if bias is not None:
            return partial(self, a.pointer, b.pointer, c.pointer, bias.pointer, alpha, beta, stream)
        self._set_scalars(alpha, beta)
        return partial(self.direct(), a.pointer, b.pointer, c.pointer, stream)

    def direct(self) -> Callable[[int, int, int, int], None]:
        """The same as a function of the addresses of A, B and C, and the stream; with the scalars of the last call."""
        if len(self._launches) == 1:
            return self._launches[0].at(*(("b", "a", "c") if self._swapped else ("a", "b", "c")))
        return self._with_last_scalars

    def _with_last_scalars(self, a: int, b: int, c: int, stream: int) -> None:
        self(a, b, c, None, self.alpha, self.beta, stream)


class ProductOnScratch(Product):
    """A product whose operands are brought into another form first: in memory that belongs to each call."""

    __slots__ = ("_parts", "_size")

    def __init__(self, built: Built, parts: Sequence[Part]) -> None:
        super().__init__(built)
        self._parts, self._size = tuple(parts), Size.of(parts)

    def __call__(self, a: int, b: int, c: int, bias: int | None, alpha: float, beta: float, stream: int) -> None:
        with workspace.in_stream_order(self._size, stream) as scratch:
            for place, address in scratch.places(self._parts).items():
                for one in self._launches:
                    one.set_place(place, address)
            super().__call__(a, b, c, bias, alpha, beta, stream)

    def direct(self) -> Callable[[int, int, int, int], None]:
        return self._with_last_scalars


class ProductWithWorkspace(Product):
    """A product whose blocks exchange partial sums: at each call, in the workspace of its stream."""

    __slots__ = ("_parts", "_place", "_size", "_workspaces")

    def __init__(self, built: Built, parts: Sequence[Part], workspaces: Workspaces) -> None:
        super().__init__(built)
        self._parts, self._size, self._workspaces = tuple(parts), Size.of(parts), workspaces
        #: The addresses of the present workspace; not itself, so that it can go when a larger one comes.
        self._place = (0, 0)

    def __call__(self, a: int, b: int, c: int, bias: int | None, alpha: float, beta: float, stream: int) -> None:
        kept = self._workspaces.get(self._size, stream, self.device)
        if kept is not None:
            self._move_to(kept)
            super().__call__(a, b, c, bias, alpha, beta, stream)
            return
        with workspace.in_stream_order(self._size, stream) as of_graph:
            self._move_to(of_graph)
            super().__call__(a, b, c, bias, alpha, beta, stream)

    def direct(self) -> Callable[[int, int, int, int], None]:
        if len(self._launches) != 1:
            return self._with_last_scalars
        launch_at, workspaces, size, device = super().direct(), self._workspaces, self._size, self.device

        def in_workspace(a: int, b: int, c: int, stream: int) -> None:
            kept = workspaces.get(size, stream, device)
            if kept is None:  # the stream is being captured
                self._with_last_scalars(a, b, c, stream)
                return
            if kept[:2] != self._place:
                self._move_to(kept)
            launch_at(a, b, c, stream)

        return in_workspace

    def _move_to(self, place: Workspace) -> None:
        self._place = (0, 0)  # until all of them are written
        for name, address in place.places(self._parts).items():
            for one in self._launches:
                one.set_place(name, address)
        self._place = place[:2]


def build(
    admitted: Admission, problem: Problem, alpha: float, workspaces: Workspaces, variant: Variant | None = None
) -> Product:
    """The launches of a problem as the caller sees it, compiled and loaded on the current device.

    With alpha = 0 no A and no B are read: it is the problem without any k. A workspace comes from `workspaces`;
    `variant` is for measuring another one than the problem needs.
    """
    version = admitted.version
    computed = version.oriented(problem.without_products() if alpha == 0 else problem)
    found = grids.launches_of(version, admitted.tile, computed, admitted.epilogue, variant)
    launches = tuple(launch.prepare(step) for step in found.steps)
    built = Built(
        launches,
        launches[found.main_index] if launches else None,
        problem,
        admitted.device,
        swapped=computed.transposed,
        zero=computed.k == 0,
        scales="scale" in version.capabilities,
    )
    if not found.workspace:
        return Product(built)
    if version.traits.takes_variants:
        return ProductWithWorkspace(built, found.workspace, workspaces)
    return ProductOnScratch(built, found.workspace)


def prepare_product(
    version: Version,
    tile: Tile,
    operands: Operands,
    *,
    trans_a: bool = False,
    trans_b: bool = False,
    epilogue: Epilogue | None = None,
    variant: Variant | None = None,
) -> Product:
    """A product of its own, unchecked, on the current device, for `operands` or others that lie as they do.

    For who measures versions. `variant` is another one than the problem needs.
    """
    a, b, c, bias = operands
    problem = Problem.of(a, b, c, trans_a=trans_a, trans_b=trans_b, bias=bias)
    admitted = Admission(version, tile, epilogue or Epilogue(), cuda_api.current_device())
    return build(admitted, problem, 1.0, Workspaces(), variant)


def in_layout(version: Version, a: Operand) -> Operand:
    """A in the layout that a version's kernel reads: a column-major copy where it is K-major and A is not."""
    if not version.traits.a_k_major or a.transposed.is_contiguous:
        return a
    copied = as_operand(cuda.device_array(a.shape, np.float32, order="F"), a.name, 0)
    staging.copy(a, copied, 0)
    return copied


class Products:
    """What one owner has launched lately, ready to be launched again for operands elsewhere in memory.

    For one thread at a time: a plan has one, and `sgemm` and `gemv` have one for each thread.
    """

    #: More problems than this at a time are no inner loop.
    MOST = 512

    def __init__(self) -> None:
        self._built: dict[tuple[Any, ...], Product] = {}
        #: By what the caller says of a call before it looks at operands: what repeats the last such call.
        self.again: dict[Any, Callable[..., Any]] = {}
        self.workspaces = Workspaces()

    def launch(
        self,
        operands: Operands,
        problem: Problem,
        options: Any,
        alpha: float,
        beta: float,
        stream: int,
        admit: Callable[[], Admission],
    ) -> Product:
        """Enqueue a product, built at its first call.

        Args:
            operands: with shapes that fit.
            problem: theirs, as the caller sees it.
            options: what else the caller distinguishes, hashable.
            alpha, beta: as float32 values.
            stream: a handle.
            admit: checks all that is to be checked, and chooses. Called for a new problem, and where operands may
                overlap.
        """
        devices = tuple(operand and operand.device for operand in operands)
        key = (problem, devices, operands.c.read_only, alpha == 0, options)
        product = self._built.get(key)
        if product is None or not product.may_launch(operands, alpha, beta):
            admitted = admit()
            if product is None:
                with cuda_api.on_device(admitted.device):
                    product = build(admitted, problem, alpha, self.workspaces)
                if len(self._built) >= self.MOST:
                    self._built.clear()
                    self.again.clear()
                self._built[key] = product
        with cuda_api.on_device(product.device):
            product.launch(operands, alpha, beta, stream)
        return product

    def build(self, problem: Problem, options: Any, alpha: float, admitted: Admission) -> Product:
        """Build a product that `launch` will find, for operands on the device, without launching it."""
        product = build(admitted, problem, alpha, self.workspaces)
        bias = None if problem.bias is None else admitted.device
        devices = (admitted.device, admitted.device, admitted.device, bias)
        self._built[problem, devices, False, alpha == 0, options] = product
        return product


class ThreadProducts(threading.local, Products):
    """What the calling thread has launched lately: `Products`, one of its own for each thread."""
