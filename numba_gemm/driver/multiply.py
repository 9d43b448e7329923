"""Products on the device: what a kernel cannot take is brought into a form that it can; and `compare`.

Data are taken as checked: `numba_gemm.calls.sgemm` is for callers.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import cache, partial
from typing import Any

import numpy as np
from numba import cuda

from numba_gemm.compiler.disk_cache import enable_disk_cache
from numba_gemm.compiler.target import SIMULATOR
from numba_gemm.device.epilogue import Epilogue
from numba_gemm.driver import blas, launch, loading
from numba_gemm.driver.comparison import Comparison, Problem
from numba_gemm.driver.cuda_api import current_device, device_memory
from numba_gemm.driver.operands import as_operand
from numba_gemm.kernels import staging
from numba_gemm.kernels.signatures import PLAIN, STAGING
from numba_gemm.ladder import Version, find
from numba_gemm.problem import Operand, arrange
from numba_gemm.tile import FLOAT_BYTES, Tile

#: Largest grid along y.
_MAX_GRID_Y = 65535


def prepare_gemm(version: Version, tile: Tile, a: Operand, b: Operand, c: Operand, stream: int) -> list[launch.Launch]:
    """The launches of C = A·B on operands that the kernel takes as they are: one, and more if M is huge."""
    if version.takes_variants:
        return blas.prepare(
            version, tile, arrange(a, b, c, few_rows=version.few_rows), Epilogue(), None, 1.0, 0.0, stream
        )
    (m, k), n = a.shape, b.shape[1]
    kernel = loading.gemm_kernel(version, tile)
    if version.a_k_major:
        a = a.transposed
    launches: list[launch.Launch] = []
    panel_rows = _MAX_GRID_Y * tile.bm  # a grid has at most 65535 blocks along y
    for first in range(0, m if n else 0, panel_rows):
        end = min(first + panel_rows, m)
        panel = (a, b, c) if end - first == m else (_rows_of_a(version, a, first, end), b, c.rows(first, end))
        config = version.module.launch_config(tile, end - first, n, k)
        launches.append(launch.prepare(kernel, PLAIN, config, panel, stream))
    return launches


def _rows_of_a(version: Version, a: Operand, first: int, end: int) -> Operand:
    """Rows first … end−1 of A, as the kernel takes it: K-major they are columns, and keep the whole row's stride."""
    if version.a_k_major:
        return a._replace(pointer=a.pointer + first * FLOAT_BYTES)
    return a.rows(first, end)


@cache
def _staging_kernel() -> Any:
    kernel = staging.make_kernel()
    enable_disk_cache(kernel, "staging")
    return kernel


def load_staging() -> None:
    """Compile and load the copy kernel on the current device, so that a later copy only launches."""
    loading.load(_staging_kernel(), STAGING)


def launch_copy(source: Operand, target: Operand, stream: int) -> None:
    """target[i, j] = source[i, j], or 0 where the source has no such element."""
    if target.size == 0:
        return
    launch.launch(_staging_kernel(), STAGING, staging.launch_config(*target.shape), (source, target), stream)


# Products --------------------------------------------------------------------------------------------


def takes_as_is(version: Version, operand: Operand, multiples: tuple[int, int], *, column_major: bool = False) -> bool:
    """Whether a kernel can work on an operand directly, without a copy into whole aligned tiles."""
    if operand.size == 0 or version.takes_variants:
        return True
    whole = not version.needs_whole_tiles or all(
        extent % multiple == 0 for extent, multiple in zip(operand.shape, multiples, strict=True)
    )
    laid_out = operand.transposed if column_major else operand
    return whole and laid_out.is_contiguous and operand.pointer % version.alignment == 0


