"""`explain`: the model of a version joined from its parts, its figures by hand, and what it says in words."""

import io
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import numba_gemm
from numba_gemm import VERSIONS, Tile
from numba_gemm.analysis.code.banks import banks
from numba_gemm.analysis.models import explain as explaining
from numba_gemm.analysis.models import structure
from numba_gemm.analysis.models.bounds import Launch, bounds, memory_bytes, predict, volume
from numba_gemm.analysis.models.explain import IDEAS, duration, explain
from numba_gemm.analysis.models.structure import shared_wavefronts
from numba_gemm.analysis.models.waves import waves
from numba_gemm.hardware import devices
from numba_gemm.hardware.devices import A100, DEVICES, H100, H200
from numba_gemm.ladder import RUNGS, find

CUBE = (4096, 4096, 4096)
GIB = 2**30
KEYS = [
    "version",
    "device",
    "m",
    "n",
    "k",
    "tile",
    "flops",
    "minimum_bytes",
    "minimum_intensity",
    "ridge",
    "compute_bound_s",
    "memory_bound_s",
    "bound_s",
    "bound",
    "logical_global_bytes",
    "global_intensity",
    "shared_intensity",
    "shared_wavefronts_per_ffma",
    "ffma_share",
    "threads",
    "registers",
    "shared_bytes",
    "source",
    "blocks",
    "blocks_per_sm",
    "warps_per_sm",
    "occupancy",
    "occupancy_limiters",
    "waves",
    "wave_efficiency",
    "bottlenecks",
    "optimistic_s",
    "predicted_s",
    "pessimistic_s",
    "next",
]
NAMES = [version.name for version in VERSIONS]


def shown(explanation, width):
    console = Console(width=width, file=io.StringIO())
    console.print(explanation)
    return console.file.getvalue()


def bottleneck(explanation, name):
    return next(bound for bound in explanation.bottlenecks if bound.name == name)


# What every version has -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_version_is_explained_with_the_keys_of_the_contract(name):
    figures = numba_gemm.explain(name, *CUBE, "H200").to_dict()
    assert list(figures) == KEYS
    assert json.loads(json.dumps(figures)) == figures
    assert figures["version"] == (find(name).number or name)
    assert 0 < figures["compute_bound_s"] <= figures["optimistic_s"] <= figures["predicted_s"]
    assert figures["predicted_s"] <= figures["pessimistic_s"]
    assert figures["minimum_bytes"] == 3 * 4 * 4096**2
    worst = [bound["least_s"] + bound["most_s"] for bound in figures["bottlenecks"]]
    assert worst == sorted(worst, reverse=True)


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.name)
@pytest.mark.parametrize("name", NAMES)
def test_every_version_is_explained_on_every_device(name, device):
    found = numba_gemm.explain(name, 300, 200, 20, device.name.lower())
    assert found.device is device
    assert found.occupancy.blocks_per_sm >= 1


