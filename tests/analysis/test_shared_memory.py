"""Shared memory, issue and the ring: the figures of §2.3 of the source documents, and their flags in §2.9."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numba_gemm import Tile
from numba_gemm.analysis.models import issue, ring, shared_memory, traffic
from numba_gemm.analysis.models.shared_memory import swizzled_word, vector_words, wavefronts
from numba_gemm.hardware.devices import A100, H100, RTX_5080

# Intensity and reuse ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("edge", "intensity"), [(1, 0.25), (4, 1), (8, 2)], ids=["v2", "4×4", "8×8"])
def test_shared_intensity(edge, intensity):
    """§2.3 and rows 5, 6: I_smem = TM·TN/(2(TM+TN))."""
    assert traffic.tile_intensity(edge, edge) == intensity


def test_reads_saved():
    """§2.3: 2TM·TN/(TM+TN) = 8; without the broadcast 4."""
    assert traffic.read_saving(8, 8) == 8
    assert traffic.reuse(8, 8) == 4


@pytest.mark.parametrize(
    ("lanes", "floats", "reuse"), [((4, 8), 96, 21.3), ((2, 16), 144, 14.2), ((1, 32), 264, 7.8)], ids=str
)
def test_fragments_of_a_warp(lanes, floats, reuse):
    """§2.3: floats for 2048 multiply-adds of a warp, by the layout of its lanes."""
    assert shared_memory.fragment_floats(*lanes, 8, 8) == floats
    assert round(2048 / floats, 1) == reuse
    assert traffic.reuse(lanes[0] * 8, lanes[1] * 8) == 2048 / floats


def test_reuse_of_a_block_and_a_register_tile():
    """§2.3: 16384/256 = 64, of 1 KB a k; flag 11: by the same measure a thread's 64/16 is 4, not 8."""
    assert traffic.reuse(128, 128) == 16384 / 256 == 64
    assert (128 + 128) * 4 == 1024
    assert round(traffic.reuse(32, 64)) == 21
    assert traffic.reuse(8, 8) == 64 / 16 == 4


# Wavefronts ------------------------------------------------------------------------------------------------


def test_a_multiprocessor_a_cycle():
    """§2.3: one wavefront of 128 B = 32 floats, 64 FMA = 2 FFMA of a warp."""
    assert shared_memory.BANKS * 4 == 128
    assert A100.warp_ffma_per_cycle == 2
    assert H100.warp_ffma_per_cycle == RTX_5080.warp_ffma_per_cycle == 4


def test_bound_of_v2():
    """§2.3: 2 wavefronts an FFMA, 4 wanted a cycle, 1 available: 25 %. Flag 1: with 128 lanes 12.5 %."""
    assert 2 * A100.warp_ffma_per_cycle == 4
    assert shared_memory.peak_fraction(2, A100) == 0.25
    assert shared_memory.peak_fraction(2, H100) == 0.125
    assert 2 * A100.fp32_lanes == 128  # FLOP a cycle; 25 % is 32 of these
    assert shared_memory.peak_fraction(2, A100) * 2 * A100.fp32_lanes == 32


def test_bound_of_v2_with_a_in_fours():
    """Flag 2: four k of A in one LDS.128 make 1.25 wavefronts an FFMA: 40 %."""
    assert shared_memory.peak_fraction(1 + 1 / 4, A100) == 0.4


def test_margin_of_8x8():
    """§2.3: 64 FFMA = 32 cycles against 6–10 wavefronts, at least 3×. Flag 6: by I_smem it is 2×."""
    assert 64 / A100.warp_ffma_per_cycle == 32
    assert (2 * 1 + 2 * 2, 2 * 1 + 2 * 4) == (6, 10)
    assert shared_memory.margin(8, 8, 10, A100) >= 3
    assert traffic.tile_intensity(8, 8) * 128 / (2 * A100.fp32_lanes) == 2


def test_wavefronts_of_v5():
    """Flag 5: 8×2 + 2×4 = 24 wavefronts a k of 32 cycles; on 128 lanes they exceed the 16 cycles."""
    a = wavefronts(m * 8 for m in (0, 8))  # one row of A of each of the two tm of a warp
    b = wavefronts(vector_words(tn * 8 for tn in range(16)))
    assert 8 * a + 2 * b == 24
    assert shared_memory.margin(8, 8, 24, A100) == 32 / 24
    assert shared_memory.margin(8, 8, 24, H100) == 16 / 24 < 1


# Banks -----------------------------------------------------------------------------------------------------


def test_b_by_eights():
    """§2.3: tn·8 starts at banks 0,8,16,24,0,…; 16 banks are used; 4 wavefronts."""
    starts = [tn * 8 for tn in range(16)]
    assert [start % 32 for start in starts[:8]] == [0, 8, 16, 24, 0, 8, 16, 24]
    assert len({start % 32 for start in starts}) == 4
    assert starts[0] % 32 == starts[4] % 32 == starts[8] % 32 == starts[12] % 32
    words = vector_words(starts)
    assert len({word % 32 for word in words}) == 16
    assert wavefronts(words) == 4


@pytest.mark.parametrize("half", [0, 64])
def test_b_by_fours(half):
    """§2.3 and row 17: tn·4 (+64) starts at 0,4,…,28; tn 8–15 repeat; 256 B of 128 B wavefronts: 2."""
    starts = [half + tn * 4 for tn in range(16)]
    assert [start % 32 for start in starts[:8]] == list(range(0, 32, 4))
    assert [start % 32 for start in starts[8:]] == [start % 32 for start in starts[:8]]
    assert wavefronts(vector_words(starts)) == 2


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (vector_words(tm * 8 for tm in (0, 1)), 1),
        ([m * 8 for m in (0, 8)], 2),
        ([m * 9 for m in (0, 8)], 1),
        ([c * 128 + r for c in (0, 4) for r in range(16)], 2),
        ([c * 132 + r for c in (0, 4) for r in range(16)], 1),
        ([7] * 32, 1),
    ],
    ids=["As[kk][tm·8]", "As[m][8]", "As[m][9]", "STS stride 128", "STS stride 132", "broadcast"],
)
def test_accesses(words, count):
    """§2.3, the table of accesses."""
    assert wavefronts(words) == count


