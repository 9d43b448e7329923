"""The detours beside the ladder: what each changes, names for one kernel, and operands padded once."""

import numpy as np
import pytest
from numba import cuda
from support.cases import whole_shape
from support.checks import assert_exact, assert_same, small_integers, units, wide_integers
from support.guarded import Guarded

from numba_gemm import Tile, padded, sgemm
from numba_gemm.analysis.code.banks import banks
from numba_gemm.driver import cuda_api, grids
from numba_gemm.driver.operands import as_operand
from numba_gemm.kernels import staging
from numba_gemm.kernels.detours import ex7_along_k, padded_columns, split_columns, swizzled, untransposed
from numba_gemm.ladder import find

K_MAJOR = find("cp_async_k_major")

# Names for one kernel ----------------------------------------------------------------------------------------

#: Each name, the version whose kernel it is, and the tile that the source documents give it.
ALIASES = {
    "naive_16": ("naive", Tile(16, 16, 1)),
    "thread_tile_4": ("thread_tile", Tile(64, 64, 1, 4, 4)),
    "ex3": ("naive_16", Tile(16, 16, 1)),
    "ex4_bk16": ("shared", Tile(16, 16, 16)),
    "ex4_bk32": ("shared", Tile(32, 32, 32)),
    "ex5": ("register", Tile(32, 32, 32, 2, 2)),
    "ex6": ("untransposed", Tile(64, 64, 64, 4, 4)),
    "ex9": ("ex8", Tile(128, 128, 8, 8, 8, 2, 64, 32)),
}


@pytest.mark.parametrize("name", ALIASES)
def test_one_kernel_serves_several_names(name):
    other, tile = ALIASES[name]
    version, kernel_of = find(name), find(other)
    assert version.default_tile == tile
    assert version.make_kernel(tile) is kernel_of.make_kernel(tile)


@pytest.mark.device
@pytest.mark.parametrize("name", ALIASES)
def test_each_name_multiplies(name, rng):
    version = find(name)
    shape = whole_shape(version.small_tile)
    a, b = small_integers(rng, shape.m, shape.k), small_integers(rng, shape.k, shape.n)
    c = sgemm(cuda.to_device(a), cuda.to_device(b), version=name, tile=version.small_tile)
    assert_exact(c.copy_to_host(), a, b)


@pytest.mark.parametrize(
    ("name", "threads", "shared_kb"),
    [("ex4_bk32", 1024, 8), ("ex5", 256, 8), ("ex6", 256, 32), ("ex7", 256, 32), ("ex8", 256, 8), ("ex9", 256, 16)],
)
def test_tiles_of_the_ladder_for_the_rtx_5080(name, threads, shared_kb):
    tile = find(name).default_tile
    assert (tile.threads, tile.shared_bytes) == (threads, shared_kb * 1024)


# Layouts -----------------------------------------------------------------------------------------------------

LAYOUTS = {"untransposed": untransposed, "padded_columns": padded_columns, "split_columns": split_columns}
LAYOUTS |= {"swizzled": swizzled, "ex7": ex7_along_k}


def plain(function):
    """A device function as Python, in the simulator and outside it."""
    return getattr(function, "py_func", function)


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_element_has_its_place(name):
    tile = find(name).default_tile
    layout = LAYOUTS[name].layout(tile)
    a_places = {tuple(map(int, plain(layout.a_place)(k, m))) for k in range(tile.bk) for m in range(tile.bm)}
    b_places = {
        tuple(map(int, plain(layout.b_place)(k, n, q)))
        for k in range(tile.bk)
        for n in range(0, tile.bn, 4)
        for q in range(4)
    }
    for places, (rows, columns), elements in (
        (a_places, layout.a_tile, tile.bm * tile.bk),
        (b_places, layout.b_tile, tile.bk * tile.bn),
    ):
        assert len(places) == elements, "two elements in one place"
        assert all(0 <= row < rows and 0 <= column < columns for row, column in places)