@pytest.mark.parametrize("shape", [(0, 5, 3), (5, 0, 3), (5, 3, 0), (0, 0, 0)], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_empty_products_take_no_time_but_that_of_c(name, shape):
    found = numba_gemm.explain(name, *shape, "A100")
    assert found.roofline.flops == 0
    m, n, _ = shape
    written = 4 * m * n / A100.memory_bandwidth
    # Rungs with padding write and crop whole tiles of scratch.
    assert found.prediction.pessimistic_s <= (2e-6 if find(name).needs_whole_tiles and m * n else written)


@given(st.sampled_from(RUNGS), st.integers(1, 600), st.integers(1, 600), st.integers(1, 600), st.sampled_from(DEVICES))
def test_the_range_is_in_order_and_above_the_roofline(version, m, n, k, device):
    found = explain(version.name, m, n, k, device).prediction
    assert 2 * m * n * k / device.fp32_peak <= found.optimistic_s * (1 + 1e-9)
    assert found.optimistic_s <= found.predicted_s <= found.pessimistic_s
    assert found.predicted_s == pytest.approx((found.optimistic_s * found.pessimistic_s) ** 0.5)


# Figures by hand --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "gib", "global_intensity", "shared_intensity", "blocks", "resident", "occupancy"),
    [
        ("naive", 512, 0.25, None, 65536, 8, 1.0),
        ("shared", 16, 8, 0.25, 16384, 2, 1.0),
        ("register", 4, 32, 2, 1024, 2, 0.25),
        ("vectorized", 4, 32, 2, 1024, 2, 0.25),
        ("cp_async", 4, 32, 2, 1024, 2, 0.25),
        ("boundary", 4, 32, 2, 1024, 2, 0.25),
        ("warp_tiled", 3, 128 * 256 / 768, 16 * 8 / 48, 512, 1, 0.125),
    ],
)
def test_figures_of_the_rungs(name, gib, global_intensity, shared_intensity, blocks, resident, occupancy):
    """§2.2 to §2.5 of the source documents, for the tiles of the rungs on an A100."""
    found = numba_gemm.explain(name, *CUBE, "A100")
    assert found.logical_global_bytes == gib * GIB
    assert found.global_intensity == pytest.approx(global_intensity)
    assert found.shared_intensity == (None if shared_intensity is None else pytest.approx(shared_intensity))
    assert found.waves.blocks == blocks
    assert found.occupancy.blocks_per_sm == resident
    assert found.occupancy.occupancy == occupancy
    assert found.waves == waves(blocks, 108, resident)


def test_waves_and_roofline_of_the_worked_example():
    """§2.1 and §2.5: 7.05 ms against 0.10 ms; 4.74 waves, 94.8 %."""
    figures = numba_gemm.explain(3, *CUBE, "A100").to_dict()
    assert figures["compute_bound_s"] * 1e3 == pytest.approx(7.05, abs=0.005)
    assert figures["memory_bound_s"] * 1e3 == pytest.approx(0.10, abs=0.005)
    assert round(figures["waves"], 2) == 4.74
    assert round(100 * figures["wave_efficiency"], 1) == 94.8


@pytest.mark.parametrize(
    ("name", "least", "served"),
    [
        ("shared", 1.25, 1.5),  # flag 2: four k of A in one read, B 128 bytes
        ("register", 4 + 8, 4 + 16),  # flag 5: A 8×2 wavefronts for four k; B 2×4
        ("vectorized", 2 + 8, 4 + 16),  # §2.3: A 2×1, B 2×4
        ("cp_async", 4 + 8, 4 + 16),
        ("boundary", 2 + 8, 4 + 16),
        ("warp_tiled", 4 + 2, 8 + 4),
    ],
)
def test_wavefronts_of_the_rungs(name, least, served):
    version = find(name)
    tile = version.default_tile
    found = shared_wavefronts(version.structure, tile)
    assert (found.least, found.served) == (least, served)
    ffma = tile.tm * tile.tn
    assert numba_gemm.explain(name, *CUBE, "H100").shared_wavefronts_per_ffma == (least / ffma, served / ffma)


def test_shared_memory_bounds_rung_2_on_wide_multiprocessors():
    """Flags 1 and 2: 1.25 wavefronts for an FFMA and 4 FFMA a cycle make five times the time of the arithmetic."""
    found = numba_gemm.explain(2, *CUBE, "H100")
    assert found.bottlenecks[0].name == "shared memory"
    reads = 4096**3 / 32 / H100.multiprocessors * 1.25 / H100.clock_hz
    writes = (4096 / 32) ** 3 * 64 / H100.multiprocessors / H100.clock_hz
    assert bottleneck(found, "shared memory").least_s == pytest.approx(reads + writes, rel=0.01)
    assert reads / found.roofline.compute_bound_s == pytest.approx(5)


