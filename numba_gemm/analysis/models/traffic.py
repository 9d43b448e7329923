"""Logical traffic: the bytes that the blocks of a tiled product ask of global memory, caches not counted.

Every block of BM × BN outputs reads BM rows of A and BN columns of B, all K of them:

    reads     = M·N·K·(1/BM + 1/BN)·4       bytes; each element of A is read N/BN times, of B M/BM times
    saving    = 2 / (1/BM + 1/BN)           against one output per thread, which reads 8 bytes per multiply-add
    intensity = BM·BN / (2·(BM + BN))       FLOP per byte read; BK cancels

A block that computes one output is the naive kernel, tile 1 × 1. The same formula one level down, with TM × TN for
BM × BN, counts what threads ask of shared memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from numba_gemm.analysis.models.roofline import flops, intensity
from numba_gemm.hardware.devices import Hardware
from numba_gemm.hardware.quantity import Result, ceil_div, require
from numba_gemm.tile import FLOAT_BYTES, WARP, Tile

#: The least that L2 and memory move: a quarter of a 128-byte line.
SECTOR_BYTES = 32


@dataclass(frozen=True)
class Level(Result):
    """What one level of the memory hierarchy has to deliver: bytes read, and FLOP per byte."""

    name: str
    read_bytes: int
    intensity: float


def tile_intensity(rows: int, columns: int, element_bytes: int = FLOAT_BYTES) -> float:
    """FLOP per byte read for a tile of rows × columns outputs: rows·columns·2 / ((rows + columns)·element_bytes).

    For a block of FP32 the intensity at global memory, for a thread's outputs that at shared memory.
    """
    require(1, rows=rows, columns=columns, element_bytes=element_bytes)
    return 2 * rows * columns / ((rows + columns) * element_bytes)


def read_saving(rows: int, columns: int) -> float:
    """How many times fewer bytes than at one output each: 2·rows·columns / (rows + columns)."""
    require(1, rows=rows, columns=columns)
    return 2 * rows * columns / (rows + columns)


def reuse(rows: int, columns: int) -> float:
    """Multiply-adds per float fetched: rows·columns / (rows + columns), at the level whose tile it is.

    The saving if the single outputs got one of their two operands by broadcast, for nothing.
    """
    require(1, rows=rows, columns=columns)
    return rows * columns / (rows + columns)


def block_read_bytes(m: int, n: int, k: int, bm: int, bn: int) -> int:
    """Bytes of A and B that the blocks read, each once per block; ragged blocks read what exists."""
    require(0, m=m, n=n, k=k)
    require(1, bm=bm, bn=bn)
    return FLOAT_BYTES * k * (m * ceil_div(n, bn) + n * ceil_div(m, bm))


def thread_read_bytes(m: int, n: int, k: int, tile: Tile) -> int:
    """Bytes that the threads read from shared memory: a thread each float that its TM × TN outputs need, once."""
    return block_read_bytes(m, n, k, tile.tm, tile.tn)


def naive_read_bytes(m: int, n: int, k: int) -> int:
    """Bytes that one thread per output asks for: two floats per multiply-add, 8·M·N·K."""
    return block_read_bytes(m, n, k, 1, 1)


def naive_intensity(k: int) -> float:
    """FLOP per byte of one output: 2K FLOP for 8K bytes read and 4 written, → 1/4."""
    require(0, k=k)
    return 2 * k / (8 * k + 4)


def sectors(words: Iterable[int]) -> int:
    """Sectors that one access of a warp touches, for these words (indices of floats in an aligned array)."""
    return len({word * FLOAT_BYTES // SECTOR_BYTES for word in words})


def naive_sector_bytes(m: int, n: int, k: int, a_sectors: int = 1, b_sectors: int = 4) -> int:
    """Bytes of sectors that the naive kernel's warps request: M·N·K/32 steps of `a_sectors` + `b_sectors`.

    With a warp along a row of C, the load of A is one word for all lanes (1 sector), that of B 128 bytes (4 sectors).
    """
    require(0, m=m, n=n, k=k, a_sectors=a_sectors, b_sectors=b_sectors)
    return ceil_div(m * n, WARP) * k * (a_sectors + b_sectors) * SECTOR_BYTES


def levels(m: int, n: int, k: int, tile: Tile) -> tuple[Level, Level]:
    """Reads and intensity at global and at shared memory of a kernel whose blocks copy `tile` to shared memory."""
    work = flops(m, n, k)
    reads = {"global": block_read_bytes(m, n, k, tile.bm, tile.bn), "shared": thread_read_bytes(m, n, k, tile)}
    at_global, at_shared = (Level(name, count, intensity(work, count)) for name, count in reads.items())
    return at_global, at_shared


def barriers(k: int, bk: int, per_step: int) -> int:
    """Barriers that a block passes: `per_step` in each of ⌈K/BK⌉ steps of the main loop.

    Two in a step where one buffer is filled and used in turn, one where the buffers alternate.
    """
    require(0, k=k, per_step=per_step)
    require(1, bk=bk)
    return per_step * ceil_div(k, bk)


def read_seconds(read_bytes: float, device: Hardware) -> float:
    """Seconds for the bytes at the bandwidth of device memory, as if no cache helped."""
    require(0, read_bytes=read_bytes)
    return read_bytes / device.memory_bandwidth
