"""What `version="auto"` takes: what was measured, and else by the model, on devices that need not be here."""

import pytest
from support.tuning import like

from numba_gemm import Tile
from numba_gemm.auto import choose, database
from numba_gemm.auto.candidates import candidates
from numba_gemm.auto.choose import choose_by_model, estimated_seconds, issue_share, resident_blocks
from numba_gemm.auto.entry import Choice
from numba_gemm.driver import cuda_api
from numba_gemm.hardware.devices import DEVICES, find
from numba_gemm.kernels.v7_warp_tiled import DEFAULT_TILE
from numba_gemm.ladder import find as version_named
from numba_gemm.problem import Problem

H200 = find("H200")


def key(m, n, k, batch=1, vector=True):
    return Problem.of_key(m, n, k, batch, a_along_k=True, b_along_k=False, vector=vector)


@pytest.mark.parametrize(
    ("shape", "versions", "outputs"),
    [
        ((4096, 4096, 4096), ("warp_tiled", "stream_k"), 128 * 256),  # large tiles: fewest loads an FFMA
        ((2048, 2048, 2048), ("warp_tiled", "stream_k"), 128 * 256),  # 128 of them, for 132 SMs
        ((256, 256, 256), ("warp_tiled",), 32 * 32),  # 64 small tiles; large ones would be two
        ((1, 4096, 4096), ("skinny",), None),  # bound by memory
        ((4096, 1, 4096), ("skinny",), None),
        ((16, 4096, 14336), ("skinny",), None),
    ],
    ids=str,
)
def test_what_the_model_takes(shape, versions, outputs):
    picked = choose_by_model(H200, key(*shape))
    assert picked.version.name in versions
    assert outputs is None or picked.tile.bm * picked.tile.bn == outputs


def test_the_smaller_the_product_the_smaller_the_tile():
    sizes = [choose_by_model(H200, key(size, size, size)).tile for size in (256, 512, 1024, 2048)]
    outputs = [tile.bm * tile.bn for tile in sizes]
    assert outputs == sorted(outputs)
    assert outputs[0] < outputs[-1]


def test_a_batch_fills_the_device_like_a_large_product():
    one = choose_by_model(H200, key(256, 256, 256)).tile
    many = choose_by_model(H200, key(256, 256, 256, batch=512)).tile
    assert many.bm * many.bn > one.bm * one.bn


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.name)
@pytest.mark.parametrize("shape", [(0, 5, 5), (5, 5, 0), (1, 1, 1), (77, 4096, 3), (65536, 128, 128)], ids=str)
def test_every_device_gets_something_that_it_can_run(device, shape):
    picked = choose_by_model(device, key(*shape, vector=False))
    assert picked in candidates(key(*shape, vector=False), device.compute_capability)


def test_no_candidate_is_estimated_to_be_faster():
    shape = key(1000, 1000, 1000)
    picked = choose_by_model(H200, shape)
    times = {choice: estimated_seconds(H200, choice, shape) for choice in candidates(shape, (9, 0))}
    assert times[picked] == min(times.values())


def test_an_estimate_by_hand():
    """512 blocks of 128 × 256 on 132 SMs, one at a time on each: four rounds."""
    choice = Choice(version_named("warp_tiled"), DEFAULT_TILE)
    assert resident_blocks(H200, DEFAULT_TILE, 49664) == 1  # 256 threads of 216 registers
    copies = 128 / 256 + 256 / 4 / 256  # A by 4 bytes, because it is transposed, B by 16
    share = 128 / (128 + 6 + choose.COPY * copies + 1)
    assert issue_share(DEFAULT_TILE, key(4096, 4096, 4096)) == pytest.approx(share)
    rate = 128 * share * 2 / (2 + choose.WAITING)  # 8 warps, two a scheduler
    cycles = 4 * (4096 * 128 * 256 / rate + choose.OUTPUT * 128 * 256)
    memory = 3 * 4096**2 * 4 / H200.memory_bandwidth
    seconds = choose.START + cycles / H200.clock_hz + choose.NOT_HIDDEN * memory
    assert estimated_seconds(H200, choice, key(4096, 4096, 4096)) == pytest.approx(seconds)