def test_issue_bounds_by_the_share_of_ffma():
    """Flag 4: 64 lanes take two cycles of a scheduler for an FFMA, so 1.08 instructions cost nothing; 128 lanes one."""
    on_a100, on_h100 = (numba_gemm.explain(4, *CUBE, device) for device in ("A100", "H100"))
    assert on_a100.ffma_share == on_h100.ffma_share == 64 / (64 + 4 + (7 + 2) / 8)
    dealt = 10 / (1024 / 108)  # ten blocks on the busiest multiprocessor
    assert bottleneck(on_a100, "issue").least_s == pytest.approx(on_a100.roofline.compute_bound_s * dealt)
    dealt = 8 / (1024 / 132)
    expected = on_h100.roofline.compute_bound_s / on_h100.ffma_share * dealt
    assert bottleneck(on_h100, "issue").least_s == pytest.approx(expected)


def test_sectors_and_lines_of_the_naive_kernels():
    """§5: 1+4 sectors with columns along a warp, 32+1 with rows, 2+2 in square blocks; lines likewise."""
    tile = find("naive").default_tile
    by_columns = find("naive").structure
    by_rows = replace(by_columns, lanes="rows")
    assert (structure.global_sectors(by_columns, tile), structure.global_lines(by_columns, tile)) == (5, 2)
    turned = Tile(bm=32, bn=8, bk=1)
    assert (structure.global_sectors(by_rows, turned), structure.global_lines(by_rows, turned)) == (33, 33)
    square = Tile(bm=16, bn=16, bk=1)
    assert (structure.global_sectors(by_columns, square), structure.global_lines(by_columns, square)) == (4, 3)


def test_the_naive_kernel_asks_the_caches_for_the_sectors_of_the_source_documents():
    """§2.1: 343.6 GB of sectors at most; at least what a block has in common."""
    why = bottleneck(numba_gemm.explain(1, *CUBE, "A100"), "L2").why
    assert "42.9 GB to 344 GB" in why
    assert round(4 * 4096**3 * (1 / 8 + 1 / 32) / 1e9, 1) == 42.9


@pytest.mark.parametrize(
    ("name", "instructions"),
    [("shared", 4), ("register", 16), ("vectorized", 7), ("cp_async", 2), ("boundary", 5), ("warp_tiled", 12)],
)
def test_copies_are_those_of_the_machine_code(name, instructions):
    """Loads and stores a thread and tile, as in the main loops that tests/kernels/test_machine_code.py reads."""
    version = find(name)
    assert structure.copy_instructions(version.structure, version.default_tile) == instructions


def test_memory_is_read_once_a_wave_of_blocks():
    """132 multiprocessors hold 264 blocks: 9 rows (8.25) of 32 blocks, and all columns, in each of four rounds."""
    launch = launch_of("vectorized", *CUBE, H200)
    assert memory_bytes(launch) == 4 * 4 * 4096 * (9 * 128 + 4096) + 4 * 4096**2
    small = launch_of("vectorized", 1024, 1024, 1024, H200)
    assert memory_bytes(small) == 3 * 4 * 1024**2  # L2 holds both operands


def launch_of(name, m, n, k, device, **changes):
    version = find(name)
    tile = changes.pop("tile", version.default_tile)
    explanation = explain(name, m, n, k, device, tile)
    parts = replace(version.structure, **changes)
    return Launch(parts, tile, m, n, k, device, explanation.occupancy.blocks_per_sm, explanation.waves)


def test_what_a_kernel_overlaps_does_not_add_up():
    apart = launch_of("vectorized", *CUBE, H200)
    most = {bound.name: bound.most_s for bound in bounds(apart)}
    assert predict(apart, bounds(apart)).pessimistic_s == pytest.approx(sum(most.values()))
    ahead = launch_of("vectorized", *CUBE, H200, prefetch=True)
    most = {bound.name: bound.most_s for bound in bounds(ahead)}
    computing = most["issue"] + most["shared memory"]
    assert predict(ahead, bounds(ahead)).pessimistic_s == pytest.approx(computing + most["latency"])
    both = launch_of("vectorized", *CUBE, H200, prefetch=True, paired_fragments=True)
    most = {bound.name: bound.most_s for bound in bounds(both)}
    together = max(most["issue"], most["shared memory"])
    assert predict(both, bounds(both)).pessimistic_s == pytest.approx(together + most["latency"])


