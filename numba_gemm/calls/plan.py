"""`plan`: choose and compile once, then call with the cheapest checks that keep memory safe."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from numba_gemm import ladder
from numba_gemm.auto.choose import choose
from numba_gemm.auto.entry import Choice
from numba_gemm.calls import checks
from numba_gemm.driver import cuda_api, staging
from numba_gemm.driver.again import again_of
from numba_gemm.driver.loading import LoadedKernel
from numba_gemm.driver.operands import as_operand
from numba_gemm.driver.product import Admission, Operands, Products
from numba_gemm.driver.streams import stream_handle
from numba_gemm.kernels.interface import Variant
from numba_gemm.problem import Problem
from numba_gemm.tile import LaunchConfig, Tile


class Plan:
    """C = epilogue(activation(alpha · op(A)·op(B) + beta · C + bias)) for one shape, ready to launch.

    Made by `numba_gemm.plan`, for the device that was current then. One thread at a time may call a plan;
    different plans, and `sgemm`, run in parallel. It can be captured in a CUDA graph from the first call on. It owns no
    memory on the device, except where the version has a workspace: then one a stream that it was called on, so that
    calls on different streams may run at once.
    """

    def __init__(self, planned: Problem, batch: int | None, trans_a: bool, trans_b: bool, admitted: Admission) -> None:
        """`planned` is the problem of aligned operands without gaps; `batch` is None for plain matrices."""
        self._planned, self._batch, self._admitted = planned, batch, admitted
        self._trans_a, self._trans_b = trans_a, trans_b
        m, n, k = planned.m, planned.n, planned.k
        self._shape_a, self._shape_b = (k, m) if trans_a else (m, k), (n, k) if trans_b else (k, n)
        self._shape_c = (m, n) if batch is None else (batch, m, n)
        self._products = Products()
        self._variants: set[Variant] = set()
        self._config = LaunchConfig((0, 0, 0), (admitted.tile.threads, 1))
        self._loaded: LoadedKernel | None = None
        if 0 not in (m, n, planned.batch):
            self._compile(trans_a, trans_b)

    @property
    def version(self) -> int | str:
        """The number of the rung that was chosen, or the name of a detour."""
        version = self._admitted.version
        return version.name if version.number is None else version.number

    @property
    def tile(self) -> Tile:
        return self._admitted.tile

    @property
    def grid(self) -> tuple[int, ...]:
        """Blocks of the launch for aligned operands, along x, y, z."""
        return self._config.grid

    @property
    def block(self) -> tuple[int, ...]:
        """Threads per block, along x, y."""
        return self._config.block

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory per block."""
        return self._config.shared_bytes + (self._loaded.shared_bytes if self._loaded else 0)

    @property
    def registers(self) -> int | None:
        """Registers per thread; None in the simulator."""
        return self._loaded.registers if self._loaded else None

    def __call__(
        self, a: Any, b: Any, c: Any, *, alpha: float = 1.0, beta: float = 0.0, bias: Any = None, stream: Any = None
    ) -> Any:
        """Launch the product for these operands; asynchronous. Returns `c`.

        Raises:
            TypeError, ValueError: like `sgemm`, for operands that are not what was planned.
        """
        handle = 0 if stream is None else stream_handle(stream)
        again = self._products.again.get(bias is None)
        if again is not None and again(a, b, c, bias, alpha, beta, handle) is not None:
            return c
        alpha, beta = checks.scalar("alpha", alpha), checks.scalar("beta", beta)
        matrix_a, matrix_b = as_operand(a, "a", handle), as_operand(b, "b", handle)
        matrix_c = as_operand(c, "c", handle)
        operands = Operands(matrix_a, matrix_b, matrix_c, None if bias is None else as_operand(bias, "bias", handle))
        self._check_shapes(operands)
        trans_a, trans_b = self._trans_a, self._trans_b
        problem = Problem.of(matrix_a, matrix_b, matrix_c, trans_a=trans_a, trans_b=trans_b, bias=operands.bias)
        admit = partial(self._admit, operands, problem, alpha)
        product = self._products.launch(operands, problem, (), alpha, beta, handle, admit)
        again = again_of(product, (a, b, c, bias), self._shape_c)
        if again is not None:
            self._products.again[bias is None] = again
        return c

    def _check_shapes(self, operands: Operands) -> None:
        a, b, c, bias = operands
        if (bias is not None) != self._admitted.epilogue.bias:
            raise ValueError(
                "the plan was made with bias=True; pass a bias"
                if bias is None
                else "the plan was made without bias=True"
            )
        for operand, shape in ((a, self._shape_a), (b, self._shape_b)):
            if operand.shape != shape and not self._fits_batch(operand.shape, shape):
                planned = str(shape)
                if self._batch is not None:
                    planned = f"{shape}, {(1, *shape)} or {(self._batch, *shape)}"
                raise ValueError(f"{operand.name} has shape {operand.shape}; the plan is for {planned}")
        if c.shape != self._shape_c:
            raise ValueError(f"c has shape {c.shape}; the plan is for {self._shape_c}")
        if bias is not None:
            checks.check_bias(bias, self._planned.n)

    def _fits_batch(self, shape: tuple[int, ...], matrix: tuple[int, int]) -> bool:
        return self._batch is not None and shape[1:] == matrix and shape[0] in (1, self._batch)

    def _admit(self, operands: Operands, problem: Problem, alpha: float) -> Admission:
        """Check a call, whose shapes fit."""
        a, b, c, bias = operands
        checks.check_writable(c)
        device = self._admitted.device
        for operand in operands.present:
            if operand.device is not None and operand.device != device:
                raise ValueError(f"{operand.name} is on device {operand.device}; the plan is for device {device}")
        for read in (a, b, bias):
            if read is not None:
                checks.check_disjoint(c, read)
        takes_variants = self._admitted.version.traits.takes_variants
        if c.size and takes_variants and self._variant(problem, alpha) not in self._variants:
            raise ValueError(
                "a plan takes matrices with unit stride along their last axis; these have strides "
                f"{a.strides} (a), {b.strides} (b) and {c.strides} (c), in elements. Plan with trans_a or trans_b, "
                "or make them contiguous"
            )
        return self._admitted

    def _variant(self, problem: Problem, alpha: float) -> Variant:
        """What a call's kernel is compiled for."""
        version, tile, epilogue, _ = self._admitted
        counts = problem.without_products() if alpha == 0 else problem
        return Variant.of(version.oriented(counts), tile, epilogue)

    def _compile(self, trans_a: bool, trans_b: bool) -> None:
        """Compile and load every kernel that a call of this plan may need."""
        m, n, k, bias = self._planned.m, self._planned.n, self._planned.k, self._planned.bias is not None
        unaligned = Problem.contiguous(m, n, k, self._batch, trans_a=trans_a, trans_b=trans_b, aligned=False, bias=bias)
        product = self._products.build(self._planned, (), 1.0, self._admitted)
        if self._admitted.version.traits.takes_variants:
            self._products.build(unaligned, (), 1.0, self._admitted)
            self._products.build(unaligned, (), 0.0, self._admitted)
            for problem, alpha in ((self._planned, 1.0), (unaligned, 1.0), (unaligned, 0.0)):
                self._variants.add(self._variant(problem, alpha))
        else:
            staging.load()
        if product.main is not None:
            self._config, self._loaded = product.main.config, product.main.loaded


