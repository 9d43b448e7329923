"""The launches of one product, kept for operands that lie elsewhere at each call."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from numba_gemm.device.epilogue import Epilogue
from numba_gemm.driver import blas, cuda_api, launch, workspace
from numba_gemm.driver.workspace import Workspace, Workspaces
from numba_gemm.kernels.signatures import AT_A, AT_ALPHA, AT_B, AT_BETA, AT_BIAS, AT_C, AT_FLAGS, AT_SUMS, WorkspaceSize
from numba_gemm.ladder import Version
from numba_gemm.problem import Arrangement, Operand, that_counts
from numba_gemm.tile import FLOAT_BYTES, Tile

#: No place yet: the kernel is given one before each launch.
_NOWHERE = Workspace(0, 0)


class Product:
    """The launches of one arrangement, for operands that may lie elsewhere at each call. For one thread."""

    __slots__ = ("_empty", "_launches", "_swapped", "alpha", "beta")

    def __init__(self, launches: Sequence[launch.Launch], arrangement: Arrangement, alpha: float, beta: float) -> None:
        """`launches` are those that `blas.prepare` made for the arrangement that counts, and the scalars."""
        #: Those of the last launch.
        self.alpha, self.beta = alpha, beta
        self._swapped = arrangement.transposed
        self._empty = arrangement.k == 0
        batches = (arrangement.a.batch, arrangement.b.batch, arrangement.c.batch)
        a_step, b_step, c_step = (blas.MAX_BATCH * batch * FLOAT_BYTES for batch in batches)
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
        if self._empty:  # an empty sum is 0 for any alpha
            alpha = 0.0
        if alpha != self.alpha or beta != self.beta:
            for prepared in self.launches:
                prepared.set_float(AT_ALPHA, alpha)
                prepared.set_float(AT_BETA, beta)
            self.alpha, self.beta = alpha, beta
        for prepared, a_offset, b_offset, c_offset in self._launches:
            prepared.set_pointer(AT_A, a + a_offset)
            prepared.set_pointer(AT_B, b + b_offset)
            prepared.set_pointer(AT_C, c + c_offset)
            if bias is not None:
                prepared.set_pointer(AT_BIAS, bias)
            prepared.stream = stream
            prepared()

    def direct(self) -> Callable[[int, int, int, int], None]:
        """The same as a function of the addresses of A, B and C, and the stream; with the scalars of the last call."""
        if len(self._launches) == 1:
            return self.launches[0].at(*((AT_B, AT_A, AT_C) if self._swapped else (AT_A, AT_B, AT_C)))
        return self._with_last_scalars

    def _with_last_scalars(self, a: int, b: int, c: int, stream: int) -> None:
        self(a, b, c, None, self.alpha, self.beta, stream)


class ProductWithWorkspace(Product):
    """The same, for a version whose blocks exchange partial sums: at each call, in the workspace of its stream."""

    __slots__ = ("_device", "_flags", "_size", "_sums", "_workspaces")

    def __init__(
        self,
        launches: Sequence[launch.Launch],
        arrangement: Arrangement,
        alpha: float,
        beta: float,
        workspaces: Workspaces,
        size: WorkspaceSize,
    ) -> None:
        super().__init__(launches, arrangement, alpha, beta)
        self._workspaces, self._size = workspaces, size
        self._device = cuda_api.current_device()
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
        for prepared in self.launches:
            prepared.set_pointer(AT_SUMS, place.sums)
            prepared.set_pointer(AT_FLAGS, place.flags)
        self._sums, self._flags = place.sums, place.flags


def product_of(
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
    arrangement = that_counts(arrangement, alpha)
    launches = blas.prepare(version, tile, arrangement, epilogue, bias, alpha, beta, stream=0, place=_NOWHERE)
    if launches and version.has_workspace:
        size = blas.workspace_size(version, tile, blas.variant_of(arrangement, tile, epilogue), arrangement)
        if size is not None and size.floats + size.flags > 0:
            return ProductWithWorkspace(launches, arrangement, alpha, beta, workspaces, size)
    return Product(launches, arrangement, alpha, beta)
