"""`version="auto"`: which version and tile to use for a product, on a device.

What was measured on such a device decides (`tuning.database`). For anything else a small model estimates how long each
candidate of `tuning.candidates` would take, and the least wins:

    time = START + max(arithmetic of the busiest multiprocessor, bytes / bandwidth) + a part of the other one

A tile's arithmetic is its FFMAs over the share of issue slots that they get: the larger a thread's tile, the fewer
loads and copies stand between them, and the more warps, the fewer slots are lost to waiting. Large tiles make good use
of a multiprocessor, small ones of all multiprocessors. The figures below were fitted to the times of all candidates for
some of the products of `benchmarks/candidates.py` on an H200, and tried on the others. `benchmarks/choices.py` says how
far from the fastest the choices are, and benchmarks/README.md shows it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache, lru_cache

from numba_gemm.auto import database
from numba_gemm.auto.candidates import candidates, variant_of, why_not
from numba_gemm.auto.entry import Choice
from numba_gemm.compiler.target import SIMULATOR
from numba_gemm.driver import cuda_api
from numba_gemm.hardware.at_hand import at_hand
from numba_gemm.hardware.devices import PARTITIONS, Hardware, find
from numba_gemm.kernels.skinny import rows_of
from numba_gemm.ladder import RUNGS
from numba_gemm.problem import Problem, rows_at_once
from numba_gemm.tile import FLOAT_BYTES, WARP, Tile


def choose(device: int, key: Problem, tile: Tile | None = None) -> Choice:
    """The version that should be fastest, and its tile; with a `tile`, the version that should be with that one.

    A device that can run no version that takes any product gets the last rung that it can run.

    Raises:
        RuntimeError: for a device that no version runs on.
    """
    if tile is None:
        known = database.lookup(device, key)
        if known is not None:
            return known
    return _by_model(device, cuda_api.compute_capability(device), key, tile)


@lru_cache(maxsize=4096)
def _by_model(device: int, capability: tuple[int, int], key: Problem, tile: Tile | None) -> Choice:
    if not candidates(key, capability):
        return _last_runnable(capability, tile)
    return choose_by_model(hardware_of(device), key, tile)


def _last_runnable(capability: tuple[int, int], tile: Tile | None) -> Choice:
    runnable = [version for version in RUNGS if version.min_cc <= capability and not version.traits.takes_variants]
    if not runnable:
        least, has = (".".join(map(str, cc)) for cc in (min(version.min_cc for version in RUNGS), capability))
        raise RuntimeError(f"every version needs compute capability {least} or above; the device has {has}")
    return Choice(runnable[-1], tile or runnable[-1].default_tile)


@cache
def hardware_of(device: int) -> Hardware:
    """The figures of a device. The simulator works like one multiprocessor of an H200."""
    if SIMULATOR:
        return find("H200")
    with cuda_api.on_device(device):
        found = at_hand()
    assert found is not None, "a current device is a device at hand"
    return found


def choose_by_model(hardware: Hardware, key: Problem, tile: Tile | None = None) -> Choice:
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

#: Seconds from a launch to the first FFMA and from the last one to the end.
START = 7.5e-6
#: Cycles an output that a block writes at its end, when it computes no longer.
OUTPUT = 0.16
#: Cycles to hand partial sums to another block, and of those an output costs; for each part that a tile is in.
EXCHANGE, EXCHANGE_OUTPUT = 3200, 0.2
#: Bytes a cycle and multiprocessor at which partial sums go through the L2.
EXCHANGE_BYTES_PER_CYCLE = 40
#: Issue slots lost to waiting, in warps a scheduler: w of them use w / (w + WAITING).
WAITING = 0.13
#: The same where fragments are not read ahead of their use.
WAITING_FOR_FRAGMENTS = 0.7
#: Issue slots that a copy costs, of 4 bytes as of 16. Its instruction is one of them; presumably the others pass while
#: the multiprocessor's one path to memory takes the copies of all its warps.
COPY = 16
#: FFMA among the issue slots of a kernel for few rows, and cycles that each of its blocks takes besides.
FEW_ROWS_SHARE, FEW_ROWS_BLOCK = 0.4, 2600
#: How much of the shorter one of arithmetic and memory traffic the longer one does not hide.
NOT_HIDDEN = 0.2
#: Registers of a thread besides accumulators and fragments.
OTHER_REGISTERS = 40


def estimated_seconds(hardware: Hardware, choice: Choice, key: Problem) -> float:
    """How long a choice should take for a product, with a cold L2."""
    if min(key.m, key.n, key.batch) == 0:
        return 0.0
    moved = FLOAT_BYTES * key.batch * (key.m * key.k + key.k * key.n + key.m * key.n)
    memory = moved / hardware.memory_bandwidth
    if choice.version.traits.few_rows:
        cycles, besides = _few_rows_cycles(hardware, choice, key)
    else:
        cycles, besides = _tiled_cycles(hardware, choice, key), 0.0
    compute = cycles / hardware.clock_hz
    return START + max(compute, memory) + NOT_HIDDEN * min(compute, memory) + besides / hardware.clock_hz


def issue_share(tile: Tile, key: Problem) -> float:
    """FFMA among the issue slots of a step of K of a thread: besides, fragments by 16 bytes, copies and the loop.

    A copy has 16 bytes, but 4 if they are not aligned, or if the operand is transposed on the way.
    """
    outputs, fragments = tile.tm * tile.tn, (tile.tm + tile.tn) / 4
    floats_a, floats_b = (1 if along_k or not key.vector else 4 for along_k in (key.a_along_k, key.b_along_k))
    copies = (tile.bm / floats_a + tile.bn / floats_b) / tile.threads
    return outputs / (outputs + fragments + COPY * copies + 1)


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


def _tiled_cycles(hardware: Hardware, choice: Choice, key: Problem) -> float:
    version, tile, sms = choice.version, choice.tile, hardware.multiprocessors
    launches = version.launches(tile, variant_of(key), key, sms)
    config = launches.main.config
    blocks = math.prod(config.grid)
    grid_n, grid_m = tile.grid(key.m, key.n)
    tiles, steps = grid_n * grid_m * key.batch, -(-key.k // tile.bk)
    outputs = tile.bm * tile.bn
    of_a_block = tiles * steps / blocks * tile.bk * outputs  # FFMAs
    resident = resident_blocks(hardware, tile, config.shared_bytes)
    waiting = WAITING if tile.wm else WAITING_FOR_FRAGMENTS  # warp tiles read fragments ahead
    share = issue_share(tile, key)

    def round_of(together: int) -> float:
        """Cycles of so many blocks that run at a time."""
        if together == 0:
            return 0.0
        warps = together * tile.threads / WARP / PARTITIONS
        return together * of_a_block / (hardware.fp32_lanes * share * warps / (warps + waiting)) + OUTPUT * outputs

    busiest = -(-blocks // sms)
    rounds, rest = divmod(busiest, resident)
    exchange = 0.0
    if len(launches.steps) > 1:  # all parts of all tiles are added at once, by a second kernel
        exchange = EXCHANGE + 2 * FLOAT_BYTES * blocks * outputs / (sms * EXCHANGE_BYTES_PER_CYCLE)
    elif tiles % blocks:  # a block waits for the one before it
        exchange = max(2, -(-blocks // tiles)) * (EXCHANGE + EXCHANGE_OUTPUT * outputs)
    return rounds * round_of(resident) + round_of(rest) + exchange


def _few_rows_cycles(hardware: Hardware, choice: Choice, key: Problem) -> tuple[float, float]:
    """Of the arithmetic, and what each multiprocessor's blocks take besides."""
    rows, columns = sorted((key.m, key.n))
    variant = replace(variant_of(key), rows=rows_at_once(rows))
    sms, tile = hardware.multiprocessors, choice.tile
    problem = key._replace(m=rows, n=columns)
    config = choice.version.launches(tile, variant, problem, sms).main.config
    groups, _, batch = config.grid
    ffmas = groups * batch * rows_of(tile, variant) * tile.bn * key.k
    per_block = FEW_ROWS_BLOCK * math.prod(config.grid) / sms
    return ffmas / (sms * hardware.fp32_lanes * FEW_ROWS_SHARE), per_block