def plan(
    m: int,
    n: int,
    k: int,
    *,
    batch: int | None = None,
    trans_a: bool = False,
    trans_b: bool = False,
    version: int | str = "auto",
    bias: bool = False,
    activation: str | None = None,
    epilogue: Callable[..., Any] | None = None,
    tile: Tile | None = None,
) -> Plan:
    """Choose and compile a product of one shape, on the current device.

    Args:
        m, n, k: C[m, n] = op(A)[m, k] · op(B)[k, n].
        batch: the number of matrices; None for plain matrices.
        trans_a, trans_b: op(X) = Xᵀ.
        version, activation, epilogue, tile: as for `sgemm`.
        bias: whether calls will pass a bias.

    Raises:
        TypeError, ValueError, RuntimeError: like `sgemm`.
    """
    for name, extent in (("m", m), ("n", n), ("k", k), *([] if batch is None else [("batch", batch)])):
        checks.check_extent(name, extent)
    for name, flag in (("trans_a", trans_a), ("trans_b", trans_b), ("bias", bias)):
        checks.check_flag(name, flag)
    checks.check_tile_type(tile)
    finish = checks.epilogue_of(bool(bias), activation, epilogue)
    requested = None if version == "auto" else ladder.find(version)
    device = cuda_api.current_device()
    transposed = {"trans_a": bool(trans_a), "trans_b": bool(trans_b)}
    planned = Problem.contiguous(m, n, k, batch, **transposed, bias=bool(bias))
    picked = Choice(requested, tile or requested.default_tile) if requested else choose(device, planned.key, tile)
    asked = checks.arguments_given(
        batch=batch,
        trans_a=trans_a,
        trans_b=trans_b,
        bias=bias,
        activation=activation is not None,
        epilogue=epilogue is not None,
    )
    checks.check_capabilities(picked.version, asked)
    used = checks.checked_tile(picked.version, picked.tile, device)
    return Plan(planned, batch, **transposed, admitted=Admission(picked.version, used, finish, device))