@pytest.mark.parametrize("tile", [Tile(128, 128, 8, 8, 8), Tile(128, 256, 8, 8, 16), Tile(64, 64, 8, 4, 4)], ids=str)
def test_split_columns_are_all_columns(tile):
    column = plain(split_columns.layout(tile).column)
    columns = [int(column(t, j)) + q for t in range(tile.bn // tile.tn) for j in range(0, tile.tn, 4) for q in range(4)]
    assert sorted(columns) == list(range(tile.bn))


def test_split_columns_of_the_source():
    """Row 17: tn·4 and BN/2 + tn·4."""
    column = plain(split_columns.layout(Tile(128, 128, 8, 8, 8)).column)
    assert [int(column(t, j)) for t in (0, 1, 15) for j in (0, 4)] == [0, 64, 4, 68, 60, 124]


def test_swizzle_of_the_model():
    """Flag 12: on chunks of 16 bytes, as `shared_memory.swizzled_word` has it for a row of 128 floats."""
    from numba_gemm.analysis.models.shared_memory import swizzled_word

    place = plain(swizzled.layout(Tile(128, 128, 8, 8, 8)).b_place)
    for n in range(0, 128, 4):
        assert [int(place(3, n, q)[1]) for q in range(4)] == [swizzled_word(n + q) for q in range(4)]


def test_a_swizzle_stays_in_its_row():
    with pytest.raises(ValueError, match="bn = 96 is not a power of two"):
        swizzled.check(Tile(32, 96, 8, 4, 4))


@pytest.mark.parametrize(
    ("check", "tile", "needed"),
    [
        (padded_columns.check, Tile(128, 256, 32, 8, 16), 49152 + 4 * 4 * 32),
        (find("padded_rows").check, Tile(128, 256, 32, 8, 16), 49152 + 4 * 128),
    ],
    ids=["padded_columns", "padded_rows"],
)
def test_padding_counts_as_shared_memory(check, tile, needed):
    find("vectorized").check(tile)  # 48 KB, to the byte
    with pytest.raises(ValueError, match=f"{needed} bytes of static shared memory"):
        check(tile)


# Wavefronts --------------------------------------------------------------------------------------------------

#: Of a block for one tile of K: loads of shared memory, stores, copies by cp.async; what the docstrings say.
WAVEFRONTS = {
    "vectorized": (1280, 96, 0),
    "untransposed": (1280, 64, 0),
    "padded_columns": (1280, 64, 0),
    "split_columns": (768, 96, 0),
    "swizzled": (768, 96, 0),
    "register": (1280, 64, 0),
    "padded_rows": (1312, 96, 0),
    "register_prefetch": (1280, 96, 0),
    "cp_async": (1280, 0, 64),
    "cp_async_b": (1280, 64, 32),
    "cp_async_k_major": (1280, 0, 64),
    "ex6": (3072, 256, 0),
    "ex7": (17408, 2176, 0),
    "ex8": (768, 160, 0),
    "ex9": (768, 160, 0),
}


@pytest.mark.parametrize("name", WAVEFRONTS)
def test_wavefronts_of_a_tile(name):
    # As wide as the source allows, which is how wide the machine code is: test_machine_code_detours.py.
    found = banks(name, arch=None)
    counted = (found.load_wavefronts_per_tile, found.store_wavefronts_per_tile, found.copy_wavefronts_per_tile)
    assert counted == WAVEFRONTS[name]


def wavefronts_of(name, array, kind):
    own = [access for access in banks(name, arch=None).accesses if (access.array, access.kind) == (array, kind)]
    return sum(access.wavefronts_per_tile for access in own), sum(access.ideal_per_tile for access in own)


def test_conflicts_that_the_source_has():
    """The docstrings of `padded_columns`, `split_columns`, `ex8_warp_tiled`: who meets whom, and who no longer."""
    assert wavefronts_of("vectorized", "As", "write") == (64, 32)
    assert wavefronts_of("padded_columns", "As", "write") == (32, 32)
    assert wavefronts_of("vectorized", "Bs", "read") == (1024, 256)
    assert wavefronts_of("split_columns", "Bs", "read") == wavefronts_of("swizzled", "Bs", "read") == (512, 256)
    assert wavefronts_of("padded_rows", "As", "write") == (64, 32)
    assert wavefronts_of("ex8", "As", "read") == (256, 128)
    assert wavefronts_of("ex8", "Bs", "read") == (512, 128)
    assert wavefronts_of("ex8", "Bs", "write") == (128, 32)


# A given K-major ---------------------------------------------------------------------------------------------


@pytest.fixture
def no_copies(monkeypatch):
    def step(source, *_):
        pytest.fail(f"{source.place} was copied")

    monkeypatch.setattr(staging, "step", step)


@pytest.mark.device
@pytest.mark.usefixtures("no_copies")
def test_a_column_major_a_is_taken_as_it_is(rng):
    tile = K_MAJOR.small_tile
    shape = whole_shape(tile)
    a, b = wide_integers(rng, shape.m, shape.k), units(rng, shape.k, shape.n)
    device_a = Guarded(a, "column-major")
    c = sgemm(device_a.view, cuda.to_device(b), version=K_MAJOR.name, tile=tile, pad=False)
    assert_exact(c.copy_to_host(), a, b)
    device_a.assert_untouched("A")


@pytest.mark.device
@pytest.mark.usefixtures("nothing_runs")
def test_a_row_major_a_would_be_copied():
    tile = K_MAJOR.small_tile
    a, b = (cuda.to_device(np.ones(shape, np.float32)) for shape in ((tile.bm, 2 * tile.bk), (2 * tile.bk, tile.bn)))
    with pytest.raises(ValueError, match=r"\(but a column-major\).*a has shape"):
        sgemm(a, b, version=K_MAJOR.name, tile=tile, pad=False)


@pytest.mark.device
def test_more_rows_than_a_grid_has(rng, monkeypatch):
    """A K-major A is cut along its second axis in memory; each panel keeps the whole stride."""
    monkeypatch.setattr(grids, "MAX_GRID_Y", 1)
    tile = K_MAJOR.small_tile
    a, b = wide_integers(rng, 3 * tile.bm - 1, tile.bk), units(rng, tile.bk, tile.bn)
    c = sgemm(cuda.to_device(a), cuda.to_device(b), version=K_MAJOR.name, tile=tile)
    assert_exact(c.copy_to_host(), a, b)


# Padded once -------------------------------------------------------------------------------------------------

TILE = Tile(8, 16, 4, 4, 4)


@pytest.mark.device
@pytest.mark.parametrize(("role", "whole"), [("a", (16, 12)), ("b", (12, 16))])
def test_padding_is_zeros_around_the_operand(role, whole, rng):
    values = wide_integers(rng, 9, 10)
    operand = Guarded(values)
    found = padded(operand.view, role, version="vectorized", tile=TILE).copy_to_host()
    expected = np.zeros(whole, np.float32)
    expected[:9, :10] = values
    assert_same(found, expected)
    operand.assert_untouched("the operand")


@pytest.mark.device
@pytest.mark.parametrize("version", ["vectorized", "cp_async_k_major", "thread_tile"])
def test_padded_operands_multiply_without_padding(version, rng):
    tile = find(version).small_tile
    m, n, k = tile.bm + 1, tile.bn - 1, 2 * tile.bk + 1
    a, b = wide_integers(rng, m, k), units(rng, k, n)
    pitched_a, unaligned_b = Guarded(a, "pitched"), Guarded(b, "unaligned")
    whole = [padded(x.view, role, version=version, tile=tile) for x, role in ((pitched_a, "a"), (unaligned_b, "b"))]
    c = sgemm(*whole, version=version, tile=tile, pad=False)
    assert_exact(c.copy_to_host()[:m, :n], a, b)


@pytest.mark.device
@pytest.mark.usefixtures("no_copies")
def test_what_needs_no_padding_is_returned_itself():
    whole = cuda.to_device(np.ones((8, 8), np.float32))
    assert padded(whole, "a", version="vectorized", tile=TILE) is whole
    ragged = Guarded(np.ones((7, 9)), "pitched").view
    assert padded(ragged, "b", version="boundary") is ragged


@pytest.mark.device
def test_padded_a_is_column_major_where_the_kernel_wants_it():
    a = padded(cuda.to_device(np.ones((9, 5), np.float32)), "a", version=K_MAJOR.name, tile=K_MAJOR.small_tile)
    operand = as_operand(a, "a", 0)
    assert (operand.shape, operand.strides) == ((16, 8), (1, 16))


@pytest.mark.device
@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        (("c",), {}, ValueError, "role is 'c'; it must be 'a' or 'b'"),
        (("a",), {"version": "none"}, ValueError, "unknown version 'none'"),
        (("a",), {"version": 4.0}, TypeError, "must be an int or a str"),
        (("a",), {"tile": (8, 8, 8)}, TypeError, "must be a numba_gemm.Tile"),
        (("a",), {"tile": Tile(8, 6, 4, 4, 2)}, ValueError, "is not a multiple of 4"),
    ],
)
def test_refusals(arguments, options, error, message):
    operand = cuda.to_device(np.ones((4, 4), np.float32))
    with pytest.raises(error, match=message):
        padded(operand, *arguments, **{"version": "vectorized", **options})


@pytest.mark.device
def test_operands_that_cannot_be_padded():
    with pytest.raises(TypeError, match="in host memory"):
        padded(np.ones((4, 4), np.float32), "a", version=4)
    with pytest.raises(ValueError, match=r"b has shape \(2, 4, 4\); a matrix has two dimensions"):
        padded(cuda.to_device(np.ones((2, 4, 4), np.float32)), "b", version=4)


@pytest.mark.device
def test_padding_waits_for_the_producer(monkeypatch):
    waits = []
    monkeypatch.setattr(cuda_api, "wait_for_producer", lambda producer, stream: waits.append((producer, stream)))
    operand = Guarded(np.ones((4, 4)))
    operand.view.__cuda_array_interface__["stream"] = 1
    padded(operand.view, "a", version="vectorized", tile=TILE, stream=0)
    assert waits == [(1, 0)]
