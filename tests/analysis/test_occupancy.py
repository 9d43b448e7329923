"""Occupancy and waves: the figures of §2.3–2.5 of the source documents, and their flags in §2.9."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import SEED_TILES, staged

from numba_gemm.analysis.models import traffic
from numba_gemm.analysis.models.occupancy import (
    filling_shared_bytes,
    floor_blocks,
    occupancy,
    register_cap,
    registers_by_fragments,
    registers_by_overhead,
)
from numba_gemm.analysis.models.waves import blocks_by_multiprocessor, busiest, idle_multiprocessors, waves
from numba_gemm.hardware.devices import A100, DEVICES, H100, RTX_4090, RTX_5080, RTX_A6000

# §2.3, registers -------------------------------------------------------------------------------------------


def test_register_models():
    """§2.3: TM·TN+TM+TN is 80 for 8×8, TM·TN+40 is 104. Flag 8: neither is the measured 114, nor 39 for one output."""
    assert registers_by_fragments(8, 8) == 80
    assert registers_by_overhead(8, 8) == 104
    assert registers_by_overhead(8, 8) != registers_by_fragments(8, 8)
    assert 114 not in (registers_by_overhead(8, 8), registers_by_fragments(8, 8))
    assert 39 not in (registers_by_overhead(4, 4), registers_by_fragments(4, 4))


def test_cap_of_two_blocks():
    """§2.3: 65536/(256·2) = 128; 2 blocks = 16 warps = 25 %."""
    assert register_cap(256, 2, A100) == 65536 // (256 * 2) == 128
    found = occupancy(256, 128, 24 * 1024, A100)
    assert (found.blocks_per_sm, found.warps_per_sm, found.occupancy) == (2, 16, 0.25)
    assert found.limiters == ("registers",)
    assert occupancy(256, 129, 24 * 1024, A100).blocks_per_sm == 1


def test_eighty_registers():
    """§2.3: 65536/(80·256) = 3.2 → 3 blocks = 37.5 %. Flag 9: of 1536 threads (sm_120) that is 50 %."""
    assert round(65536 / (80 * 256), 1) == 3.2
    assert floor_blocks(256, 80, 8 * 1024, A100) == 3
    assert occupancy(256, 80, 8 * 1024, A100).occupancy == 0.375
    on_5080 = occupancy(256, 80, 8 * 1024, RTX_5080)
    assert (on_5080.blocks_per_sm, on_5080.occupancy, on_5080.limiters) == (3, 0.5, ("registers",))


def test_halving_of_ex6():
    """Flag 9: blocks of 32 KB and the reserved KB: 3 in 100 KB, 50 %; with 8 KB occupancy is full."""
    found = occupancy(256, 40, 32 * 1024, RTX_5080)
    assert found.limits["shared"] == 100 // 33 == 3
    assert (found.occupancy, found.limiters) == (0.5, ("shared",))
    assert occupancy(256, 40, 8 * 1024, RTX_5080).occupancy == 1  # row 9


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.name)
@pytest.mark.parametrize("blocks", [1, 2, 3, 4, 6, 16])
def test_shared_memory_that_so_many_blocks_fill(blocks, device):
    """One block has all that a block may have; 128 bytes more and one block less would fit."""
    filling = filling_shared_bytes(blocks, device)
    assert occupancy(32, 32, filling, device).blocks_per_sm == blocks
    if blocks == 1:
        assert filling == device.shared_bytes_per_block
    else:
        assert occupancy(32, 32, filling + 128, device).blocks_per_sm == blocks - 1


# §2.4 ------------------------------------------------------------------------------------------------------

#: Accumulators, registers as tabled, by the formula, KB a stage, intensity, KB of three stages, blocks an SM.
TILE_TABLE = [
    (16, 64, 56, 4, 16, 12, 4),
    (32, 80, 72, 6, 21.3, 18, 3),
    (64, 128, 104, 8, 32, 24, 2),
    (64, 128, 104, 16, 32, 48, 2),
    (128, 200, 168, 12, 42.7, 36, 1),
    (128, 200, 168, 12, 42.7, 36, 1),
]


@pytest.mark.parametrize(("tile", "row"), list(zip(SEED_TILES, TILE_TABLE, strict=True)), ids=map(str, SEED_TILES))
def test_tile_table(tile, row):
    """§2.4, one row; flag 8: the tabled registers exceed the formula by 8–32, and the blocks are the same or more."""
    accumulators, registers, by_formula, stage_kb, intensity, ring_kb, blocks = row
    ringed = staged(tile, 3)
    assert tile.threads == 256
    assert tile.tm * tile.tn == accumulators
    assert registers_by_overhead(tile.tm, tile.tn) == by_formula
    assert 8 <= registers - by_formula <= 32
    assert tile.shared_bytes == stage_kb * 1024
    assert ringed.shared_bytes == ring_kb * 1024
    assert round(traffic.tile_intensity(tile.bm, tile.bn), 1) == intensity
    assert floor_blocks(tile.threads, registers, ringed.shared_bytes, A100) == blocks
    assert floor_blocks(tile.threads, by_formula, ringed.shared_bytes, A100) == blocks
    assert occupancy(tile.threads, registers, ringed.shared_bytes, A100).blocks_per_sm == blocks


def test_two_blocks_would_spill_the_wide_tiles():
    """Flag 8: two blocks leave 128 registers; 128 accumulators and their fragments take 152 at least."""
    assert register_cap(256, 2, A100) == 128 < registers_by_fragments(8, 16) == 152


# Granularity, limits, errors -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("device", "threads", "registers", "shared", "blocks", "limiters"),
    [
        (A100, 256, 32, 0, 8, ("registers", "warps")),
        (A100, 256, 33, 0, 6, ("registers",)),  # 33 registers take 40: 12 warps a partition
        (A100, 96, 72, 0, 9, ("registers",)),  # 7 warps a partition, 28 in 4: one fewer than 29 of 65536/2304
        (A100, 32, 16, 0, 32, ("blocks",)),
        (A100, 32, 16, 4 * 1024, 32, ("shared", "blocks")),
        (A100, 256, 32, 40 * 1024, 4, ("shared",)),
        (A100, 256, 32, 41 * 1024, 3, ("shared",)),  # 164 KB hold 4 × 41, but not with the reserved KB
        (A100, 1024, 64, 163 * 1024, 1, ("registers", "shared")),
        (H100, 256, 128, 113 * 1024, 2, ("registers", "shared")),
        (RTX_A6000, 32, 16, 0, 16, ("blocks",)),
        (RTX_4090, 32, 16, 0, 24, ("blocks",)),
        (RTX_4090, 1024, 32, 0, 1, ("warps",)),
    ],
)
def test_residency(device, threads, registers, shared, blocks, limiters):
    """As NVIDIA's occupancy calculator counts (cuda_occupancy.h of CUDA 13.0)."""
    found = occupancy(threads, registers, shared, device)
    assert found.blocks_per_sm == blocks
    assert found.limiters == limiters
    assert found.occupancy == found.warps_per_sm / device.max_warps


