"""Sectors of global memory: the figures of the source documents on the real kernels. § and flags are theirs."""

import json

import pytest

from numba_gemm import Tile
from numba_gemm.analysis.code.sectors import SECTOR_BYTES, request_sectors, sectors


def per_request(name, kind="read", tile=None):
    """Sectors of one request, by array."""
    found = sectors(name, tile=tile, arch=None)
    return {access.array: access.sectors_per_request for access in found.accesses if access.kind == kind}


@pytest.mark.parametrize(
    ("starts", "width", "count"),
    [
        (range(32), 1, 4),
        ([5] * 32, 1, 1),
        (range(0, 32 * 4096, 4096), 1, 32),
        (range(0, 128, 4), 4, 16),
        (range(4, 36), 1, 5),
        ([], 1, 0),
    ],
    ids=["neighbours", "one float", "a column", "16 bytes each", "not aligned", "nobody"],
)
def test_requests(starts, width, count):
    assert request_sectors(list(starts), width) == count


@pytest.mark.parametrize(
    ("name", "tile", "a", "b"),
    [
        ("naive", None, 1, 4),
        ("naive", Tile(16, 16, 1), 2, 2),
        ("naive_rows", None, 32, 1),
        ("thread_tile_4", None, 2, 8),
    ],
    ids=["32×8", "16×16", "row-mapped", "4×4"],
)
def test_sectors_of_a_load(name, tile, a, b):
    """§5: sectors per LDG, A + B: 32×8 1+4; 16×16 2+2; row-mapped 32+1; 4×4 2+8."""
    assert per_request(name, tile=tile) == {"A": a, "B": b}


def test_bytes_of_the_naive_kernel():
    """§2.1 and flag 3: MNK/32 steps of a warp × 160 B = 343.6 GB."""
    found = sectors(1, arch=None)
    assert found.sectors("read", 4096, 4096, 4096) * SECTOR_BYTES == 4096**3 // 32 * 160
    assert round(found.sectors("read", 4096, 4096, 4096) * SECTOR_BYTES / 1e9, 1) == 343.6
    assert found.requests("read", 4096, 4096, 4096) == 2 * 4096**3 // 32


def test_a_thread_tile_saves_instructions_and_fewer_sectors():
    """Flag 18: 4×4 per thread cut load instructions by 75 %, sectors by 37.5 %: 64 → 40 for 512 multiply-adds."""
    single, tiled = sectors("naive", tile=Tile(16, 16, 1), arch=None), sectors("thread_tile_4", arch=None)
    shape = (1024, 1024, 1024)
    assert tiled.requests("read", *shape) / single.requests("read", *shape) == 0.25
    assert tiled.sectors("read", *shape) / single.sectors("read", *shape) == 0.625
    of_512 = 1024**3 // 512
    assert single.sectors("read", *shape) // of_512 == 64
    assert tiled.sectors("read", *shape) // of_512 == 40


@pytest.mark.parametrize("name", [2, 3, 4, 5, 6, 7])
def test_copies_use_every_byte(name):
    """From rung 2 on, what a warp copies at once fills its sectors: the bytes of §2.2, MNK(1/BM + 1/BN)·4."""
    found = sectors(name, arch=None)
    tile = found.tile
    assert found.sectors_per_tile * SECTOR_BYTES == (tile.bm + tile.bn) * tile.bk * 4
    copies = [access for access in found.accesses if access.array in ("A", "B")]
    assert copies
    assert all(access.useful == 1 for access in copies)


def test_rungs_4_and_5_ask_in_sixteen_bytes():
    """A quarter of the requests of rung 3, the same sectors; cp.async by as many."""
    three, four, five = (sectors(number, arch=None) for number in (3, 4, 5))
    assert three.requests_per_tile == 4 * four.requests_per_tile == 4 * five.requests_per_tile
    assert three.sectors_per_tile == four.sectors_per_tile == five.sectors_per_tile
    assert {access.kind for access in five.accesses} == {"copy", "write"}


@pytest.mark.parametrize(("name", "count", "useful"), [(3, 32, 1 / 8), (4, 32, 1 / 2), (5, 32, 1 / 2), (7, 16, 1)])
def test_stores_of_c(name, count, useful):
    """Flag 17: two float4 of a row, one at a time, fill half of the sectors; single floats 8 apart an eighth."""
    (c,) = (access for access in sectors(name, arch=None).accesses if access.array == "C")
    assert (c.sectors_per_request, c.useful) == (count, useful)
    assert c.requests_per_tile == c.sectors_per_tile == 0


def test_naive_stores():
    found = sectors(1, arch=None)
    assert found.requests("write", 64, 64, 8) == 64 * 64 // 32
    assert found.sectors("write", 64, 64, 8) == 64 * 64 // 8


def test_plain_data_and_errors():
    assert json.loads(json.dumps(sectors(4, arch=None).to_dict()))["sectors_per_tile"] == 256
    with pytest.raises(ValueError, match="not whole tiles"):
        sectors(4, arch=None).sectors("read", 128, 128, 9)