def test_strides():
    """§2.3: As[m][8] with two tm 256 B apart; stride 132 puts the halves of a warp 16 banks apart; 528 B (row 16)."""
    assert 8 * 8 * 4 == 256
    assert 4 * 132 % 32 == 16
    assert 132 * 4 == 528 == 33 * 16


def test_swizzle():
    """Flag 12: on chunks of 16 bytes B takes 2 wavefronts; on floats the swizzle tears a chunk apart."""
    starts = [swizzled_word(tn * 8) for tn in range(16)]
    assert wavefronts(vector_words(starts)) == 2
    assert sorted(map(swizzled_word, range(1024))) == list(range(1024))
    assert all(swizzled_word(start) % 4 == 0 for start in range(0, 1024, 4))
    by_floats = [word ^ (word >> 3) for word in range(1024)]
    assert sorted(by_floats) == list(range(1024))
    assert by_floats[8:12] == [9, 8, 11, 10]


@pytest.mark.parametrize(("apart", "count"), [(1, 2), (8, 8)], ids=["adjacent columns", "a thread tile apart"])
def test_transposed_b(apart, count):
    """Flag 13: B[n][8] read along k by 8 lanes is 2-way for adjacent columns, 8-way for those 8 apart."""
    assert wavefronts(lane * apart * 8 for lane in range(8)) == count


@given(st.lists(st.integers(0, 5000), max_size=32))
def test_wavefronts_are_bounded(words):
    distinct = len(set(words))
    assert -(-distinct // 32) <= wavefronts(words) <= distinct


def test_negative_words():
    with pytest.raises(ValueError, match="word is -1"):
        wavefronts([0, -1])
    with pytest.raises(ValueError, match="word is -4"):
        swizzled_word(-4)


# Issue -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ffma", "loads", "others", "percent"),
    [(1, 2, 1, 25), (1, 2, 0, 33), (64, 4, 0, 94), (64, 8 + 2, 0, 86)],
    ids=["v1", "v2", "v3 and v4", "v5"],
)
def test_ffma_share(ffma, loads, others, percent):
    """§2.3: ¼, ⅓, 64/68 = 94 %, 64/74 = 86 %. Flag 3: two loads an FFMA in naive; 3:1 counts all that is not FFMA."""
    assert round(100 * issue.ffma_share(ffma, loads, others)) == percent


def test_share_as_a_bound():
    """Flag 4: with 64 lanes a share of ⅓ bounds at 67 % and ½ does not; with 128 lanes the share is the bound."""
    assert round(100 * issue.peak_fraction(1 / 3, A100)) == 67
    assert issue.peak_fraction(1 / 2, A100) == 1
    assert issue.peak_fraction(64 / 74, A100) == 1
    assert issue.peak_fraction(64 / 74, H100) == 64 / 74


def test_loads_of_shared_memory():
    """Flag 6: a thread's 8×8 takes 8× fewer scalars, but 32× fewer instructions an FFMA (LDS.128), 12.8× in v5."""
    assert 2 / (16 / 64) == 8
    assert 2 / (4 / 64) == 32
    assert 2 / ((8 + 2) / 64) == 12.8


def test_empty_loop():
    assert issue.ffma_share(0, 0) == 0
    with pytest.raises(ValueError, match="loads is -1"):
        issue.ffma_share(1, -1)


# Ring ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("stages", "bk", "kb"), [(3, 8, 24), (3, 16, 48), (3, 32, 96)])
def test_shared_bytes(stages, bk, kb):
    """§2.3 and row 24: S(BM+BN)BK·4 = 24, 48, 96 KB."""
    assert Tile(128, 128, bk, 8, 8, stages).shared_bytes == kb * 1024
    assert stages * 2 * ring.stage_bytes(128, bk) == kb * 1024


def test_offsets():
    """§2.3: a stage is 4096 B; a chunk is at (8r+c)·4."""
    assert ring.stage_bytes(128, 8) == 4096
    assert ring.chunk_offset(5, 4, 8) == (8 * 5 + 4) * 4
    with pytest.raises(ValueError, match="column is 2"):
        ring.chunk_offset(0, 2, 8)


@given(st.integers(0, 100), st.integers(2, 6))
def test_turns(t, stages):
    """§2.3: S−1+t groups committed, S−2 may be pending, so tile t has landed; the buffer of turn t−1 is refilled."""
    found = ring.turn(t, stages)
    assert found.committed == stages - 1 + t
    assert found.committed - found.pending >= t + 1
    assert found.refill_buffer == (t + stages - 1) % stages == (t - 1) % stages
    assert found.refill_buffer != found.compute_buffer
    assert found.refill_buffer == ring.turn(found.refill_tile, stages).compute_buffer


def test_wait_of_two_buffers():
    """Row 23: with S = 2 nothing may be pending; row 22: with S = 3 one group."""
    assert ring.turn(0, 2).pending == 0
    assert ring.turn(0, 3).pending == 1


def test_turn_errors():
    with pytest.raises(ValueError, match="t is -1"):
        ring.turn(-1, 3)
    with pytest.raises(ValueError, match="stages is 1; it must be at least 2"):
        ring.turn(0, 1)
    assert json.dumps(ring.turn(4, 3).to_dict())
