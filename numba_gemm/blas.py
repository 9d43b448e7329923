"""The rungs that take everything: from an arrangement, an epilogue and scalars to launches."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from numba_gemm import launch, runtime, workspace
from numba_gemm.arrange import Arrangement, Lines
from numba_gemm.device.epilogue import Epilogue
from numba_gemm.kernels import reduce
from numba_gemm.kernels.signatures import WorkspaceSize
from numba_gemm.ladder import Version
from numba_gemm.operands import Operand, wait_for_producers
from numba_gemm.tile import FLOAT_BYTES, LaunchConfig, Tile
from numba_gemm.variant import Variant
from numba_gemm.workspace import Workspace, Workspaces

#: Largest grid along z: a larger batch takes several launches.
_MAX_BATCH = 65535


def variant_of(arrangement: Arrangement, tile: Tile, epilogue: Epilogue) -> Variant:
    """What the kernel has to be compiled for."""
    m, n, k = arrangement.m, arrangement.n, arrangement.k
    return Variant(
        a_along_k=arrangement.a_along_k,
        b_along_k=arrangement.b_along_k,
        vector=arrangement.vector and k > 0,  # without k only C counts: not worth a kernel of its own
        # A kernel for few rows is bound by memory and has time to check.
        whole=k > 0 and not arrangement.rows and (m, n, k) == tile.padded(m, n, k),
        c_along_n=arrangement.c_along_n,
        rows=arrangement.rows,
        # Rows and columns matter to a bias and to a user's function; without them, one kernel does for both.
        epilogue=replace(
            epilogue, transposed=arrangement.transposed and (epilogue.bias or epilogue.function is not None)
        ),
    )


def prepare(
    version: Version,
    tile: Tile,
    arrangement: Arrangement,
    epilogue: Epilogue,
    bias: Operand | None,
    alpha: float,
    beta: float,
    stream: int,
    variant: Variant | None = None,
    place: Workspace | None = None,
) -> list[launch.Launch]:
    """The launches of C = epilogue(alpha·A·B + beta·C + bias); more than one for a batch above 65535.

    `variant` is for measuring another one than the arrangement needs: a general one does what a special one does.
    A version with a workspace finds it at `place`; if that is absent, the launches own one, for `stream` alone.
    """
    if alpha == 0:  # A and B are not read, as with no k at all
        arrangement = replace(arrangement, k=0)
    m, n, k = arrangement.m, arrangement.n, arrangement.k
    if m == 0 or n == 0:
        return []
    if k == 0:  # an empty sum is 0 for any alpha, even infinity
        alpha = 0.0
    variant = variant or variant_of(arrangement, tile, epilogue)
    kernel = launch.gemm_kernel(version, tile, variant)
    size = workspace_size(version, tile, variant, arrangement)
    if size is not None and place is None:
        place = workspace.allocate(size, stream)
    a, b, c = arrangement.a, arrangement.b, arrangement.c
    launches: list[launch.Launch] = []
    for first in range(0, arrangement.batch, _MAX_BATCH):
        count = min(_MAX_BATCH, arrangement.batch - first)
        config = _launch_config(version, tile, variant, arrangement, count)
        arguments: list[launch.Argument] = [
            *(_matrix("a", a, first), _matrix("b", b, first), _matrix("c", c, first), _bias(bias, c)),
            *(m, n, k),
            *(float(alpha), float(beta)),
            *(a.batch, b.batch, c.batch),
        ]
        if size is not None and place is not None:
            arguments += [
                launch.Vector(place.sums, size.floats, np.float32, place.memory),
                launch.Vector(place.flags, size.flags, np.uint32),
                count,
            ]
        prepared = launch.prepare(kernel, version.signature, config, arguments, stream)
        parts = _parts(version, tile, arrangement, count)
        if parts > 1:
            prepared = launch.InTurn(prepared, _reduction(tile, variant, arrangement, parts, count, arguments, stream))
        if version.adds_to_c:
            prepared = launch.OntoZeros(prepared, _C, _matrix("c", c, first)._replace(shape=(m, n)))
        launches.append(prepared)
    return launches


def _multiprocessors() -> int:
    return runtime.multiprocessors(runtime.current_device())


def _launch_config(
    version: Version, tile: Tile, variant: Variant, arrangement: Arrangement, batch: int
) -> LaunchConfig:
    m, n, k = arrangement.m, arrangement.n, arrangement.k
    return version.launch_config(tile, variant, m, n, k, batch, _multiprocessors())


def _parts(version: Version, tile: Tile, arrangement: Arrangement, batch: int) -> int:
    """The parts of each output that a launch leaves in the workspace; 1 if it finishes all outputs itself."""
    if not version.has_parts:
        return 1
    m, n, k = arrangement.m, arrangement.n, arrangement.k
    parts: int = version.module.parts_of(tile, m, n, k, batch, _multiprocessors())
    return parts


def _reduction(
    tile: Tile,
    variant: Variant,
    arrangement: Arrangement,
    parts: int,
    batch: int,
    arguments: list[launch.Argument],
    stream: int,
) -> launch.Launch:
    """The launch that adds up the parts, to follow one with these arguments."""
    config = reduce.launch_config(tile, arrangement.m, arrangement.n, batch, parts)
    kernel = launch.reduce_kernel(tile, variant)
    return launch.prepare(kernel, reduce.SIGNATURE, config, [*arguments, parts], stream)


def workspace_size(version: Version, tile: Tile, variant: Variant, arrangement: Arrangement) -> WorkspaceSize | None:
    """What its launches need, one after another; None for a version without a workspace."""
    if not version.has_workspace:
        return None
    m, n, k = arrangement.m, arrangement.n, arrangement.k
    multiprocessors = _multiprocessors()
    whole, rest = divmod(arrangement.batch, _MAX_BATCH)
    batches = [_MAX_BATCH] * min(whole, 1) + [rest] * min(rest, 1)
    sizes = [version.module.workspace(tile, variant, m, n, k, batch, multiprocessors) for batch in batches]
    return WorkspaceSize(
        max((size.floats for size in sizes), default=0), max((size.flags for size in sizes), default=0)
    )


def _matrix(name: str, lines: Lines, first: int) -> Operand:
    """The matrix as an array whose rows are as long as the distance of its lines."""
    pointer = lines.pointer + first * lines.batch * FLOAT_BYTES
    return Operand(name, pointer, (lines.count, lines.lead), (lines.lead, 1))


def _bias(bias: Operand | None, c: Lines) -> Operand:
    """The bias as a column of an array; without one, anything that is a valid address."""
    if bias is None:
        return Operand("bias", c.pointer, (0, 1), (1, 1))
    stride = bias.strides[0] if bias.shape[0] > 1 else 1
    return Operand("bias", bias.pointer, (bias.shape[0], stride), (stride, 1))


#: No place yet: the kernel is given one before each launch.
_NOWHERE = Workspace(0, 0)


class Product:
    """The launches of one arrangement, for operands that may lie elsewhere at each call. For one thread."""

    __slots__ = ("_empty", "_launches", "_swapped", "alpha", "beta")

    def __init__(
        self,
        version: Version,
        tile: Tile,
        arrangement: Arrangement,
        epilogue: Epilogue,
        bias: Operand | None,
        alpha: float,
        beta: float,
    ) -> None:
        #: Those of the last launch.
        self.alpha, self.beta = alpha, beta
        self._swapped = arrangement.transposed
        self._empty = arrangement.k == 0 or alpha == 0
        launches = prepare(version, tile, arrangement, epilogue, bias, alpha, beta, stream=0, place=_NOWHERE)
        batches = (arrangement.a.batch, arrangement.b.batch, arrangement.c.batch)
        a_step, b_step, c_step = (_MAX_BATCH * batch * FLOAT_BYTES for batch in batches)
        #: Each launch, and how many bytes after the operands its own A, B and C start.
        self._launches = [
            (prepared, index * a_step, index * b_step, index * c_step) for index, prepared in enumerate(launches)
        ]

    @property
    def launches(self) -> list[launch.Launch]:
        return [prepared for prepared, *_ in self._launches]

    def __call__(self, a: int, b: int, c: int, bias: int | None, alpha: float, beta: float, stream: int) -> None:
        """Enqueue it for operands at these addresses. Whether alpha is 0 has been decided when it was made."""
        if self._swapped:
            a, b = b, a
        if self._empty:  # as in `prepare`
            alpha = 0.0
        if alpha != self.alpha or beta != self.beta:
            for prepared in self.launches:
                prepared.set_float(_ALPHA, alpha)
                prepared.set_float(_BETA, beta)
            self.alpha, self.beta = alpha, beta
        for prepared, a_offset, b_offset, c_offset in self._launches:
            prepared.set_pointer(_A, a + a_offset)
            prepared.set_pointer(_B, b + b_offset)
            prepared.set_pointer(_C, c + c_offset)
            if bias is not None:
                prepared.set_pointer(_BIAS, bias)
            prepared.stream = stream
            prepared()

    def direct(self) -> Callable[[int, int, int, int], None]:
        """The same as a function of the addresses of A, B and C, and the stream; with the scalars of the last call."""
        if len(self._launches) == 1:
            return self.launches[0].at(*((_B, _A, _C) if self._swapped else (_A, _B, _C)))
        return self._with_last_scalars

    def _with_last_scalars(self, a: int, b: int, c: int, stream: int) -> None:
        self(a, b, c, None, self.alpha, self.beta, stream)


class ProductWithWorkspace(Product):
    """The same, for a version whose blocks exchange partial sums: at each call, in the workspace of its stream."""

    __slots__ = ("_device", "_flags", "_size", "_sums", "_workspaces")

    def __init__(
        self,
        version: Version,
        tile: Tile,
        arrangement: Arrangement,
        epilogue: Epilogue,
        bias: Operand | None,
        alpha: float,
        beta: float,
        workspaces: Workspaces,
        size: WorkspaceSize,
    ) -> None:
        super().__init__(version, tile, arrangement, epilogue, bias, alpha, beta)
        self._workspaces, self._size = workspaces, size
        self._device = runtime.current_device()
        #: The addresses of the present workspace; not itself, so that it can go when a larger one comes.
        self._sums, self._flags = 0, 0

    def __call__(self, a: int, b: int, c: int, bias: int | None, alpha: float, beta: float, stream: int) -> None:
        place = self._workspaces.get(self._size, stream, self._device)
        if place is not None:
            self._move_to(place)
            super().__call__(a, b, c, bias, alpha, beta, stream)
            return
        with workspace.in_stream_order(self._size, stream) as of_graph:
            self._move_to(of_graph)
            super().__call__(a, b, c, bias, alpha, beta, stream)

    def direct(self) -> Callable[[int, int, int, int], None]:
        if len(self._launches) != 1:
            return self._with_last_scalars
        launch_at, workspaces, size, device = super().direct(), self._workspaces, self._size, self._device

        def in_workspace(a: int, b: int, c: int, stream: int) -> None:
            place = workspaces.get(size, stream, device)
            if place is None:  # the stream is being captured
                self._with_last_scalars(a, b, c, stream)
                return
            if place.sums != self._sums or place.flags != self._flags:
                self._move_to(place)
            launch_at(a, b, c, stream)

        return in_workspace

    def _move_to(self, place: Workspace) -> None:
        if place.sums == self._sums and place.flags == self._flags:
            return
        for prepared in self.launches:
            prepared.set_pointer(_SUMS, place.sums)
            prepared.set_pointer(_FLAGS, place.flags)
        self._sums, self._flags = place.sums, place.flags


def product(
    version: Version,
    tile: Tile,
    arrangement: Arrangement,
    epilogue: Epilogue,
    bias: Operand | None,
    alpha: float,
    beta: float,
    workspaces: Workspaces,
) -> Product:
    """The launches of one arrangement; a version that needs a workspace takes it from `workspaces`."""
    if version.has_workspace and arrangement.m and arrangement.n and arrangement.batch:
        of_launch = replace(arrangement, k=0) if alpha == 0 else arrangement  # as in `prepare`
        size = workspace_size(version, tile, variant_of(of_launch, tile, epilogue), of_launch)
        if size is not None and size.floats + size.flags > 0:
            return ProductWithWorkspace(version, tile, arrangement, epilogue, bias, alpha, beta, workspaces, size)
    return Product(version, tile, arrangement, epilogue, bias, alpha, beta)


#: Positions of arguments in `GENERAL` and `WITH_WORKSPACE`.
_A, _B, _C, _BIAS, _ALPHA, _BETA, _SUMS, _FLAGS = 0, 1, 2, 3, 7, 8, 12, 13


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
    return a % 16 == 0, b % 16 == 0, c % 16 == 0


class Admitted:
    """A product whose layout has been checked: what is left to check at a call is where its operands lie."""

    __slots__ = ("_span_a", "_span_b", "_span_bias", "_span_c", "product", "repeat")

    def __init__(self, product: Product, a: Operand, b: Operand, c: Operand, bias: Operand | None) -> None:
        self.product = product
        #: A shorter way to launch it, see `numba_gemm.repeat`.
        self.repeat: Callable[..., bool] | None = None
        self._span_a, self._span_b, self._span_c = a.span, b.span, c.span
        self._span_bias = bias.span if bias is not None else (0, 0)

    @property
    def spans(self) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
        """The bytes that A, B and C touch, first and one past the last, from their addresses on."""
        return self._span_a, self._span_b, self._span_c

    def may_launch(self, a: Operand, b: Operand, c: Operand, bias: Operand | None) -> bool:
        """Whether C can be written, lies on one device with the others and, beyond doubt, apart from them.

        False means that it has to be looked at closely, not that it is wrong.
        """
        device = c.device
        if c.read_only or a.device != device or b.device != device or (bias is not None and bias.device != device):
            return False
        if not self._apart(a.pointer, b.pointer, c.pointer):
            return False
        if bias is None:
            return True
        low, high = c.pointer + self._span_c[0], c.pointer + self._span_c[1]
        return bias.pointer + self._span_bias[0] >= high or low >= bias.pointer + self._span_bias[1]

    def _apart(self, a: int, b: int, c: int) -> bool:
        """Whether, with operands at these addresses, the address range of C meets neither that of A nor that of B."""
        low, high = c + self._span_c[0], c + self._span_c[1]
        span_a, span_b = self._span_a, self._span_b
        if a + span_a[0] < high and low < a + span_a[1]:
            return False
        return b + span_b[0] >= high or low >= b + span_b[1]

    def launch(
        self, a: Operand, b: Operand, c: Operand, bias: Operand | None, alpha: float, beta: float, stream: int
    ) -> None:
        """Enqueue it, after what the operands' producers have enqueued."""
        # The usual case is that nobody has to be waited for: a handle may be 0, so compare with None.
        if a.producer_stream is not None or b.producer_stream is not None or c.producer_stream is not None:
            wait_for_producers((a, b, c), stream)
        if bias is not None and bias.producer_stream is not None:
            runtime.wait_for_producer(bias.producer_stream, stream)
        self.product(a.pointer, b.pointer, c.pointer, bias.pointer if bias else None, alpha, beta, stream)


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
