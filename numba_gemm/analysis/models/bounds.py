"""How long each part of the hardware takes for one product with one kernel, and what of it adds up.

Each bound is a range. Its lower end takes everything to go as well as it can; its upper end counts what the lower one
leaves out and the hardware may add:

| bound | lower end | upper end |
| --- | --- | --- |
| issue | instructions that the tile needs | one FFMA in four finds its three registers in one bank |
| shared memory | wavefronts of whole warps | of reads of 16 bytes in parts, and copies with a 2-way conflict |
| L1 | lines that loads touch | lines that loads touch |
| L2 | every element once per block, 64 B per cycle and SM | without help of the L1 cache, 32 B per cycle and SM |
| memory | nothing if L2 holds the operands, else each once | what a wave of blocks has in common, once per wave |
| latency | one load from memory per round of blocks | each wait that the kernel does not hide itself |

The prediction runs from the largest lower end (everything overlaps) to the sum of the upper ends of what the kernel
itself does not overlap. A kernel overlaps copies and arithmetic if it has more than one stage, and reads of fragments
and arithmetic if it reads them in pairs; other warps overlap a part of the rest, which no count of a kernel says.

Sources of the machine's figures: 500 cycles from a load to its value in device memory, and 20 in shared memory, are
the latencies that the source documents give. L2 delivers 5120 B per cycle on an A100 (whitepaper), 47 to each of its
108 SMs; other devices' figures are not published, so 32 and 64 stand on both sides of it. Registers have two banks
since Volta, and three random ones lie in the same bank one time in four (Jia et al., "Dissecting the NVIDIA Volta GPU
architecture via microbenchmarking", 2018).

Not in the model: the time to start and end a launch, some microseconds; spills; function calls; the sums that blocks
exchange where several share a tile; a clock that falls under load.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from numba_gemm.analysis.models import structure as counts
from numba_gemm.analysis.models import traffic
from numba_gemm.analysis.models.roofline import minimum_bytes
from numba_gemm.analysis.models.waves import Waves
from numba_gemm.hardware.devices import PARTITIONS, Hardware
from numba_gemm.hardware.quantity import Result, ceil_div
from numba_gemm.kernels.interface import Structure
from numba_gemm.tile import FLOAT_BYTES, WARP, Tile

#: Cycles from a load to its value, from device memory and from shared memory.
MEMORY_LATENCY, SHARED_LATENCY = 500, 20
#: Bytes per cycle that L2 delivers to one multiprocessor: at most, and at least.
L2_BYTES_PER_CYCLE = (64, 32)
#: FFMAs that need three registers of one bank, if registers are taken at random.
SAME_BANK = 1 / 4
#: Steps of k whose loads are under way together in a kernel that reads global memory: the compiler unrolls that loop.
UNROLLED = 4


@dataclass(frozen=True)
class Bound(Result):
    """One part of the hardware: seconds at best and at worst, and the counts that they come from."""

    name: str
    least_s: float
    most_s: float
    why: str


@dataclass(frozen=True)
class Prediction(Result):
    """From everything overlapping to nothing but what the kernel overlaps itself; between them the geometric mean."""

    optimistic_s: float
    predicted_s: float
    pessimistic_s: float


@dataclass(frozen=True)
class Launch:
    """What the bounds are about: a kernel, a shape, a device, and how the grid lies on it."""

    structure: Structure
    tile: Tile
    m: int
    n: int
    k: int
    device: Hardware
    blocks_per_sm: int
    waves: Waves
    #: Instructions for one FFMA, and FFMAs that find three registers in one bank, from machine code if known.
    instructions_per_ffma: float | None = None
    same_bank: float | None = None

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return ceil_div(self.tile.threads, WARP)

    @property
    def steps(self) -> int:
        """Steps of BK that a block computes: all of its tile of C, or its share of those of all tiles."""
        grid_n, grid_m = self.tile.grid(self.m, self.n)
        return ceil_div(grid_m * grid_n * ceil_div(self.k, self.tile.bk), max(self.waves.blocks, 1))

    @property
    def ffma(self) -> int:
        """FFMA instructions of the warps of a block."""
        return self.warps * self.steps * counts.steps_of_thread(self.tile) * self.tile.tm * self.tile.tn

    @property
    def rounds(self) -> int:
        """Blocks that a multiprocessor's slot computes one after the other."""
        return ceil(self.waves.waves)

    @property
    def blocks_of_an_sm(self) -> tuple[int, int]:
        """Blocks of the busiest multiprocessor: dealt out evenly, and with the last wave as slow as a full one."""
        least = ceil_div(self.waves.blocks, self.device.multiprocessors)
        return least, max(least, self.blocks_per_sm * self.rounds) if self.rounds > 1 else least

    def seconds(self, least_cycles: float, most_cycles: float) -> tuple[float, float]:
        """From cycles that a block keeps a part of its multiprocessor busy."""
        least, most = self.blocks_of_an_sm
        return least_cycles * least / self.device.clock_hz, most_cycles * most / self.device.clock_hz


def bounds(launch: Launch) -> tuple[Bound, ...]:
    """All bounds of a launch, the largest first (by the middle of its range)."""
    on_chip = (_shared(launch),) if launch.structure.shared else (_l1(launch),)
    found = (_issue(launch), *on_chip, _l2(launch), _memory(launch), _latency(launch))
    return tuple(sorted(found, key=lambda bound: -(bound.least_s + bound.most_s)))


