"""The rungs that take everything: from an arrangement, an epilogue and scalars to launches."""

from __future__ import annotations

from dataclasses import replace

from numba_gemm import launch
from numba_gemm.arrange import Arrangement, Lines
from numba_gemm.device.epilogue import Epilogue
from numba_gemm.kernels.signatures import GENERAL
from numba_gemm.ladder import Version
from numba_gemm.operands import Operand
from numba_gemm.tile import FLOAT_BYTES, LaunchConfig, Tile
from numba_gemm.variant import Variant

#: Largest grid along z: a larger batch takes several launches.
_MAX_BATCH = 65535


def variant_of(arrangement: Arrangement, tile: Tile, epilogue: Epilogue) -> Variant:
    """What the kernel has to be compiled for."""
    m, n, k = arrangement.m, arrangement.n, arrangement.k
    return Variant(
        a_along_k=arrangement.a_along_k,
        b_along_k=arrangement.b_along_k,
        vector=arrangement.vector,
        whole=k > 0 and (m, n, k) == tile.padded(m, n, k),
        epilogue=replace(epilogue, transposed=arrangement.transposed),
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
) -> list[launch.Launch]:
    """The launches of C = epilogue(alpha·A·B + beta·C + bias); more than one for a batch above 65535."""
    if alpha == 0:  # A and B are not read, as with no k at all
        arrangement = replace(arrangement, k=0)
    m, n, k = arrangement.m, arrangement.n, arrangement.k
    if m == 0 or n == 0:
        return []
    variant = variant_of(arrangement, tile, epilogue)
    kernel = launch.gemm_kernel(version, tile, variant)
    a, b, c = arrangement.a, arrangement.b, arrangement.c
    launches: list[launch.Launch] = []
    for first in range(0, arrangement.batch, _MAX_BATCH):
        count = min(_MAX_BATCH, arrangement.batch - first)
        config: LaunchConfig = version.module.launch_config(tile, variant, m, n, count)
        arguments: list[launch.Argument] = [
            *(_matrix("a", a, first), _matrix("b", b, first), _matrix("c", c, first), _bias(bias, c)),
            *(m, n, k),
            *(float(alpha), float(beta)),
            *(a.batch, b.batch, c.batch),
        ]
        launches.append(launch.prepare(kernel, GENERAL, config, arguments, stream))
    return launches


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