def test_padding_costs_copies():
    """§2.7: 300×200×20 becomes 384×256×24; A, B and C are copied where they are not whole."""
    whole, ragged = (explain(4, *shape, A100) for shape in ((384, 256, 24), (300, 200, 20)))
    moved = 4 * (300 * 20 + 384 * 24 + 20 * 200 + 24 * 256 + 300 * 200 + 384 * 256)
    extra = ragged.prediction.optimistic_s - whole.prediction.optimistic_s
    assert extra == pytest.approx(moved / A100.memory_bandwidth)
    assert explain(6, 300, 200, 20, A100).logical_global_bytes == 4 * 20 * (300 * 2 + 200 * 3)
    assert ragged.logical_global_bytes == whole.logical_global_bytes == 4 * 24 * (384 * 2 + 256 * 3)


def test_few_blocks_leave_multiprocessors_idle():
    found = numba_gemm.explain(7, 1024, 1024, 1024, "H200")
    assert found.waves.blocks == 32
    assert "Only 32 of 132 multiprocessors have a block" in found.next


def test_another_tile_has_other_figures():
    tile = Tile(64, 64, 8, 4, 4)
    found = numba_gemm.explain("vectorized", *CUBE, "A100", tile)
    assert found.tile == tile
    assert found.logical_global_bytes == 8 * GIB
    assert found.occupancy.blocks_per_sm == 4  # §2.4, by 16 + 40 registers


#: Kernels that can be traced by themselves, without what blocks exchange. For these two the count of `structure` is
#: coarser: rows of As that begin at any multiple of 4 bytes, and reads of two neighbours.
TRACED = [
    version.name
    for version in VERSIONS
    if not version.has_workspace and version.structure.shared and version.name not in ("padded_rows", "ex5")
]


