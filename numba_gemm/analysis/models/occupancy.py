"""Occupancy: how many blocks, and so warps, a multiprocessor (SM) holds at a time, and what limits them.

The rules are those of NVIDIA's occupancy calculator (cuda_occupancy.h of the CUDA toolkit) for compute capability 8.0
to 12.1:

- registers are given to a warp in units of 256, out of the quarter of the register file that its partition has;
- shared memory is given to a block in units of 128 bytes, and each block pays 1024 bytes more that the system
  reserves (from compute capability 8.0 on): why 164 KB per SM are 163 KB for a block;
- an SM holds so many warps and so many blocks at most.

Not counted: the configuration of the unified L1 and shared memory. It is taken as the largest, which is what a launch
gets where shared memory is what limits it and where a kernel asks for it.
"""

from __future__ import annotations

from dataclasses import dataclass

from numba_gemm.hardware.devices import PARTITIONS, Hardware
from numba_gemm.hardware.quantity import Result, ceil_div, require, round_up
from numba_gemm.tile import MAX_THREADS, WARP

REGISTER_UNIT = 256
SHARED_UNIT = 128
RESERVED_SHARED_BYTES = 1024
MAX_REGISTERS = 255


@dataclass(frozen=True)
class Occupancy(Result):
    """Blocks per SM and what they make of it; `limits` is the number of blocks that each resource alone would allow."""

    blocks_per_sm: int
    warps_per_sm: int
    #: Warps over the most that an SM holds, 0 … 1.
    occupancy: float
    #: The resources that allow no more blocks than there are: "registers", "shared", "warps", "blocks".
    limiters: tuple[str, ...]
    limits: dict[str, int]


def occupancy(threads: int, registers: int, shared_bytes: int, device: Hardware) -> Occupancy:
    """Residency of blocks of `threads`, with `registers` a thread and `shared_bytes` (static and dynamic) a block.

    Raises:
        ValueError: for a block that cannot be launched at all, with the limit that it breaks.

    """
    _require_launchable(threads, registers, shared_bytes, device)
    warps = ceil_div(threads, WARP)
    limits = {
        "registers": _blocks_by_registers(warps, registers, device),
        "shared": _blocks_by_shared(shared_bytes, device),
        "warps": device.max_warps // warps,
        "blocks": device.max_blocks,
    }
    blocks = min(limits.values())
    return Occupancy(
        blocks_per_sm=blocks,
        warps_per_sm=blocks * warps,
        occupancy=blocks * warps / device.max_warps,
        limiters=tuple(name for name, limit in limits.items() if limit == blocks),
        limits=limits,
    )


def _require_launchable(threads: int, registers: int, shared_bytes: int, device: Hardware) -> None:
    require(1, threads=threads, registers=registers)
    require(0, shared_bytes=shared_bytes)
    if threads > MAX_THREADS:
        raise ValueError(f"{threads} threads; a block holds at most {MAX_THREADS}")
    if registers > MAX_REGISTERS:
        raise ValueError(f"{registers} registers a thread; a thread has at most {MAX_REGISTERS}")
    if shared_bytes > device.shared_bytes_per_block:
        raise ValueError(
            f"{shared_bytes} bytes of shared memory; a block on {device.name} has at most "
            f"{device.shared_bytes_per_block}"
        )
    # The hardware's check at launch takes as many warps in each partition.
    needed = _registers_per_warp(registers) * round_up(ceil_div(threads, WARP), PARTITIONS)
    if needed > device.registers:
        raise ValueError(
            f"{threads} threads of {registers} registers take {needed}; an SM of {device.name} has {device.registers}"
        )


def _registers_per_warp(registers: int) -> int:
    return round_up(registers * WARP, REGISTER_UNIT)


def _blocks_by_registers(warps: int, registers: int, device: Hardware) -> int:
    warps_per_partition = device.registers // PARTITIONS // _registers_per_warp(registers)
    return warps_per_partition * PARTITIONS // warps


def _blocks_by_shared(shared_bytes: int, device: Hardware) -> int:
    return device.shared_bytes // round_up(shared_bytes + RESERVED_SHARED_BYTES, SHARED_UNIT)


def filling_shared_bytes(blocks: int, device: Hardware) -> int:
    """Shared memory, static and dynamic, with which `blocks` blocks fit an SM and leave no room for one more."""
    require(1, blocks=blocks)
    return device.shared_bytes // blocks // SHARED_UNIT * SHARED_UNIT - RESERVED_SHARED_BYTES


def floor_blocks(threads: int, registers: int, shared_bytes: int, device: Hardware) -> int:
    """Blocks per SM by plain division, without granularity and reservation, as the source documents count them.

    min(⌊65536 / (R·T)⌋, ⌊shared per SM / shared per block⌋, ⌊threads per SM / T⌋, blocks per SM).
    """
    require(1, threads=threads, registers=registers)
    require(0, shared_bytes=shared_bytes)
    limits = [device.registers // (registers * threads), device.max_threads // threads, device.max_blocks]
    if shared_bytes:
        limits.append(device.shared_bytes // shared_bytes)
    return min(limits)


def register_cap(threads: int, blocks: int, device: Hardware) -> int:
    """Most registers per thread with which `blocks` blocks fit: ⌊65536 / (T·blocks)⌋, whole units per warp, ≤ 255."""
    require(1, threads=threads, blocks=blocks)
    warps_per_partition = ceil_div(blocks * ceil_div(threads, WARP), PARTITIONS)
    units = device.registers // PARTITIONS // warps_per_partition // REGISTER_UNIT
    return min(units * REGISTER_UNIT // WARP, MAX_REGISTERS)


def registers_by_overhead(tm: int, tn: int, overhead: int = 40) -> int:
    """Rule of thumb: TM·TN accumulators and some 40 for fragments, addresses and the loop. An estimate: compile."""
    require(1, tm=tm, tn=tn)
    return tm * tn + overhead


def registers_by_fragments(tm: int, tn: int) -> int:
    """Lower estimate: TM·TN accumulators and the two fragments, TM + TN, with nothing for addresses."""
    require(1, tm=tm, tn=tn)
    return tm * tn + tm + tn
