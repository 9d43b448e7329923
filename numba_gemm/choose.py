"""`version="auto"`: which version and tile to use for a product, on a device.

What was measured on such a device decides (`tuning.database`). For anything else a small model estimates how long each
candidate of `tuning.candidates` would take, and the least wins:

    time = START + max(arithmetic of the busiest multiprocessor, bytes / bandwidth)

A tile's arithmetic is its FFMAs over the share of issue slots that they get: the larger a thread's tile, the fewer
loads stand between them, and the more warps, the fewer slots are lost to waiting. Large tiles make good use of a
multiprocessor, small ones of all multiprocessors. The figures below were
fitted to times of all candidates over a suite of shapes on one H200.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache

from numba_gemm import runtime
from numba_gemm.analysis.device_at_hand import at_hand
from numba_gemm.analysis.hardware import PARTITIONS, Hardware, find
from numba_gemm.arrange import MOST_ROWS
from numba_gemm.device import SIMULATOR
from numba_gemm.ladder import RUNGS
from numba_gemm.tile import FLOAT_BYTES, WARP, Tile
from numba_gemm.tuning import database
from numba_gemm.tuning.candidates import candidates, why_not
from numba_gemm.tuning.entry import Choice, Key


def choose(device: int, key: Key, tile: Tile | None = None) -> Choice:
    """The version that should be fastest, and its tile; with a `tile`, the version that should be with that one.

    A device that can run no version that takes any product gets the last rung that it can run.

    Raises:
        RuntimeError: for a device that no version runs on.
    """
    if tile is None:
        known = database.lookup(device, key)
        if known is not None:
            return known
    return _by_model(device, runtime.compute_capability(device), key, tile)


@lru_cache(maxsize=4096)
def _by_model(device: int, capability: tuple[int, int], key: Key, tile: Tile | None) -> Choice:
    if not candidates(key, capability):
        return _last_runnable(capability, tile)
    return choose_by_model(hardware_of(device), key, tile)


def _last_runnable(capability: tuple[int, int], tile: Tile | None) -> Choice:
    runnable = [version for version in RUNGS if version.min_cc <= capability and not version.takes_variants]
    if not runnable:
        least, has = (".".join(map(str, cc)) for cc in (min(version.min_cc for version in RUNGS), capability))
        raise RuntimeError(f"every version needs compute capability {least} or above; the device has {has}")
    return Choice(runnable[-1], tile or runnable[-1].default_tile)


@cache
def hardware_of(device: int) -> Hardware:
    """The figures of a device. The simulator works like one multiprocessor of an H200."""
    if SIMULATOR:
        return find("H200")
    with runtime.on_device(device):
        found = at_hand()
    assert found is not None, "a current device is a device at hand"
    return found


def choose_by_model(hardware: Hardware, key: Key, tile: Tile | None = None) -> Choice:
    """What `choose` takes when nothing was measured, on a device that can run a version that takes any product."""
    found = candidates(key, hardware.compute_capability)
    if tile is not None:
        versions = dict.fromkeys(choice.version for choice in found)
        given = [Choice(version, tile) for version in versions]
        # If none can use it, the caller is told why.
        found = [choice for choice in given if why_not(choice, key, hardware.compute_capability) is None] or given
    # Of those that should take as long, the one with the smallest blocks.
    return min(found, key=lambda choice: (estimated_seconds(hardware, choice, key), choice.tile.bm * choice.tile.bn))


# The model -------------------------------------------------------------------------------------------

#: Seconds from a launch to the first instruction and from the last one to the end.
START = 5.5e-6
#: Cycles of a block besides its main loop: the first tiles on their way, and the outputs.
FIRST_AND_LAST = 2700
#: Cycles to hand partial sums to another block, and of those an output costs; for each part that a tile is in.
EXCHANGE, EXCHANGE_OUTPUT = 4000, 0.3
#: Issue slots lost to waiting, in warps a scheduler: w of them use w / (w + WAITING).
WAITING = 0.2
#: The same where fragments are not read ahead of their use.
WAITING_FOR_FRAGMENTS = 0.9
#: Bytes a cycle and multiprocessor that L2 delivers.
L2_BYTES_PER_CYCLE = 80
#: Share of the bandwidth that a kernel bound by it gets.
OF_BANDWIDTH = 0.8
#: How much of the shorter one of arithmetic and memory traffic the longer one does not hide.
NOT_HIDDEN = 0.5
#: FFMA among the instructions of a kernel for few rows.
FEW_ROWS_SHARE = 0.7
#: Registers of a thread besides accumulators and fragments.
OTHER_REGISTERS = 40


def estimated_seconds(hardware: Hardware, choice: Choice, key: Key) -> float:
    """How long a choice should take for a product, with a cold L2."""
    if min(key.m, key.n, key.batch) == 0:
        return 0.0
    cycles = _few_rows_cycles(hardware, key) if choice.version.few_rows else _tiled_cycles(hardware, choice, key)
    moved = FLOAT_BYTES * key.batch * (key.m * key.k + key.k * key.n + key.m * key.n)
    compute, memory = cycles / hardware.clock_hz, moved / (OF_BANDWIDTH * hardware.memory_bandwidth)
    return START + max(compute, memory) + NOT_HIDDEN * min(compute, memory)


def issue_share(tile: Tile, vector: bool) -> float:
    """FFMA among the instructions of a step of K of a thread: fragments by 16 bytes, and copies.

    Copies of one of two operands are by 16 bytes, of the other by 4; of both by 4 if they are not aligned.
    """
    outputs, fragments = tile.tm * tile.tn, (tile.tm + tile.tn) / 4
    copies = (tile.bm + tile.bn) / tile.threads * (0.625 if vector else 1)
    return outputs / (outputs + fragments + copies + 1)


def resident_blocks(hardware: Hardware, tile: Tile, shared_bytes: int) -> int:
    """Blocks that a multiprocessor holds at a time, with registers as the tile makes expect."""
    registers = min(255, tile.tm * tile.tn + 2 * (tile.tm + tile.tn) + OTHER_REGISTERS)
    fits = (
        hardware.registers // (registers * tile.threads),
        hardware.max_threads // tile.threads,
        hardware.shared_bytes // max(shared_bytes, 1),
        hardware.max_blocks,
    )
    return max(1, min(fits))


def _tiled_cycles(hardware: Hardware, choice: Choice, key: Key) -> float:
    version, tile, sms = choice.version, choice.tile, hardware.multiprocessors
    config = version.launch_config(tile, key.variant, key.m, key.n, key.k, key.batch, sms)
    blocks = math.prod(config.grid)
    grid_n, grid_m = tile.grid(key.m, key.n)
    tiles, steps = grid_n * grid_m * key.batch, -(-key.k // tile.bk)
    of_a_block = tiles * steps / blocks  # steps of BK
    resident = resident_blocks(hardware, tile, config.shared_bytes)
    waiting = WAITING if tile.wm else WAITING_FOR_FRAGMENTS  # warp tiles read fragments ahead
    share = issue_share(tile, key.vector)

    def round_of(together: int) -> float:
        """Cycles of so many blocks that run at a time."""
        if together == 0:
            return 0.0
        warps = together * tile.threads / WARP / PARTITIONS
        rate = hardware.fp32_lanes * share * warps / (warps + waiting)
        work = max(
            of_a_block * tile.bk * tile.bm * tile.bn / rate,
            of_a_block * tile.bk * (tile.bm + tile.bn) * FLOAT_BYTES / L2_BYTES_PER_CYCLE,
        )
        return together * work + FIRST_AND_LAST

    busiest = -(-blocks // sms)
    rounds, rest = divmod(busiest, resident)
    exchange = 0.0
    if version.has_parts and blocks > tiles:  # all parts of all tiles are added at once, by a second kernel
        exchange = EXCHANGE + 2 * FLOAT_BYTES * blocks * tile.bm * tile.bn / (sms * L2_BYTES_PER_CYCLE)
    elif version.has_workspace and tiles % blocks:  # a block waits for the one before it
        exchange = max(2, -(-blocks // tiles)) * (EXCHANGE + EXCHANGE_OUTPUT * tile.bm * tile.bn)
    return rounds * round_of(resident) + round_of(rest) + exchange


def _few_rows_cycles(hardware: Hardware, key: Key) -> float:
    rows, columns = sorted((key.m, key.n))
    passes, held = -(-rows // MOST_ROWS), min(MOST_ROWS, 1 << (rows - 1).bit_length())
    macs = passes * held * columns * key.k * key.batch
    weights = passes * columns * key.k * key.batch * FLOAT_BYTES
    return FIRST_AND_LAST + max(
        macs / (hardware.multiprocessors * hardware.fp32_lanes * FEW_ROWS_SHARE),
        weights / (hardware.multiprocessors * L2_BYTES_PER_CYCLE),
    )
