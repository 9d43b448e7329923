"""Outputs that pass shared memory on their way to C: the detour `through_shared` of rung 6."""

import pytest
from support.products import Placement, Product

from numba_gemm import Tile
from numba_gemm.analysis.code import machine_code, sass
from numba_gemm.compiler.target import SIMULATOR
from numba_gemm.kernels.interface import Variant
from numba_gemm.ladder import find

RUNG_6, THROUGH_SHARED = find(6), find("through_shared")
TILES = (
    [Tile(16, 16, 4, 4, 4, 3), Tile(16, 8, 8, 2, 4, 2), Tile(8, 16, 8, 2, 4, 4), Tile(8, 8, 4, 1, 4, 5)]
    if SIMULATOR
    else [RUNG_6.default_tile, Tile(64, 128, 16, 8, 8, 2), Tile(128, 64, 8, 4, 8, 3)]
)
EVERYTHING = {"alpha": 2.0, "beta": -1.0, "bias": 1, "activation": "relu"}


@pytest.mark.device
@pytest.mark.parametrize("tile", TILES, ids=str)
@pytest.mark.parametrize(
    "product",
    [
        pytest.param(lambda t: Product(2 * t.bm, t.bn, 3 * t.bk), id="whole tiles"),
        pytest.param(lambda t: Product(t.bm + 1, t.bn - 1, 2 * t.bk + 1, **EVERYTHING), id="edges, everything"),
        pytest.param(lambda t: Product(t.bm - 3, t.bn + 4, 1, c=Placement(multiple=4)), id="ragged, by 16 bytes"),
        pytest.param(lambda t: Product(3, 5, t.bk, batch=2, c=Placement(pitch=1, gap=3), **EVERYTHING), id="batch"),
        pytest.param(lambda t: Product(t.bm + 5, 3, 0, **EVERYTHING), id="no k"),
    ],
)
def test_the_same_product(tile, product, rng):
    product(tile).check(THROUGH_SHARED, tile, rng)


@pytest.mark.device
def test_the_band_may_be_larger_than_the_ring(rng):
    # One row a thread makes the band a whole tile of C.
    tile = Tile(16, 32, 4, 1, 8, 2)
    assert THROUGH_SHARED.shared_bytes(tile, Variant()) == 16 * 32 * 4
    assert RUNG_6.shared_bytes(tile, Variant()) < 16 * 32 * 4
    Product(17, 15, 5).check(THROUGH_SHARED, tile, rng)


@pytest.mark.machine_code
def test_what_it_costs():
    """Each output passes shared memory once, by 16 bytes; two barriers a row of a thread; no register more."""
    tile = RUNG_6.default_tile
    code = [machine_code.compile_version(version, "sm_90", tile, Variant()) for version in (RUNG_6, THROUGH_SHARED)]
    direct, through_shared = (sass.parse(each.sass) for each in code)
    found = [
        len(sass.select(instructions, opcode))
        for instructions in (direct, through_shared)
        for opcode in ("STS.128", "BAR")
    ]
    print("STS.128, BAR direct and through shared memory:", found)
    fours_a_row = tile.tn // 4
    assert found == [0, 1, tile.tm * fours_a_row, 1 + 2 * tile.tm]
    assert code[1].registers <= 128
    assert code[1].spill_store_bytes == 0
