"""Roofline and logical traffic: the figures of §2.1 and §2.2 of the source documents, and their flags in §2.9."""

import json
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numba_gemm import Tile
from numba_gemm.analysis.models import roofline as model
from numba_gemm.analysis.models import traffic
from numba_gemm.hardware.devices import A100, H100, RTX_5080

CUBE = (4096, 4096, 4096)
GIB = 2**30
SIZES = st.integers(1, 300)


# §2.1 ------------------------------------------------------------------------------------------------------


def test_flops():
    """§2.1: 137.44 G."""
    assert model.flops(*CUBE) == 2 * 4096**3
    assert round(model.flops(*CUBE) / 1e9, 2) == 137.44


def test_minimum_bytes():
    """§2.1: 3×64 = 192 MiB = 201 MB."""
    assert model.minimum_bytes(*CUBE) == 3 * 64 * 2**20
    assert round(model.minimum_bytes(*CUBE) / 1e6) == 201


def test_intensity_of_a_cube():
    """§2.1: K/6 for a cube, 683 FLOP/B."""
    found = model.intensity(model.flops(*CUBE), model.minimum_bytes(*CUBE))
    assert found == pytest.approx(4096 / 6)
    assert round(found) == 683


def test_bounds():
    """§2.1: 7.05 ms against 0.10 ms, 70×; BF16 0.44 ms."""
    found = model.roofline(*CUBE, A100)
    assert found.compute_bound_s * 1e3 == pytest.approx(7.05, abs=0.005)
    assert found.memory_bound_s * 1e3 == pytest.approx(0.10, abs=0.005)
    assert round(found.compute_bound_s / found.memory_bound_s) == 70
    assert found.bound == "compute"
    assert found.bound_s == found.compute_bound_s
    assert model.flops(*CUBE) / A100.bf16_peak * 1e3 == pytest.approx(0.44, abs=0.005)


def test_naive_bytes():
    """§2.1: 512 GiB = 550 GB, 2731× the minimum, 275 ms at HBM, 39×."""
    naive = traffic.naive_read_bytes(*CUBE)
    assert naive == 512 * GIB == 8 * 4096**3
    assert round(naive / 1e9) == 550
    assert round(naive / model.minimum_bytes(*CUBE)) == 2731
    seconds = traffic.read_seconds(naive, A100)
    assert round(seconds * 1e3) == 275
    assert round(seconds / model.roofline(*CUBE, A100).compute_bound_s) == 39


def test_naive_intensity():
    """§2.1: 2K/(8K+4) = 0.25."""
    assert traffic.naive_intensity(4096) == 2 * 4096 / (8 * 4096 + 4)
    assert round(traffic.naive_intensity(4096), 2) == 0.25
    assert traffic.tile_intensity(1, 1) == 0.25


def test_naive_sectors():
    """§2.1 and flag 3: 343.6 GB = 320 GiB; at 4–6 TB/s 57–86 ms, 8–12× the bound."""
    requested = traffic.naive_sector_bytes(*CUBE)
    assert requested == 320 * GIB == 4096**3 // 32 * 160
    assert round(requested / 1e9, 1) == 343.6
    assert round(requested / 1e9) == 344
    assert (4e12 / A100.memory_bandwidth, 6e12 / A100.memory_bandwidth) == (2, 3)  # §2.8: L2 has 2–3× HBM
    slow, fast = requested / 4e12, requested / 6e12
    assert (round(fast * 1e3), round(slow * 1e3)) == (57, 86)
    least = model.roofline(*CUBE, A100).bound_s
    assert (round(fast / least), round(slow / least)) == (8, 12)