def multiply(version: Version, tile: Tile, a: Operand, b: Operand, c: Operand, stream: int) -> None:
    """C = A·B for operands of any shape and layout: what the kernel cannot take goes through scratch."""
    (m, k), n = a.shape, b.shape[1]
    if m == 0 or n == 0:
        return
    padded_m, padded_n, padded_k = tile.padded(m, n, k) if version.needs_whole_tiles else (m, n, k)

    device = current_device()
    with ExitStack() as scratches:

        def staged(operand: Operand, rows: int, columns: int, column_major: bool = False) -> Operand:
            if operand.shape == (rows, columns) and takes_as_is(version, operand, (1, 1), column_major=column_major):
                return operand
            pointer = scratches.enter_context(device_memory(rows * columns * FLOAT_BYTES, stream))
            strides = (1, rows) if column_major else (columns, 1)
            return Operand(operand.name, pointer, (rows, columns), strides, device=device)

        whole_a = staged(a, padded_m, padded_k, version.a_k_major)
        whole_b = staged(b, padded_k, padded_n)
        whole_c = staged(c, padded_m, padded_n)
        if whole_a is not a:
            launch_copy(a, whole_a, stream)
        if whole_b is not b:
            launch_copy(b, whole_b, stream)
        for launch_panel in prepare_gemm(version, tile, whole_a, whole_b, whole_c, stream):
            launch_panel()
        if whole_c is not c:
            launch_copy(whole_c, c, stream)


def in_layout(version: Version, a: Operand) -> Operand:
    """A in the layout that the kernel reads: a column-major copy where it is K-major and A is not."""
    if not version.a_k_major or a.transposed.is_contiguous:
        return a
    copied = as_operand(cuda.device_array(a.shape, np.float32, order="F"), a.name, 0)
    launch_copy(a, copied, 0)
    return copied


# Comparison ------------------------------------------------------------------------------------------


def compare(
    version: int | str,
    m: int,
    n: int,
    k: int,
    *,
    tile: Tile | None = None,
    problem: Problem | None = None,
    rounds: int = 20,
) -> Comparison:
    """Run a version on `numba.cuda` arrays and hold it against NumPy in float64 and against cuBLAS.

    C is full of NaN before the run. Times are medians over `rounds` rounds that run the version and cuBLAS in turn;
    a shape that is not whole tiles is timed with its padding.

    Args:
        version: a number or name of `VERSIONS`.
        m, n, k: C[m, n] = A[m, k] · B[k, n].
        tile: instead of the version's default.
        problem: operands to use again for several versions.
        rounds: how often each is timed.

    Raises:
        CublasError: on a GPU, if there is no cuBLAS.
    """
    chosen = find(version)
    used_tile = tile or chosen.default_tile
    chosen.check(used_tile)
    problem = problem or Problem.random(m, n, k)
    if problem.shape != (m, n, k):
        raise ValueError(f"the problem has m, n, k = {problem.shape}, not {(m, n, k)}")
    c = cuda.to_device(np.full((m, n), np.nan, np.float32))
    operands = as_operand(problem.a, "a", 0), as_operand(problem.b, "b", 0), as_operand(c, "c", 0)
    multiply(chosen, used_tile, *operands, 0)
    error = problem.reference.error(c.copy_to_host())
    if SIMULATOR:
        return Comparison(chosen, used_tile, (m, n, k), error)

    from numba_gemm.driver.cublas import Cublas  # measuring needs the GPU that it measures
    from numba_gemm.driver.timing import GpuTimer

    cublas = Cublas()
    run: Callable[[], None]
    loaded: loading.LoadedKernel | None
    if used_tile.padded(m, n, k) == (m, n, k) or not chosen.needs_whole_tiles:
        a, b, c_operand = operands
        (prepared,) = prepare_gemm(chosen, used_tile, in_layout(chosen, a), b, c_operand, 0)
        run, loaded = prepared, prepared.loaded
    else:
        run = partial(multiply, chosen, used_tile, *operands, 0)
        loaded = loading.load(loading.gemm_kernel(chosen, used_tile), PLAIN, used_tile.shared_bytes)
    times = GpuTimer().compare({"version": run, "cuBLAS": lambda: cublas.sgemm(*operands)}, rounds=rounds)
    return Comparison(
        chosen,
        used_tile,
        (m, n, k),
        error,
        seconds=times["version"].median,
        cublas_seconds=times["cuBLAS"].median,
        registers=loaded.registers if loaded else None,
        local_bytes=loaded.local_bytes if loaded else None,
    )
