"""Outputs that pass shared memory on their way to C, as an option of rung 6's tiles."""

from dataclasses import replace

import numpy as np
import pytest
from numba import cuda
from support.products import Placement, Product

from numba_gemm import VERSIONS, Tile, sgemm
from numba_gemm.analysis.code import machine_code, sass
from numba_gemm.compiler.target import SIMULATOR
from numba_gemm.kernels.interface import Variant
from numba_gemm.ladder import find

RUNG_6 = find(6)
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
    product(tile).check(RUNG_6, replace(tile, through_shared=True), rng)


@pytest.mark.device
def test_the_band_may_be_larger_than_the_ring(rng):
    # One row a thread makes the band a whole tile of C.
    tile = Tile(16, 32, 4, 1, 8, 2, through_shared=True)
    assert RUNG_6.module.shared_bytes(tile, Variant()) == 16 * 32 * 4
    assert RUNG_6.module.shared_bytes(replace(tile, through_shared=False), Variant()) < 16 * 32 * 4
    Product(17, 15, 5).check(RUNG_6, tile, rng)


@pytest.mark.device
@pytest.mark.parametrize("version", [v for v in VERSIONS if v is not RUNG_6], ids=lambda v: v.name)
@pytest.mark.usefixtures("nothing_runs")
def test_only_rung_6_has_the_option(version):
    a = cuda.to_device(np.ones((8, 8), np.float32))
    with pytest.raises(ValueError, match="through_shared is for rung 6"):
        sgemm(a, a, version=version.name, tile=replace(version.small_tile, through_shared=True))


@pytest.mark.parametrize("wrong", [1, 0, None, "yes"])
def test_the_option_is_a_bool(wrong):
    with pytest.raises(TypeError, match=r"through_shared is .* it must be a bool"):
        Tile(16, 16, 4, 4, 4, 3, through_shared=wrong)


@pytest.mark.machine_code
def test_what_it_costs():
    """Each output passes shared memory once, by 16 bytes; two barriers a row of a thread; no register more."""
    tile = replace(RUNG_6.default_tile, through_shared=True)
    code = {
        through: machine_code.compile_version(RUNG_6, "sm_90", used, Variant())
        for through, used in ((False, RUNG_6.default_tile), (True, tile))
    }
    direct, through_shared = (sass.parse(code[through].sass) for through in (False, True))
    found = [
        len(sass.select(instructions, opcode))
        for instructions in (direct, through_shared)
        for opcode in ("STS.128", "BAR")
    ]
    print("STS.128, BAR direct and through shared memory:", found)
    fours_a_row = tile.tn // 4
    assert found == [0, 1, tile.tm * fours_a_row, 1 + 2 * tile.tm]
    assert code[True].registers <= 128
    assert code[True].spill_store_bytes == 0