@given(
    st.sampled_from(DEVICES), st.integers(1, 1024), st.integers(1, 64), st.integers(0, 99 * 1024), st.integers(1, 64)
)
def test_residency_fits(device, threads, registers, shared, more):
    found = occupancy(threads, registers, shared, device)
    warps = found.warps_per_sm
    assert found.blocks_per_sm >= 1
    assert 0 < found.occupancy <= 1
    assert warps * 32 * registers <= device.registers
    assert found.blocks_per_sm * (shared + 1024) <= device.shared_bytes
    assert found.blocks_per_sm <= floor_blocks(threads, registers, shared, device) or threads % 32
    assert occupancy(threads, min(64, registers + more), shared, device).blocks_per_sm <= found.blocks_per_sm


@given(st.sampled_from(DEVICES), st.integers(1, 4), st.integers(1, 4))
def test_cap_is_the_most_that_fits(device, warps_a_partition, blocks):
    threads = 128 * warps_a_partition
    cap = register_cap(threads, blocks, device)
    assert occupancy(threads, cap, 0, device).limits["registers"] >= blocks
    if cap < 255 and blocks > 1:
        assert occupancy(threads, cap + 1, 0, device).limits["registers"] < blocks


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "fragments"),
    [
        (0, 32, 0, ["threads is 0", "at least 1"]),
        (-32, 32, 0, ["threads is -32"]),
        (1056, 32, 0, ["1056 threads", "1024"]),
        (256, 0, 0, ["registers is 0"]),
        (256, 256, 0, ["256 registers", "255"]),
        (256, 32, -1, ["shared_bytes is -1"]),
        (256, 32, 163 * 1024 + 1, ["166913 bytes", "A100", "166912"]),
        (1024, 65, 0, ["1024 threads of 65 registers", "73728", "65536"]),
    ],
)
def test_blocks_that_cannot_be_launched(threads, registers, shared, fragments):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 the fragments are the match
        occupancy(threads, registers, shared, A100)
    for fragment in fragments:
        assert fragment in str(caught.value)


