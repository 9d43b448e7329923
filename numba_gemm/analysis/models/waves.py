"""Waves: a grid runs in rounds of as many blocks as the device holds, and the last round may be nearly empty.

    slots      = multiprocessors · blocks per multiprocessor
    waves      = blocks / slots
    efficiency = waves / ⌈waves⌉

The model takes all blocks to last equally long, and every slot of a multiprocessor to run at the same speed however
many are taken. The second is too strict: blocks that share a multiprocessor with fewer others run faster. So this is
a lower bound, and `busiest` says the other extreme, for blocks that fill a multiprocessor each.
"""

from __future__ import annotations

from dataclasses import dataclass

from numba_gemm.hardware.quantity import Result, ceil_div, require


@dataclass(frozen=True)
class Waves(Result):
    """The rounds of a grid: counts of blocks, and fractions 0 … 1."""

    blocks: int
    slots: int
    waves: float
    whole_waves: int
    #: Blocks in the last wave, 1 … slots (0 for an empty grid).
    last_wave: int
    #: Slots that have no block in the last wave, as a fraction of all slots.
    idle_slots: float
    wave_efficiency: float


def waves(blocks: int, multiprocessors: int, blocks_per_sm: int) -> Waves:
    """The waves of a grid of `blocks`. An empty grid has none, and wastes nothing."""
    require(0, blocks=blocks)
    require(1, multiprocessors=multiprocessors, blocks_per_sm=blocks_per_sm)
    slots = multiprocessors * blocks_per_sm
    rounds = ceil_div(blocks, slots)
    last_wave = blocks - (rounds - 1) * slots if rounds else 0
    return Waves(
        blocks=blocks,
        slots=slots,
        waves=blocks / slots,
        whole_waves=blocks // slots,
        last_wave=last_wave,
        idle_slots=1 - last_wave / slots if rounds else 0.0,
        wave_efficiency=blocks / (rounds * slots) if rounds else 1.0,
    )


def blocks_by_multiprocessor(blocks: int, multiprocessors: int) -> list[int]:
    """Blocks that each multiprocessor gets when they are dealt out in turn, the first ones one more."""
    require(0, blocks=blocks)
    require(1, multiprocessors=multiprocessors)
    each, more = divmod(blocks, multiprocessors)
    return [each + (index < more) for index in range(multiprocessors)]


def idle_multiprocessors(blocks: int, multiprocessors: int) -> int:
    """Multiprocessors without a block."""
    return blocks_by_multiprocessor(blocks, multiprocessors).count(0)


def busiest(blocks: int, multiprocessors: int) -> float:
    """Mean over largest number of blocks per multiprocessor: bounds efficiency where their total is what counts."""
    dealt = blocks_by_multiprocessor(blocks, multiprocessors)
    return blocks / multiprocessors / max(dealt) if blocks else 1.0
