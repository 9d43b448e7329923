"""A float32 product in Triton, with IEEE multiply-adds instead of TF32, for shapes of whole tiles.

The kernel is the usual one: a program computes a BM × BN tile of C and walks K in steps of BK; programs are numbered in
groups of rows, so that those that run at once share operands in the L2. Triton makes the pipeline and the layout. A
few tiles are tried on the device, and the fastest is the peer.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import triton  # type: ignore[import-not-found,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,unused-ignore]

from numba_gemm.driver.timing import GpuTimer

_TRIALS = 3


@dataclass(frozen=True)
class TritonTile:
    """The tile of a program, its warps, and the depth of the pipeline."""

    bm: int
    bn: int
    bk: int
    warps: int
    stages: int

    def __str__(self) -> str:
        return f"{self.bm}×{self.bn}×{self.bk}, {self.warps} warps, {self.stages} stages"


#: Of the order of those that are fastest for float32 on tensor-core GPUs with multiply-adds in registers.
TILES = (
    TritonTile(64, 128, 16, 4, 3),
    TritonTile(128, 128, 16, 8, 3),
    TritonTile(128, 128, 32, 8, 2),
    TritonTile(128, 256, 16, 8, 2),
)
#: Rows of tiles that are numbered together.
_GROUP = 8


@triton.jit
def _matmul(  # type: ignore[no-untyped-def]
    a_start, b_start, c_start, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr
):
    program = tl.program_id(0)
    rows_of_tiles, columns_of_tiles = m // BM, n // BN
    group = program // (GROUP * columns_of_tiles)
    rows_in_group = tl.minimum(rows_of_tiles - group * GROUP, GROUP)
    in_group = program % (GROUP * columns_of_tiles)
    tile_row = group * GROUP + in_group % rows_in_group
    tile_column = in_group // rows_in_group

    rows = tile_row * BM + tl.arange(0, BM)
    columns = tile_column * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    a_tile = a_start + rows[:, None] * k + ks[None, :]
    b_tile = b_start + ks[:, None] * n + columns[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(k // BK):
        total = tl.dot(tl.load(a_tile), tl.load(b_tile), total, input_precision="ieee")
        a_tile += BK
        b_tile += BK * n
    tl.store(c_start + rows[:, None] * n + columns[None, :], total)


@dataclass(frozen=True)
class Chosen:
    """The fastest tile, ready to be launched on PyTorch's current stream."""

    tile: TritonTile
    launch: Callable[[], object]


def fastest(a: Any, b: Any, c: Any, timer: GpuTimer) -> Chosen:
    """Try the tiles on row-major tensors.

    Raises:
        ValueError: if the shape is not whole tiles of any.
        RuntimeError: if Triton can compile none of them, with what it said.
    """
    shape = (a.shape[0], b.shape[1], a.shape[1])
    whole = [tile for tile in TILES if all(size % part == 0 for size, part in zip(shape, _sizes(tile), strict=True))]
    if not whole:
        raise ValueError(f"{shape} is not whole tiles of any of {', '.join(map(str, TILES))}")
    times: list[tuple[float, TritonTile]] = []
    problems = []
    for tile in whole:
        launch = _launcher(a, b, c, tile)
        try:
            launch()
            times.append((statistics.median(timer.time(launch) for _ in range(_TRIALS)), tile))
        except Exception as error:  #  Triton raises types of its own: too much shared memory, for one
            problems.append(f"{tile}: {error}")
    if not times:
        raise RuntimeError(f"Triton can run none of its tiles: {'; '.join(problems)}")
    _, tile = min(times, key=lambda timed: timed[0])
    return Chosen(tile, _launcher(a, b, c, tile))


def _sizes(tile: TritonTile) -> tuple[int, int, int]:
    return tile.bm, tile.bn, tile.bk


def _launcher(a: Any, b: Any, c: Any, tile: TritonTile) -> Callable[[], object]:
    m, n, k = a.shape[0], b.shape[1], a.shape[1]
    grid = ((m // tile.bm) * (n // tile.bn),)
    sizes = {"BM": tile.bm, "BN": tile.bn, "BK": tile.bk, "GROUP": _GROUP}
    # Multiply-adds in one instruction, as cuBLAS and the versions here have them, whatever Triton's default is.
    options = {"num_warps": tile.warps, "num_stages": tile.stages, "enable_fp_fusion": True}
    return lambda: _matmul[grid](a, b, c, m, n, k, **sizes, **options)
