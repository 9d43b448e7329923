"""`plan`: choose and compile once, then call with the cheapest checks that keep memory safe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba_gemm import ladder
from numba_gemm.calls import checks
from numba_gemm.compiler.target import SIMULATOR
from numba_gemm.device.epilogue import Epilogue
from numba_gemm.driver import blas, cuda_api, loading, multiply
from numba_gemm.driver.admitted import Admitted, Layout, layout_of
from numba_gemm.driver.operands import as_operand, contiguous, wait_for_producers
from numba_gemm.driver.product import Product, product_of
from numba_gemm.driver.repeat import Repeat, repeat_of
from numba_gemm.driver.streams import stream_handle
from numba_gemm.driver.workspace import Workspaces
from numba_gemm.kernels.variant import Variant
from numba_gemm.problem import Operand, arrange, that_counts
from numba_gemm.tile import LaunchConfig, Tile

#: Addresses that take 16-byte accesses and that do not: plans are compiled for both.
_ALIGNED, _UNALIGNED = 4096, 4


class Plan:
    """C = epilogue(activation(alpha · op(A)·op(B) + beta · C + bias)) for one shape, ready to launch.

    Made by `numba_gemm.plan`, for the device that was current then. One thread at a time may call a plan;
    different plans, and `sgemm`, run in parallel. It can be captured in a CUDA graph from the first call on. It owns no
    memory on the device, except where the version has a workspace: then one a stream that it was called on, so that
    calls on different streams may run at once.
    """

    def __init__(
        self,
        shape: checks.Shape,
        trans_a: bool,
        trans_b: bool,
        version: ladder.Version,
        tile: Tile,
        epilogue: Epilogue,
    ) -> None:
        self._shape, self._trans_a, self._trans_b = shape, trans_a, trans_b
        self._chosen, self._tile, self._epilogue = version, tile, epilogue
        self._device = cuda_api.current_device()
        self._shape_a, self._shape_b = shape.of_a(trans_a), shape.of_b(trans_b)
        #: By strides and alignment of the operands; a new entry costs no compilation.
        self._admitted: dict[Layout, Admitted] = {}
        self._workspaces = Workspaces()
        self._variants: set[Variant] = set()
        self._repeat: Repeat | None = None
        self._complete = False
        self._config, self._loaded = self._compile()
        self._complete = True

    @property
    def version(self) -> int | str:
        """The number of the rung that was chosen, or the name of a detour."""
        return self._chosen.name if self._chosen.number is None else self._chosen.number

    @property
    def tile(self) -> Tile:
        return self._tile

    @property
    def grid(self) -> tuple[int, ...]:
        """Blocks of the launch for aligned operands, along x, y, z."""
        return self._config.grid

    @property
    def block(self) -> tuple[int, ...]:
        """Threads of a block."""
        return self._config.block

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory of a block."""
        return self._config.shared_bytes + (self._loaded.shared_bytes if self._loaded else 0)

    @property
    def registers(self) -> int | None:
        """Registers of a thread; None in the simulator."""
        return self._loaded.registers if self._loaded else None

    def __call__(
        self, a: Any, b: Any, c: Any, *, alpha: float = 1.0, beta: float = 0.0, bias: Any = None, stream: Any = None
    ) -> Any:
        """Launch it; asynchronous. Returns `c`.

        Raises:
            TypeError, ValueError: like `sgemm`, for operands that are not what was planned.
        """
        handle = 0 if stream is None else stream_handle(stream)
        repeat = self._repeat
        if bias is None and repeat is not None and repeat(a, b, c, alpha, beta, handle):
            return c
        alpha, beta = checks.scalar("alpha", alpha), checks.scalar("beta", beta)
        matrix_a, matrix_b, matrix_c = (
            as_operand(a, "a", handle),
            as_operand(b, "b", handle),
            as_operand(c, "c", handle),
        )
        vector = None if bias is None else as_operand(bias, "bias", handle)
        admitted = self._admitted.get(layout_of(matrix_a, matrix_b, matrix_c, vector, alpha))
        if admitted is None or not admitted.may_launch(matrix_a, matrix_b, matrix_c, vector):
            self._check(matrix_a, matrix_b, matrix_c, vector)
        with cuda_api.on_device(self._device):
            if not self._chosen.takes_variants:
                wait_for_producers((matrix_a, matrix_b, matrix_c), handle)
                multiply.multiply(self._chosen, self._tile, matrix_a, matrix_b, matrix_c, handle)
            elif matrix_c.size:
                admitted = admitted or self._admit(matrix_a, matrix_b, matrix_c, vector, alpha)
                admitted.launch(matrix_a, matrix_b, matrix_c, vector, alpha, beta, handle)
                if vector is None:
                    self._repeat = repeat_of(admitted, (a, b, c), (matrix_a, matrix_b, matrix_c)) or self._repeat
        return c

    def _admit(self, a: Operand, b: Operand, c: Operand, bias: Operand | None, alpha: float) -> Admitted:
        admitted = Admitted(self._product(a, b, c, bias, alpha), a, b, c, bias)
        self._admitted[layout_of(a, b, c, bias, alpha)] = admitted
        return admitted

    def _product(self, a: Operand, b: Operand, c: Operand, bias: Operand | None, alpha: float) -> Product:
        arrangement = arrange(
            *(checks.shared_matrix(a), checks.shared_matrix(b), c),
            trans_a=self._trans_a,
            trans_b=self._trans_b,
            few_rows=self._chosen.few_rows,
        )
        variant = blas.variant_of(that_counts(arrangement, alpha), self._tile, self._epilogue)
        if self._complete and variant not in self._variants:
            raise ValueError(
                "a plan takes matrices with unit stride along their last axis; these have strides "
                f"{a.strides} (a), {b.strides} (b) and {c.strides} (c), in elements. Plan with trans_a or trans_b, "
                "or make them contiguous"
            )
        self._variants.add(variant)
        return product_of(self._chosen, self._tile, arrangement, self._epilogue, bias, alpha, 0.0, self._workspaces)

    def _check(self, a: Operand, b: Operand, c: Operand, bias: Operand | None) -> None:
        if (bias is not None) != self._epilogue.bias:
            raise ValueError(
                "the plan was made with bias=True; pass a bias"
                if bias is None
                else "the plan was made without bias=True"
            )
        for operand, shape in ((a, self._shape_a), (b, self._shape_b)):
            if operand.shape != shape and not self._fits_batch(operand, shape):
                raise ValueError(f"{operand.name} has shape {operand.shape}; the plan is for {self._planned(shape)}")
        if c.shape != self._shape.of_c:
            raise ValueError(f"c has shape {c.shape}; the plan is for {self._shape.of_c}")
        checks.check_writable(c)
        operands = (a, b, c) if bias is None else (a, b, c, bias)
        for operand in operands:
            if operand.device is not None and operand.device != self._device:
                raise ValueError(f"{operand.name} is on device {operand.device}; the plan is for device {self._device}")
        checks.check_disjoint(c, a)
        checks.check_disjoint(c, b)
        if bias is not None:
            checks.check_bias(bias, self._shape.n, c)

    def _fits_batch(self, operand: Operand, shape: tuple[int, int]) -> bool:
        batch = self._shape.batch
        return batch is not None and operand.shape[1:] == shape and operand.shape[0] in (1, batch)

    def _planned(self, shape: tuple[int, int]) -> str:
        batch = self._shape.batch
        return str(shape) if batch is None else f"{shape}, {(1, *shape)} or {(batch, *shape)}"

    def _compile(self) -> tuple[LaunchConfig, loading.LoadedKernel | None]:
        """Load everything that a call may need; the configuration for aligned operands."""
        m, n, k = self._shape.m, self._shape.n, self._shape.k
        nothing = LaunchConfig((0, 0, 0), (self._tile.threads, 1))
        if m == 0 or n == 0 or self._shape.batch == 0:
            return nothing, None
        if not self._chosen.takes_variants:
            kernel = loading.gemm_kernel(self._chosen, self._tile)
            config = self._chosen.module.launch_config(self._tile, m, n, k)
            if SIMULATOR:
                return config, None
            multiply.load_staging()
            return config, loading.load(kernel, self._chosen.signature, config.shared_bytes)
        bias = Operand("bias", _UNALIGNED, (n,), (1,), device=self._device) if self._epilogue.bias else None
        prepared = []
        for pointer, alpha in ((_ALIGNED, 1.0), (_UNALIGNED, 1.0), (_UNALIGNED, 0.0)):
            operands = (self._stand_in("a", self._shape_a), self._stand_in("b", self._shape_b))
            a, b, c = (
                operand._replace(pointer=pointer) for operand in (*operands, self._stand_in("c", self._shape.of_c))
            )
            prepared.append(self._admit(a, b, c, bias, alpha).product.launches[0])
        return prepared[0].config, prepared[0].loaded

    def _stand_in(self, name: str, shape: tuple[int, ...]) -> Operand:
        """An operand as it is most likely to come, with the batch if there is one."""
        return contiguous(name, batched(shape, self._shape.batch), _ALIGNED, self._device)


def batched(shape: tuple[int, ...], batch: int | None) -> tuple[int, ...]:
    """The shape of a batch of matrices, from that of one."""
    return shape if batch is None or len(shape) == 3 else (batch, *shape)


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
    shape = checks.Shape(m, n, k, batch)
    of_a, of_b = shape.of_a(trans_a), shape.of_b(trans_b)
    stand_ins = (
        contiguous("a", batched(of_a, batch)),
        contiguous("b", batched(of_b, batch)),
        contiguous("c", shape.of_c),
    )
    picked = checks.choice(requested, tile, device, stand_ins, bool(trans_a), bool(trans_b))
    chosen = picked.version
    given = checks.arguments_given(
        batch=batch,
        trans_a=trans_a,
        trans_b=trans_b,
        bias=bias,
        activation=activation is not None,
        epilogue=epilogue is not None,
    )
    checks.check_capabilities(chosen, given)
    used_tile = checks.checked_tile(chosen, picked.tile, device)
    return Plan(shape, bool(trans_a), bool(trans_b), chosen, used_tile, finish)
