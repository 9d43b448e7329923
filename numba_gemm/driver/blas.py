"""The rungs that take everything: from an arrangement, an epilogue and scalars to launches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from numba_gemm.device.epilogue import Epilogue
from numba_gemm.driver import cuda_api, launch, loading, workspace
from numba_gemm.driver.arguments import Argument, Vector
from numba_gemm.driver.workspace import Workspace
from numba_gemm.kernels import reduce
from numba_gemm.kernels.signatures import AT_C, WorkspaceSize
from numba_gemm.kernels.variant import Variant
from numba_gemm.ladder import Version
from numba_gemm.problem import Arrangement, Lines, Operand, that_counts
from numba_gemm.tile import FLOAT_BYTES, LaunchConfig, Tile

#: Largest grid along z: a larger batch takes several launches.
MAX_BATCH = 65535


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
    arrangement = that_counts(arrangement, alpha)
    m, n, k = arrangement.m, arrangement.n, arrangement.k
    if m == 0 or n == 0:
        return []
    if k == 0:  # an empty sum is 0 for any alpha, even infinity
        alpha = 0.0
    variant = variant or variant_of(arrangement, tile, epilogue)
    kernel = loading.gemm_kernel(version, tile, variant)
    size = workspace_size(version, tile, variant, arrangement)
    if size is not None and place is None:
        place = workspace.allocate(size, stream)
    a, b, c = arrangement.a, arrangement.b, arrangement.c
    launches: list[launch.Launch] = []
    for first in range(0, arrangement.batch, MAX_BATCH):
        count = min(MAX_BATCH, arrangement.batch - first)
        config = _launch_config(version, tile, variant, arrangement, count)
        arguments: list[Argument] = [
            *(_matrix("a", a, first), _matrix("b", b, first), _matrix("c", c, first), _bias(bias, c)),
            *(m, n, k),
            *(float(alpha), float(beta)),
            *(a.batch, b.batch, c.batch),
        ]
        if size is not None and place is not None:
            arguments += [
                Vector(place.sums, size.floats, np.float32, place.memory),
                Vector(place.flags, size.flags, np.uint32),
                count,
            ]
        prepared = launch.prepare(kernel, version.signature, config, arguments, stream)
        parts = _parts(version, tile, arrangement, count)
        if parts > 1:
            prepared = launch.InTurn(prepared, _reduction(tile, variant, arrangement, parts, count, arguments, stream))
        if version.adds_to_c:
            prepared = launch.OntoZeros(prepared, AT_C, _matrix("c", c, first)._replace(shape=(m, n)))
        launches.append(prepared)
    return launches


def _multiprocessors() -> int:
    return cuda_api.multiprocessors(cuda_api.current_device())


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
    arguments: list[Argument],
    stream: int,
) -> launch.Launch:
    """The launch that adds up the parts, to follow one with these arguments."""
    config = reduce.launch_config(tile, arrangement.m, arrangement.n, batch, parts)
    kernel = loading.reduce_kernel(tile, variant)
    return launch.prepare(kernel, reduce.SIGNATURE, config, [*arguments, parts], stream)


def workspace_size(version: Version, tile: Tile, variant: Variant, arrangement: Arrangement) -> WorkspaceSize | None:
    """What its launches need, one after another; None for a version without a workspace."""
    if not version.has_workspace:
        return None
    m, n, k = arrangement.m, arrangement.n, arrangement.k
    multiprocessors = _multiprocessors()
    whole, rest = divmod(arrangement.batch, MAX_BATCH)
    batches = [MAX_BATCH] * min(whole, 1) + [rest] * min(rest, 1)
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