def test_errors_of_the_estimates():
    with pytest.raises(ValueError, match="tm is 0"):
        registers_by_overhead(0, 8)
    with pytest.raises(ValueError, match="blocks is 0"):
        register_cap(256, 0, A100)
    with pytest.raises(ValueError, match="threads is -1"):
        floor_blocks(-1, 1, 1, A100)
    assert floor_blocks(256, 32, 0, A100) == 8


# §2.5 ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tile", "per_sm", "blocks", "slots", "count", "last", "percent"),
    [
        ((128, 128), 2, 1024, 216, 4.74, 160, 94.8),
        ((128, 256), 1, 512, 108, 4.74, 80, 94.8),
        ((256, 128), 1, 512, 108, 4.74, 80, 94.8),
        ((64, 128), 3, 2048, 324, 6.32, 104, 90.3),
    ],
    ids=str,
)
def test_wave_table(tile, per_sm, blocks, slots, count, last, percent):
    """§2.5, one row."""
    bm, bn = tile
    assert (4096 // bm) * (4096 // bn) == blocks
    found = waves(blocks, A100.multiprocessors, per_sm)
    assert found.slots == slots
    assert round(found.waves, 2) == count
    assert found.last_wave == last
    assert round(100 * found.wave_efficiency, 1) == percent


def test_idle_slots():
    """§2.5: 26 % of the slots, not of the SMs, idle in the last wave of 128×128; 104 are 32 % of 324."""
    assert round(100 * waves(1024, 108, 2).idle_slots) == 26
    # Dealt out in turn, the last 160 blocks leave no multiprocessor without one.
    assert idle_multiprocessors(160, 108) == 0
    assert round(100 * (1 - waves(2048, 108, 3).idle_slots)) == 32


@given(st.integers(1, 10_000), st.integers(1, 200), st.integers(1, 32))
def test_waves_add_up(blocks, multiprocessors, per_sm):
    found = waves(blocks, multiprocessors, per_sm)
    full = found.whole_waves * found.slots
    assert full <= blocks < full + found.slots
    assert 1 <= found.last_wave <= found.slots
    assert (blocks - found.last_wave) % found.slots == 0
    assert 0 < found.wave_efficiency <= 1
    assert 0 <= found.idle_slots < 1
    assert found.waves == pytest.approx(found.whole_waves + (blocks % found.slots) / found.slots)
    assert (found.wave_efficiency == 1) == (blocks % found.slots == 0)


@given(st.integers(0, 10_000), st.integers(1, 200))
def test_blocks_are_dealt_evenly(blocks, multiprocessors):
    dealt = blocks_by_multiprocessor(blocks, multiprocessors)
    assert sum(dealt) == blocks
    assert max(dealt) - min(dealt) <= 1
    assert 0 < busiest(blocks, multiprocessors) <= 1


def test_an_empty_grid():
    found = waves(0, 108, 2)
    assert (found.waves, found.last_wave, found.idle_slots, found.wave_efficiency) == (0, 0, 0, 1)


@pytest.mark.parametrize("sizes", [(-1, 108, 2), (1, 0, 2), (1, 108, 0), (1, -108, 2)])
def test_wave_errors(sizes):
    with pytest.raises(ValueError, match="it must be at least"):
        waves(*sizes)


def test_as_plain_numbers():
    plain = json.loads(json.dumps(occupancy(256, 128, 24576, A100).to_dict()))
    assert plain["blocks_per_sm"] == 2
    assert plain["limits"]["registers"] == 2
    assert waves(1024, 108, 2).to_dict()["wave_efficiency"] == pytest.approx(0.948, abs=5e-4)