def predict(launch: Launch, found: tuple[Bound, ...], extra_s: float = 0.0) -> Prediction:
    """The range of time from the bounds, and `extra_s` seconds of other launches in it."""
    most = {bound.name: bound.most_s for bound in found}
    issue, waits = most.pop("issue"), most.pop("latency")
    far = most.pop("L2") + most.pop("memory")
    near = sum(most.values())
    computing = max(issue, near) if launch.structure.paired_fragments else issue + near
    together = max(computing, far) if launch.structure.prefetch else computing + far
    low, high = max(bound.least_s for bound in found) + extra_s, together + waits + extra_s
    return Prediction(low, (low * high) ** 0.5, high)


def instructions_per_ffma(structure: Structure, tile: Tile) -> float:
    """Instructions of a thread for one FFMA that the tile needs: fragments, copies, barriers; no addresses."""
    work = tile.tm * tile.tn
    if not structure.shared:
        return (work + counts.global_loads(tile)) / work
    copies = counts.copy_instructions(structure, tile) + counts.barriers(tile)
    return (work + counts.shared_loads(structure, tile) + copies / counts.steps_of_thread(tile)) / work


def _issue(launch: Launch) -> Bound:
    per_ffma = launch.instructions_per_ffma or instructions_per_ffma(launch.structure, launch.tile)
    same_bank = SAME_BANK if launch.same_bank is None else launch.same_bank
    # Cycles of a scheduler for an FFMA: its own slot and those of the rest, or the lanes of its partition.
    cycles = max(per_ffma, PARTITIONS / launch.device.warp_ffma_per_cycle)
    mine = launch.ffma / PARTITIONS
    known = "" if launch.same_bank is None else ", from machine code"
    return Bound(
        "issue",
        *launch.seconds(mine * cycles, mine * (cycles + same_bank)),
        f"{per_ffma:.3g} instructions an FFMA; up to {same_bank:.0%} of FFMA wait for a register bank{known}",
    )


def _shared(launch: Launch) -> Bound:
    tile = launch.tile
    found = counts.shared_wavefronts(launch.structure, tile)
    reads = launch.warps * launch.steps * counts.steps_of_thread(tile)
    writes = launch.steps * counts.copy_wavefronts(launch.structure, tile)
    return Bound(
        "shared memory",
        *launch.seconds(reads * found.least + writes, reads * found.served + 2 * writes),
        f"{found.least:.3g} to {found.served:.3g} wavefronts for {tile.tm * tile.tn} FFMA of a warp",
    )


def _l1(launch: Launch) -> Bound:
    lines = counts.global_lines(launch.structure, launch.tile)
    cycles = launch.warps * launch.steps * lines
    return Bound(
        "L1",
        *launch.seconds(cycles, cycles),
        f"{lines} lines for {launch.tile.tm * launch.tile.tn} FFMA of a warp, one a cycle",
    )


def _l2(launch: Launch) -> Bound:
    tile = launch.tile
    once = FLOAT_BYTES * launch.steps * tile.bk * (tile.bm + tile.bn)
    often = once
    if not launch.structure.shared:
        sectors = counts.global_sectors(launch.structure, tile)
        often = max(once, launch.warps * launch.steps * sectors * traffic.SECTOR_BYTES)
    fast, slow = L2_BYTES_PER_CYCLE
    blocks = launch.waves.blocks
    amount = volume(once * blocks) + (f" to {volume(often * blocks)}" if often > once else "")
    return Bound("L2", *launch.seconds(once / fast, often / slow), f"{amount} at {fast} to {slow} B a cycle and SM")


def _memory(launch: Launch) -> Bound:
    m, n, k, device = launch.m, launch.n, launch.k, launch.device
    once = minimum_bytes(m, n, k) if launch.waves.blocks else 0
    warm = 0 if once <= device.l2_bytes else once
    cold = memory_bytes(launch) if launch.waves.blocks else 0
    return Bound(
        "memory",
        warm / device.memory_bandwidth,
        cold / device.memory_bandwidth,
        f"{volume(warm)} to {volume(cold)} at {device.memory_bandwidth / 1e12:.3g} TB/s",
    )


def memory_bytes(launch: Launch) -> int:
    """Bytes of device memory with a cold L2: the rows of A and columns of B of a wave of blocks, once a wave.

    Blocks are taken row by row. Operands that L2 holds together are read once.
    """
    m, n, k, tile = launch.m, launch.n, launch.k, launch.tile
    least = minimum_bytes(m, n, k)
    if FLOAT_BYTES * k * (m + n) <= launch.device.l2_bytes:
        return least
    grid_n, grid_m = tile.grid(m, n)
    rows = min(grid_m, ceil_div(launch.waves.slots, grid_n))
    a_wave = FLOAT_BYTES * k * (rows * tile.bm + min(grid_n, launch.waves.slots) * tile.bn)
    reads = min(launch.rounds * a_wave, traffic.block_read_bytes(m, n, k, tile.bm, tile.bn))
    return max(least, reads + FLOAT_BYTES * m * n)


def _latency(launch: Launch) -> Bound:
    tile, clock = launch.tile, launch.device.clock_hz
    rounds = launch.rounds if launch.steps else 0
    waits = ceil_div(launch.steps, UNROLLED) if not launch.structure.shared else launch.steps
    if launch.structure.prefetch:
        waits = min(1, waits)
    barriers = launch.steps * counts.barriers(tile) if launch.structure.shared else 0
    cycles = waits * MEMORY_LATENCY + barriers * SHARED_LATENCY
    why = f"rounds of blocks: {rounds}; in each up to {waits} waits for memory"
    return Bound(
        "latency",
        rounds * MEMORY_LATENCY / clock,
        rounds * cycles / clock,
        why + (f" and {barriers} barriers" if barriers else ""),
    )


def volume(size: float) -> str:
    """Bytes with three digits in the unit that suits."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size:.3g} B"