#: Row stride of the operands, and the rows and columns of C that the lanes of a warp have, by block and mapping.
LD = 4096
MAPPINGS = {
    "32×8": ([0] * 32, list(range(32)), 1, 4),
    "16×16": ([lane // 16 for lane in range(32)], [lane % 16 for lane in range(32)], 2, 2),
    "row-mapped": (list(range(32)), [0] * 32, 32, 1),
    "4×4 a thread": ([4 * (lane // 16) for lane in range(32)], [4 * (lane % 16) for lane in range(32)], 2, 8),
}


@pytest.mark.parametrize(("rows", "columns", "a", "b"), MAPPINGS.values(), ids=MAPPINGS.keys())
def test_sectors_by_mapping(rows, columns, a, b):
    """§5 and rows 1–3, 5: sectors of a warp's loads of A and B."""
    assert traffic.sectors(row * LD for row in rows) == a
    assert traffic.sectors(columns) == b


def test_naive_sectors_by_mapping():
    """Row 2: rows along the warp make 32 + 1 sectors of 1 + 4."""
    rows = traffic.naive_sector_bytes(32, 32, 1, a_sectors=32, b_sectors=1)
    assert rows / traffic.naive_sector_bytes(32, 32, 1) == pytest.approx(33 / 5)


# §2.2 ------------------------------------------------------------------------------------------------------

#: Tile, reads in GiB, saving, intensity, milliseconds at the A100's bandwidth.
TILES = [
    (1, 512, 1, 0.25, 275),
    (16, 32, 16, 4, 17.2),
    (32, 16, 32, 8, 8.6),
    (64, 8, 64, 16, 4.3),
    (128, 4, 128, 32, 2.1),
]


@pytest.mark.parametrize(("edge", "gib", "saving", "intensity", "milliseconds"), TILES)
def test_table_of_tiles(edge, gib, saving, intensity, milliseconds):
    """§2.2, one row of the table."""
    reads = traffic.block_read_bytes(*CUBE, edge, edge)
    assert reads == gib * GIB
    assert traffic.read_saving(edge, edge) == saving
    assert traffic.tile_intensity(edge, edge) == intensity
    digits = 0 if milliseconds == 275 else 1
    assert round(traffic.read_seconds(reads, A100) * 1e3, digits) == milliseconds


@pytest.mark.parametrize(
    ("edge", "ratio"), [(1, 1 / 40), (16, 0.4), (32, 0.8), (64, 1.6), (128, 3)], ids=["1", "16", "32", "64", "128"]
)
def test_tiles_against_the_ridge(edge, ratio):
    """§2.2, column "vs ridge" (A100): 40× below, below, just below, 1.6×, 3×; it takes the ridge for 10."""
    assert traffic.tile_intensity(edge, edge) / A100.ridge == pytest.approx(ratio, rel=0.1)


def test_tile_of_32_caps_by_memory():
    """§2.2: 8/9.75 = 82 % by HBM alone."""
    assert round(100 * model.peak_fraction(A100, traffic.tile_intensity(32, 32))) == 82
    assert model.peak_fraction(A100, traffic.tile_intensity(64, 64)) == 1


@pytest.mark.parametrize(
    ("rung", "edge", "intensity"),
    [("ex4, BK 16", 16, 4), ("ex4, BK 32", 32, 8), ("ex5", 32, 8), ("ex6–7", 64, 16), ("ex8–9", 128, 32)],
)
def test_rungs_of_the_second_ladder(rung, edge, intensity):
    """§2.2: intensities of ex4 … ex9."""
    assert traffic.tile_intensity(edge, edge) == intensity, rung


@pytest.mark.parametrize(
    ("rung", "bk", "per_step", "count"),
    [
        ("v2", 32, 2, 256),
        ("v3", 8, 2, 1024),
        ("v5", 8, 1, 512),
        ("ex4, BK 16", 16, 2, 512),
        ("ex4, BK 32", 32, 2, 256),
        ("ex8", 8, 2, 1024),
        ("ex9", 8, 1, 512),
    ],
)
def test_barriers(rung, bk, per_step, count):
    """§2.2: barriers a block."""
    assert traffic.barriers(4096, bk, per_step) == count, rung


def test_reads_of_an_element():
    """§2.2: A is read N times (B: M) in naive, N/BN (M/BM) times once a block shares it."""
    m, n, k = 512, 1024, 64
    a, b = 4 * m * k, 4 * k * n
    assert traffic.block_read_bytes(m, n, k, 1, 1) == a * n + b * m
    assert traffic.block_read_bytes(m, n, k, 128, 256) == a * (n // 256) + b * (m // 128)


def test_tensor_tile_is_below_the_ridge():
    """§2.8: a 128² tile of BF16 has 64 FLOP/B, below 156."""
    assert traffic.tile_intensity(128, 128, element_bytes=2) == 64 < A100.bf16_ridge


# §2.9 ------------------------------------------------------------------------------------------------------


def test_division_by_the_thread_tile():
    """Flag 10: what divides the shared reads of ex7 is the 4×4 outputs of a thread; RK only has the same value."""
    tile = Tile(64, 64, 64, 4, 4)
    _, shared = traffic.levels(*CUBE, tile)
    assert traffic.naive_read_bytes(*CUBE) / shared.read_bytes == 4


def test_times_of_the_second_ladder():
    """Flag 14: 10.6× of 5.2 ms, and 47.6 ms, imply 26–48 ms and 5–9 % of ~56 TFLOPS."""
    assert round(RTX_5080.fp32_peak / 1e12) == 56
    fractions = [model.flops(*CUBE) / seconds / RTX_5080.fp32_peak for seconds in (26e-3, 48e-3)]
    assert [round(100 * fraction) for fraction in fractions] == [9, 5]


def test_85_percent_of_peak():
    """Flag 16: 85 % of peak is 8.29 ms, not 8.2; a block of v3 has 32 FLOP/B; v5 has 74–94 % of cuBLAS."""
    assert round(model.flops(*CUBE) / (0.85 * 19.5e12) * 1e3, 2) == 8.29  # with the peak as rounded there
    assert model.roofline(*CUBE, A100).bound_s / 0.85 * 1e3 > 8.2 + 0.05
    assert traffic.tile_intensity(128, 128) == 32 > 21
    assert (round(100 * 0.70 / 0.95), round(100 * 0.80 / 0.85)) == (74, 94)


def test_stores_of_v5():
    """Flag 17: a lane's store of 16 B covers half of a sector, so half of the bytes of sectors are stored."""
    words = [(lane // 16) * 8 * LD + (lane % 16) * 8 + word for lane in range(32) for word in range(4)]
    assert len(words) * 4 / (traffic.sectors(words) * traffic.SECTOR_BYTES) == 0.5


def test_sectors_of_4x4():
    """Flag 18: per 512 multiply-adds, instructions fall by 75 %, but sectors only by 37.5 %, from 64 to 40."""
    naive, tiled = (sum(MAPPINGS[name][2:]) for name in ("16×16", "4×4 a thread"))
    assert (16 * naive, 4 * tiled) == (64, 40)
    assert 1 - 40 / 64 == 0.375
    assert 1 - (4 + 4) / (16 * 2) == 0.75


# Properties and errors -------------------------------------------------------------------------------------


@given(SIZES, SIZES, SIZES)
def test_bound_is_the_larger(m, n, k):
    found = model.roofline(m, n, k, H100)
    assert found.bound_s == max(found.compute_bound_s, found.memory_bound_s)
    assert (found.bound == "compute") == (found.minimum_intensity >= found.ridge)
    assert found.bound_s * model.attainable(H100, found.minimum_intensity) == pytest.approx(found.flops)


@given(SIZES, SIZES, SIZES, SIZES, SIZES)
def test_reads_are_between_minimum_and_naive(m, n, k, bm, bn):
    reads = traffic.block_read_bytes(m, n, k, bm, bn)
    assert 4 * k * (m + n) <= reads <= traffic.naive_read_bytes(m, n, k)


@given(SIZES, SIZES, st.integers(1, 9), st.integers(1, 9))
def test_intensity_is_flops_over_reads(bm, bn, rows, columns):
    m, n, k = rows * bm, columns * bn, 64
    reads = traffic.block_read_bytes(m, n, k, bm, bn)
    assert model.intensity(model.flops(m, n, k), reads) == pytest.approx(traffic.tile_intensity(bm, bn))
    assert traffic.tile_intensity(bm, bn) == pytest.approx(traffic.read_saving(bm, bn) / 4)


def test_levels():
    at_global, at_shared = traffic.levels(*CUBE, Tile(128, 128, 8, 8, 8))
    assert (at_global.name, at_global.read_bytes, at_global.intensity) == ("global", 4 * GIB, 32)
    assert (at_shared.name, at_shared.read_bytes, at_shared.intensity) == ("shared", 64 * GIB, 2)


@pytest.mark.parametrize("shape", [(0, 5, 5), (5, 0, 5), (5, 5, 0), (0, 0, 0)])
def test_nothing_to_do(shape):
    found = model.roofline(*shape, A100)
    assert found.flops == found.compute_bound_s == found.minimum_intensity == 0
    assert found.bound_s == found.minimum_bytes / A100.memory_bandwidth
    assert traffic.naive_read_bytes(*shape) == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: model.flops(-1, 1, 1),
        lambda: model.minimum_bytes(1, -1, 1),
        lambda: model.roofline(1, 1, -1, A100),
        lambda: model.intensity(1, -1),
        lambda: model.attainable(A100, float("nan")),
        lambda: traffic.block_read_bytes(1, 1, -1, 1, 1),
        lambda: traffic.tile_intensity(-1, 1),
        lambda: traffic.barriers(-1, 8, 1),
        lambda: traffic.naive_sector_bytes(1, 1, 1, a_sectors=-1),
    ],
)
def test_negative_sizes(call):
    with pytest.raises(ValueError, match=r"is (-1|nan); it must be at least"):
        call()


def test_empty_tiles():
    with pytest.raises(ValueError, match="rows is 0; it must be at least 1"):
        traffic.tile_intensity(0, 8)
    with pytest.raises(ValueError, match="bk is 0"):
        traffic.barriers(8, 0, 1)


def test_as_plain_numbers():
    plain = model.roofline(*CUBE, A100).to_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["flops"] == 2 * 4096**3
    assert plain["ridge"] == A100.ridge
    assert model.attainable(A100, inf) == A100.fp32_peak
