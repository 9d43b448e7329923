"""Split-K, stream-K, few rows and padding: the figures of §2.6 and §2.7 of the source documents, and their flags."""

import json
from collections import Counter
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numba_gemm import Tile
from numba_gemm.analysis.models import gemv, segments
from numba_gemm.analysis.models.padding import epilogue_seconds, padding
from numba_gemm.analysis.models.roofline import flops, roofline
from numba_gemm.analysis.models.segments import Share, split_k, stream_k
from numba_gemm.analysis.models.waves import blocks_by_multiprocessor, busiest, idle_multiprocessors
from numba_gemm.hardware.devices import A100

TILE = Tile(128, 128, 8, 8, 8)
MIB = 2**20

#: M = 8, N = K = 4096: tiles of C, and segments of each.
TILES, SEGMENTS = 32, 512


def covered_once(shares, tiles, per_tile):
    counts = Counter((share.tile, step) for share in shares for step in range(share.first, share.stop))
    assert counts == Counter((tile, step) for tile in range(tiles) for step in range(per_tile))


# §2.6 ------------------------------------------------------------------------------------------------------


def test_plain():
    """§2.6: 32 blocks × 512 segments; 76 SMs idle; bound 32/108 = 30 %."""
    found = padding(8, 4096, 4096, TILE)
    assert found.grid_m * found.grid_n == TILES
    assert found.segments == segments.segments_of(4096, 8) == SEGMENTS
    shares = split_k(TILES, SEGMENTS, 1)
    assert segments.segments_by_block(shares) == dict.fromkeys(range(32), 512)
    assert all(share.whole(SEGMENTS) for share in shares)
    assert segments.partial_tiles(shares) == 0
    assert idle_multiprocessors(TILES, A100.multiprocessors) == 76
    assert round(100 * busiest(TILES, A100.multiprocessors)) == 30


def test_split_k():
    """§2.6 and rows 36, 37: S = 4 makes 128 blocks × 128. Flag 20: 20 of the 108 SMs get two."""
    shares = split_k(TILES, SEGMENTS, 4)
    assert segments.segments_by_block(shares) == dict.fromkeys(range(128), 128)
    covered_once(shares, TILES, SEGMENTS)
    assert segments.partial_tiles(shares) == TILES
    assert blocks_by_multiprocessor(128, A100.multiprocessors).count(2) == 20


def test_stream_k():
    """§2.6 and row 38: 16384 segments on 108 blocks, 151.7 each: 76 blocks × 152 + 32 × 151."""
    assert TILES * SEGMENTS == 16384
    assert round(16384 / 108, 1) == 151.7
    shares = stream_k(TILES, SEGMENTS, 108)
    assert Counter(segments.segments_by_block(shares).values()) == {152: 76, 151: 32}
    covered_once(shares, TILES, SEGMENTS)


def test_boundaries():
    """§2.6: b0 0–151, b1 152–303, b2 304–455, b3 tile 0 456–511 + tile 1 0–95."""
    assert stream_k(TILES, SEGMENTS, 108)[:5] == (
        Share(0, 0, 0, 152),
        Share(1, 0, 152, 304),
        Share(2, 0, 304, 456),
        Share(3, 0, 456, 512),
        Share(3, 1, 0, 96),
    )


def test_few_useful_rows():
    """Flag 20: only 8 of a tile's 128 rows are useful."""
    assert padding(8, 4096, 4096, TILE).useful_rows == 8 / 128