def test_an_estimate_by_hand_for_few_rows():
    """32 blocks of 128 columns, by 4 slices of k for 16 rows, and by 8 for one."""
    skinny = version_named("skinny")
    choice = Choice(skinny, skinny.default_tile)
    for shape, slices in ((key(16, 4096, 4096), 4), (key(1, 4096, 4096), 8), (key(4096, 1, 4096), 8)):
        rows = min(shape.m, shape.n)
        compute = rows * 4096 * 4096 / (132 * 128 * choose.FEW_ROWS_SHARE) / H200.clock_hz
        memory = 4 * (rows * 4096 + 4096 * 4096 + rows * 4096) / H200.memory_bandwidth
        assert (compute > memory) == (rows == 16)
        besides = choose.FEW_ROWS_BLOCK * 32 * slices / 132 / H200.clock_hz
        seconds = max(compute, memory) + choose.NOT_HIDDEN * min(compute, memory) + besides
        assert estimated_seconds(H200, choice, shape) == pytest.approx(choose.START + seconds)


@pytest.mark.parametrize(
    ("layout", "copies"),
    [
        ({}, 1 + 1 / 4),
        ({"b_along_k": True}, 1 + 1),
        ({"a_along_k": False}, 1 / 4 + 1 / 4),
        ({"a_along_k": False, "b_along_k": True}, 1 / 4 + 1),
        ({"a_along_k": False, "vector": False}, 1 + 1),
    ],
    ids=lambda value: ", ".join(value) if isinstance(value, dict) else "",
)
def test_what_is_transposed_or_unaligned_is_copied_by_4_bytes(layout, copies):
    tile = Tile(64, 64, 16, 8, 8, stages=2, wm=32, wn=64)
    assert issue_share(tile, like(key(512, 512, 512), **layout)) == pytest.approx(
        64 / (64 + 4 + choose.COPY * copies + 1)
    )


@pytest.fixture
def nothing_measured(monkeypatch):
    monkeypatch.setattr(database, "lookup", lambda *_: None)


@pytest.mark.usefixtures("nothing_measured")
def test_older_devices_get_what_they_can_run(monkeypatch):
    monkeypatch.setattr(cuda_api, "compute_capability", lambda _: (7, 5))
    assert choose.choose(75, key(4096, 4096, 4096)).version.number == 4


@pytest.mark.usefixtures("nothing_measured")
def test_no_version_for_a_device(monkeypatch):
    monkeypatch.setattr(cuda_api, "compute_capability", lambda _: (3, 5))
    with pytest.raises(RuntimeError, match=r"needs compute capability 5\.0 or above; the device has 3\.5"):
        choose.choose(35, key(1, 1, 1))


def test_a_given_tile_decides_among_versions_that_can_use_it():
    ring = Tile(128, 128, 8, 8, 8, stages=3)  # no warp tiles: rung 6
    assert choose_by_model(H200, key(4096, 4096, 4096), ring) == Choice(version_named("boundary"), ring)
    assert choose_by_model(H200, key(300, 300, 300), DEFAULT_TILE).tile == DEFAULT_TILE


def test_a_tile_that_no_version_can_use_is_left_to_be_refused():
    hopeless = Tile(4, 4, 4)
    assert choose_by_model(H200, key(64, 64, 64), hopeless).tile == hopeless


def test_what_was_measured_comes_first(monkeypatch):
    shape = key(4096, 4096, 4096)
    tuned = Choice(version_named("warp_tiled"), Tile(64, 64, 16, 8, 8, 2, 32, 64))
    monkeypatch.setattr(database, "lookup", lambda device, wanted: tuned if (device, wanted) == (0, shape) else None)
    monkeypatch.setattr(choose, "hardware_of", lambda _: H200)
    monkeypatch.setattr(cuda_api, "compute_capability", lambda _: H200.compute_capability)
    assert choose.choose(0, shape) == tuned
    assert choose.choose(0, shape, DEFAULT_TILE).tile == DEFAULT_TILE  # a given tile pins it
    assert choose.choose(0, key(4096, 4096, 4095)) == choose_by_model(H200, key(4096, 4096, 4095))