@pytest.mark.parametrize("name", TRACED)
def test_wavefronts_of_every_structure_are_those_that_tracing_the_source_counts(name):
    version = find(name)
    tile = version.small_tile
    traced = banks(name, tile=tile, arch=None).load_wavefronts_per_tile
    warps = -(-tile.threads // 32)
    assert shared_wavefronts(version.structure, tile).served == traced / (warps * tile.bk)


@pytest.mark.machine_code
@pytest.mark.parametrize("name", ["shared", "vectorized", "cp_async_intrinsic"])
def test_wavefronts_are_those_that_tracing_the_kernel_counts(name):
    version = find(name)
    tile = version.default_tile
    traced = banks(name).load_wavefronts_per_tile
    warps = tile.threads // 32
    assert shared_wavefronts(version.structure, tile).served == traced / (warps * tile.bk)


@pytest.mark.machine_code
def test_detail_takes_registers_and_instructions_from_machine_code():
    figures = numba_gemm.explain("vectorized", *CUBE, "H200", detail=True)
    compiled = numba_gemm.inspect("vectorized", arch="sm_90")
    assert figures.source == "machine code"
    assert figures.registers == compiled.registers
    assert figures.shared_bytes == compiled.shared_bytes
    assert figures.ffma_share == compiled.loop.ffma_share
    issue = bottleneck(figures, "issue")
    waiting = issue.most_s / issue.least_s  # of the same number of blocks: 8 on the busiest, and 4 rounds of 2
    loop = compiled.loop
    assert waiting == pytest.approx((loop.instructions + loop.bank_triples) / loop.instructions)
    assert "from machine code" in issue.why
    assert "by the machine code" in shown(figures, 120)


@pytest.mark.simulator
def test_detail_cannot_compile_in_the_simulator():
    with pytest.raises(RuntimeError, match="unset NUMBA_ENABLE_CUDASIM"):
        numba_gemm.explain(4, *CUBE, "H200", detail=True)


# Words ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rung", RUNGS, ids=str)
def test_each_rung_names_the_idea_of_the_next(rung):
    sentence = numba_gemm.explain(rung.number, *CUBE, "H200").next
    above = [candidate for candidate in RUNGS if candidate.number == rung.number + 1]
    if above:
        assert f"Next, {above[0]}: " in sentence
        assert IDEAS.get(above[0].name, above[0].summary) in sentence
    else:
        assert "The last rung" in sentence


def test_ideas_are_of_rungs():
    assert set(IDEAS) >= {rung.name for rung in RUNGS if rung.number > 1}


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", NAMES)
def test_the_tables_fit_and_show_every_figure(width, name):
    found = numba_gemm.explain(name, *CUBE, "RTX A6000" if name == "naive" else "H200")
    text = shown(found, width)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    joined = " ".join(text.split())
    assert f"Version {find(name)}, 4096×4096×4096 on {found.device.name}" in joined
    assert f"Predicted {duration(found.prediction.predicted_s)}:" in joined
    assert " ".join(found.next.split()) in joined
    for bound in found.bottlenecks:
        assert f"{bound.name} {duration(bound.least_s)} {duration(bound.most_s)}" in joined
    assert f"{found.waves.blocks} blocks, {found.waves.waves:.3g} waves" in joined


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0"), (2.5, "2.5 s"), (3.97e-3, "3.97 ms"), (1e-6, "1 µs"), (2e-9, "2 ns"), (0.25e-9, "0.25 ns")],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(("size", "text"), [(0, "0 B"), (999, "999 B"), (64e3, "64 kB"), (4.29e9, "4.29 GB")])
def test_volumes(size, text):
    assert volume(size) == text


# Devices and errors -----------------------------------------------------------------------------------------


def test_the_device_is_the_one_at_hand_or_an_h200(monkeypatch):
    monkeypatch.setattr(explaining, "at_hand", lambda: None)
    assert numba_gemm.explain(1, 8, 8, 8).device is H200
    mine = replace(A100, name="Mine")
    monkeypatch.setattr(explaining, "at_hand", lambda: mine)
    assert numba_gemm.explain(1, 8, 8, 8).device is mine
    assert numba_gemm.explain(1, 8, 8, 8, "rtx 4090").device is devices.RTX_4090
    assert numba_gemm.explain(1, 8, 8, 8, mine).to_dict()["device"] == "Mine"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("nonsense", 1, 1, 1), ValueError, "unknown version 'nonsense'; there are"),
        (("auto", 1, 1, 1), ValueError, "'auto' chooses by shape"),
        ((5.0, 1, 1, 1), TypeError, r"version is 5\.0, of type float"),
        ((1, -1, 1, 1), ValueError, "m is -1; it must be at least 0"),
        ((1, 1, 1.5, 1), TypeError, r"n is 1\.5, of type float"),
        ((1, 1, 1, True), TypeError, "k is True, of type bool"),
        ((1, 1, 1, 1, "V100"), ValueError, "unknown device 'V100'; there are A100"),
        ((1, 1, 1, 1, 90), TypeError, "device is 90, of type int"),
        ((5, 1, 1, 1, "H200", (128, 128, 8)), TypeError, r"tile is \(128, 128, 8\), of type tuple"),
        ((2, 1, 1, 1, "H200", Tile(16, 32, 8)), ValueError, "takes bm = bn = bk"),
        (
            (5, 1, 1, 1, replace(A100, compute_capability=(7, 5))),
            ValueError,
            r"needs compute capability 8\.0; A100 has",
        ),
        (
            (5, 1, 1, 1, "RTX 4090", Tile(128, 128, 32, 8, 8, stages=4)),
            ValueError,
            r"131072 bytes of shared memory; compute capability 8\.9 lets",
        ),
    ],
)
def test_what_cannot_be_explained_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        numba_gemm.explain(*arguments)