@given(st.integers(0, 20), st.integers(0, 40), st.integers(1, 60))
def test_split_k_covers_once(tiles, per_tile, splits):
    shares = split_k(tiles, per_tile, splits)
    covered_once(shares, tiles, per_tile)
    assert all(share.count > 0 and share.block // splits == share.tile for share in shares)
    assert len({share.block for share in shares}) == len(shares)


@given(st.integers(0, 20), st.integers(0, 40), st.integers(1, 60))
def test_stream_k_covers_once(tiles, per_tile, blocks):
    shares = stream_k(tiles, per_tile, blocks)
    covered_once(shares, tiles, per_tile)
    by_block = segments.segments_by_block(shares)
    counts = [by_block.get(block, 0) for block in range(blocks)]
    assert max(counts) - min(counts) <= 1
    # Blocks take tiles in order, and a block's runs are adjacent.
    assert sorted(shares, key=lambda share: (share.tile, share.first)) == list(shares)


@pytest.mark.parametrize("table", [split_k, stream_k])
@pytest.mark.parametrize("sizes", [(-1, 1, 1), (1, -1, 1), (1, 1, 0), (1, 1, -4)])
def test_segment_errors(table, sizes):
    with pytest.raises(ValueError, match="it must be at least"):
        table(*sizes)


def test_segments_of_a_ragged_k():
    assert segments.segments_of(20, 8) == 3
    assert segments.segments_of(0, 8) == 0
    with pytest.raises(ValueError, match="bk is 0"):
        segments.segments_of(8, 0)


# §2.6, M = 1 and batches -----------------------------------------------------------------------------------


def test_gemv():
    """§2.6: 2NK FLOPs; .5 FLOP/B in FP32, 1 in BF16, 20× and 150× below the ridge."""
    assert flops(1, 4096, 4096) == 2 * 4096 * 4096
    assert gemv.weight_intensity(1) == 0.5
    assert gemv.weight_intensity(1, weight_bytes=2) == 1
    assert A100.ridge / 0.5 == pytest.approx(20, rel=0.05)
    assert A100.bf16_ridge / 1 == pytest.approx(150, rel=0.05)
    assert gemv.intensity(1, 4096, 4096) == pytest.approx(0.5, rel=1e-3)


def test_gemv_time():
    """§2.6 and row 39: 32 MiB of BF16 in 17 µs; FP32 33.6."""
    assert 32 * MIB == 4096 * 4096 * 2
    assert round(gemv.weight_seconds(4096, 4096, A100.memory_bandwidth, 2) * 1e6) == 17
    assert round(gemv.weight_seconds(4096, 4096, A100.memory_bandwidth) * 1e6, 1) == 33.6


def test_batch_at_the_ridge():
    """§2.6 and row 40: I ≈ b in BF16, so b ≈ 156. Flag 7: with A and C it is 169; FP32 20."""
    assert [gemv.weight_intensity(batch, 2) for batch in (1, 8, 64)] == [1, 8, 64]
    assert gemv.ridge_batch_of_weights(156, 2) == 156
    assert round(gemv.ridge_batch(156, 4096, 4096, 2, 2)) == 169
    assert round(gemv.ridge_batch(9.75, 4096, 4096)) == 20
    assert gemv.intensity(169, 4096, 4096, 2, 2) == pytest.approx(156, rel=1e-3)


def test_four_bit_weights():
    """Row 40: INT4 has a quarter of BF16's bytes; the time at the memory bound, and the batch at the ridge, ÷4."""
    bf16, int4 = (gemv.weight_seconds(4096, 4096, A100.memory_bandwidth, size) for size in (2, 0.5))
    assert bf16 / int4 == 4
    assert gemv.ridge_batch_of_weights(156, 2) / gemv.ridge_batch_of_weights(156, 0.5) == 4


def test_batch_that_never_reaches_the_ridge():
    assert gemv.ridge_batch(156, 64, 64, 2, 2) == inf
    with pytest.raises(ValueError, match="n is 0"):
        gemv.ridge_batch(10, 0, 64)
    with pytest.raises(ValueError, match="batch is -1"):
        gemv.weight_intensity(-1)


# §2.7 ------------------------------------------------------------------------------------------------------


def test_padding_example():
    """§2.7: 300, 200, 20 → grid 3×2, 3 K segments, padded 384×256×24, 1.97× the work."""
    found = padding(300, 200, 20, TILE)
    assert (found.grid_m, found.grid_n, found.segments) == (3, 2, 3)
    assert (found.m, found.n, found.k) == (384, 256, 24)
    assert round(found.work, 2) == 1.97


def test_epilogue():
    """§2.7: 64 MiB = 33 µs (33.6 at 2.0 TB/s, cut) = .5 % of the bound."""
    seconds = epilogue_seconds(4096, 4096, A100)
    assert seconds * A100.memory_bandwidth == pytest.approx(64 * MIB)
    assert int(seconds * 1e6) == 33
    assert round(100 * seconds / roofline(4096, 4096, 4096, A100).bound_s, 1) == 0.5


def test_whole_tiles_of_a_decoder():
    """§2.7: 14336 = 112×128."""
    found = padding(128, 14336, 4096, TILE)
    assert (found.grid_n, found.work, found.useful_rows) == (112, 1, 1)


@given(st.integers(1, 1000), st.integers(1, 1000), st.integers(1, 100))
def test_padding_is_the_least(m, n, k):
    found = padding(m, n, k, TILE)
    assert m <= found.m < m + 128
    assert n <= found.n < n + 128
    assert k <= found.k < k + 8
    assert (found.grid_m * 128, found.grid_n * 128, found.segments * 8) == (found.m, found.n, found.k)
    assert found.work >= 1


def test_padding_of_nothing():
    found = padding(0, 5, 0, TILE)
    assert (found.m, found.n, found.k, found.grid_m, found.work) == (0, 128, 0, 0, 1)
    with pytest.raises(ValueError, match="m is -1"):
        padding(-1, 5, 5, TILE)
    with pytest.raises(ValueError, match="n is -1"):
        epilogue_seconds(1, -1, A100)
    assert json.dumps(found.to_dict())
    assert Share(0, 1, 2, 3).to_dict() == {"block": 0, "tile": 1, "first": 2, "stop": 3}
