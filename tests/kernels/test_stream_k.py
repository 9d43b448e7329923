"""Rung 8 and split-K: who does what, that sums are handed on and flags set back, and the same bits in every run."""

import threading
from functools import partial

import numpy as np
import pytest
from numba import cuda
from support.cases import WARP_TILES
from support.checks import assert_close, assert_exact, units, wide_integers
from support.device_words import set_words, words
from support.guarded import bits
from support.products import Product

from numba_gemm import plan, sgemm
from numba_gemm.analysis.models.segments import partial_tiles, segments_of, split_k, stream_k
from numba_gemm.compiler.target import SIMULATOR
from numba_gemm.device.epilogue import Epilogue
from numba_gemm.device.flags import raise_flag, take_flag
from numba_gemm.device.work import EXCHANGE, part_of_block, whole_tiles
from numba_gemm.driver import cuda_api, workspace
from numba_gemm.driver.launch import prepare
from numba_gemm.driver.operands import as_operand
from numba_gemm.driver.streams import stream_handle
from numba_gemm.driver.workspace import Size
from numba_gemm.kernels import v8_stream_k
from numba_gemm.kernels.interface import ALPHA, BETA, Array, Variant
from numba_gemm.kernels.split_k import parts_of
from numba_gemm.ladder import find
from numba_gemm.problem import Problem

STREAM_K, SPLIT_K, ATOMIC = find("stream_k"), find("split_k"), find("split_k_atomic")
SMALL = STREAM_K.small_tile
H200 = 132

# The arithmetic, without a device -------------------------------------------------------------------------


def parts(block, blocks, tiles, whole, segments):
    """What the kernel's own function gives a block, as (tile, first segment, end)."""
    found = []
    while True:
        tile, first, end = part_of_block(*(np.uint32(x) for x in (len(found), block, blocks, tiles, whole, segments)))
        if end == 0:
            return found
        found.append((int(tile), int(first), int(end)))


CASES = pytest.mark.parametrize(
    ("tiles", "segments", "blocks"),
    [
        pytest.param(1, 9, 3, id="one tile for all"),
        pytest.param(5, 6, 4, id="the example of the docstring"),
        pytest.param(3, 7, 7, id="more blocks than tiles, runs within one tile"),
        pytest.param(10, 6, 4, id="a full wave that is not split, and one that is"),
        pytest.param(9, 5, 4, id="runs of unequal length"),
        pytest.param(150, 256, H200, id="18 of 132 blocks in the last wave"),
        pytest.param(512, 256, H200, id="4096³ with the default tile"),
        pytest.param(133, 3, H200, id="one tile more than a wave, but few segments"),
        pytest.param(8, 5, 4, id="full waves only"),
        pytest.param(263, 2**27, H200, id="a line of more than 2³² segments"),
    ],
)


@CASES
def test_the_kernels_arithmetic_is_the_table(tiles, segments, blocks):
    whole = int(whole_tiles(np.uint32(tiles), np.uint32(blocks), np.uint32(segments)))
    assert whole == whole_tiles(tiles, blocks, segments), "the host and the kernel see the same numbers"
    found = {(block, *part) for block in range(blocks) for part in parts(block, blocks, tiles, whole, segments)}
    table = stream_k(tiles - whole, segments, blocks) if whole < tiles else ()
    expected = {(share.block, whole + share.tile, share.first, share.stop) for share in table}
    expected |= {(tile % blocks, tile, 0, segments) for tile in range(whole)}
    assert found == expected


@CASES
def test_blocks_wait_only_for_the_one_before(tiles, segments, blocks):
    whole = int(whole_tiles(tiles, blocks, segments))
    left_by: dict[int, tuple[int, int]] = {}
    for block in range(blocks):
        of_block = parts(block, blocks, tiles, whole, segments)
        for tile, first, _ in of_block:
            if first > 0:
                assert left_by.pop(block - 1) == (tile, first), "what it takes is what the block before has left"
        handed_on = [(tile, end) for tile, _, end in of_block if end < segments]
        assert len(handed_on) <= 1, "a block has one slot and one flag"
        if handed_on:
            # After its whole tiles, a block does what it hands on first, and what it has to wait for last.
            split = [(tile, first) for tile, first, _ in of_block if tile >= whole]
            assert split[0][0] == handed_on[0][0]
            assert all(first == 0 for _, first in split[:-1])
            left_by[block] = handed_on[0]
    assert not left_by, "partial sums that nobody takes"


def test_whole_tiles_by_hand():
    assert whole_tiles(8, 4, 5) == 8  # nothing is left for a partial wave
    assert whole_tiles(9, 4, 100) == 4  # 2 full waves and 1 tile: one wave is kept, 5 tiles are split
    assert whole_tiles(5, 4, 100) == 0
    assert whole_tiles(3, 4, 100) == 0
    # 3 of 4 blocks busy with S segments: splitting saves S/4 of them.
    assert whole_tiles(3, 4, 4 * EXCHANGE) == 0
    assert whole_tiles(3, 4, 4 * EXCHANGE - 1) == 3


def test_with_two_waves_a_tile_has_two_parts_at_most():
    for tiles in range(H200, 3 * H200):
        whole = int(whole_tiles(tiles, H200, 40))
        counts: dict[int, int] = {}
        for share in stream_k(tiles - whole, 40, H200) if whole < tiles else ():
            counts[share.tile] = counts.get(share.tile, 0) + 1
        assert max(counts.values(), default=0) <= 2


@pytest.mark.parametrize("tile", [SMALL, STREAM_K.default_tile, *WARP_TILES], ids=str)
@pytest.mark.parametrize("multiprocessors", [1, 3, H200])
def test_grids_and_workspaces(tile, multiprocessors):
    resident = multiprocessors * v8_stream_k.resident_blocks(tile)
    for m, n, k, batch in [
        *((1, 1, 0, 1), (1, 1, 100, 1), (tile.bm, tile.bn, 1000 * tile.bk, 1), (3 * tile.bm, 5 * tile.bn, 9, 7)),
        (tile.bm * 11, tile.bn * 13, 30 * tile.bk, 1),
    ]:
        arguments = (tile, Variant(), Problem.contiguous(m, n, k, batch), multiprocessors)
        tiles = batch * -(-m // tile.bm) * -(-n // tile.bn)
        segments = max(1, segments_of(k, tile.bk))

        launches = STREAM_K.launches(*arguments)
        config = launches.main.config
        (blocks, *_), whole = config.grid, int(whole_tiles(tiles, config.grid[0], segments))
        assert config.grid == (blocks, 1, 1)
        assert config.block == (tile.threads, 1)
        assert 1 <= blocks <= min(resident, tiles * segments)
        split = stream_k(tiles - whole, segments, blocks) if whole < tiles else ()
        lengths = {part.name: part.length for part in launches.workspace}
        assert lengths == ({"sums": blocks * tile.bm * tile.bn, "flags": blocks} if partial_tiles(split) else {})

        launches = SPLIT_K.launches(*arguments)
        config, count = launches.main.config, parts_of(tile, arguments[2], multiprocessors)
        assert config.grid == (tiles // batch, count, batch)
        assert 1 <= count <= segments
        assert count == 1 or tiles * count <= resident
        slots = len(split_k(tiles, segments, count)) if count > 1 else 0
        lengths = {part.name: part.length for part in launches.workspace}
        assert lengths == ({"sums": slots * tile.bm * tile.bn} if slots else {})
        assert len(launches.steps) == (2 if count > 1 else 1)


def test_a_small_c_uses_the_whole_device():
    tile = STREAM_K.default_tile
    m, n, k = 3 * tile.bm, 5 * tile.bn, 1 << 16
    assert STREAM_K.launches(tile, Variant(), Problem.contiguous(m, n, k), H200).main.config.grid == (H200, 1, 1)
    tile = SPLIT_K.default_tile
    problem = Problem.contiguous(3 * tile.bm, 5 * tile.bn, k)
    assert SPLIT_K.launches(tile, Variant(), problem, H200).main.config.grid == (15, 2 * H200 // 15, 1)


# Products -------------------------------------------------------------------------------------------------


@pytest.fixture(params=[3, 5], ids="{} blocks".format)
def blocks(request, monkeypatch):
    """As many blocks at a time as the parameter says, whatever the device."""
    monkeypatch.setattr(cuda_api, "multiprocessors", lambda _device: request.param)
    monkeypatch.setattr(v8_stream_k, "resident_blocks", lambda _tile: 1)
    return request.param


#: With SMALL: 8 tiles of 7 segments, the first of them odd, and 7 matrices of one tile. Of 3 blocks, each does a whole
#: tile first.
PRODUCTS = [
    Product(SMALL.bm + 1, 3 * SMALL.bn + 1, 6 * SMALL.bk + 3, alpha=2, beta=-0.5, bias=1, activation="relu"),
    Product(SMALL.bm - 1, SMALL.bn, 6 * SMALL.bk, batch=7, trans_a=True, trans_b=True),
]


@pytest.mark.simulator
@pytest.mark.parametrize("product", PRODUCTS, ids=["everything", "batch"])
def test_few_blocks_for_many_tiles(product, blocks, rng):
    problem = Problem.contiguous(product.m, product.n, product.k, product.batch)
    launches = STREAM_K.launches(SMALL, Variant(), problem, blocks)
    lengths = {part.name: part.length for part in launches.workspace}
    assert lengths["flags"] == blocks, "this shape does not split anything"
    product.check(STREAM_K, SMALL, rng)


@pytest.mark.device
@pytest.mark.parametrize("version", [STREAM_K, SPLIT_K, ATOMIC], ids=str)
def test_flags_are_zero_after_a_launch(version, rng):
    m, n, k = SMALL.bm, SMALL.bn, 17 * SMALL.bk + 1
    p = plan(m, n, k, version=version.name, tile=SMALL)
    assert np.prod(p.grid) > 1, "this shape does not split anything"
    a, b = wide_integers(rng, m, k), units(rng, k, n)
    device_a, device_b = cuda.to_device(a), cuda.to_device(b)
    for _ in range(2):
        c = cuda.to_device(np.full((m, n), np.nan, np.float32))
        p(device_a, device_b, c)
        assert_exact(c.copy_to_host(), a, b)
    workspaces = p._products.workspaces
    for size, place in workspaces._kept.values():
        assert not words(place.zeroed, size.zeroed // 4).any()
    assert len(workspaces) == (0 if version is ATOMIC else 1)


@pytest.mark.simulator
def test_waiting_for_nobody_is_an_error_in_the_simulator():
    @cuda.jit
    def wait(flags):
        take_flag(flags, 0, cuda.threadIdx.x)

    with pytest.raises(RuntimeError, match="flag 0, which none of the blocks before it has raised"):
        wait[1, 1](np.zeros(1, np.uint32))


# On a GPU: time is real there -------------------------------------------------------------------------------


if not SIMULATOR:

    @cuda.jit(device=True)
    def _pause(flags, block):
        """As long as the second half of the flags says, in nanoseconds: a block of its own, and what is said there."""
        if cuda.threadIdx.x == 0:
            cuda.nanosleep(flags[flags.size // 2 + block])
        cuda.syncthreads()

    @cuda.jit(device=True)
    def _late_to_take(flags, index, thread):
        _pause(flags, index + np.uint32(1))
        take_flag(flags, index, thread)

    @cuda.jit(device=True)
    def _late_to_raise(flags, index, thread):
        _pause(flags, index)
        raise_flag(flags, index, thread)


@cuda.jit
def _count_differences(a, b, count):
    i = cuda.grid(1)
    if i < a.size and a[i] != b[i]:
        cuda.atomic.add(count, 0, 1)


def differences(a, b):
    """How many words of two device arrays differ."""
    count = cuda.to_device(np.zeros(1, np.int32))
    flat = [array.view(np.uint32).reshape(array.size) for array in (a, b)]
    _count_differences[-(-a.size // 256), 256](*flat, count)
    return int(count.copy_to_host()[0])


def on_device(*arrays):
    return [cuda.to_device(array) for array in arrays]


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("m", "n", "k", "runs"),
    [
        (1100, 1300, 1000, 2000),  # on an H200, 54 tiles for 132 blocks: in parts of all lengths
        (128, 256, 20000, 2000),  # 1 tile of 25 parts, handed on from block to block
        (2600, 2600, 700, 300),  # 231 tiles: all in two parts
        (3900, 3900, 520, 300),  # 496 tiles: two waves of whole ones before that
    ],
)
def test_delays_change_no_bit(m, n, k, runs, rng, monkeypatch):
    """Blocks are held up at random, before they take a flag and before they raise one."""
    tile, multiprocessors = STREAM_K.default_tile, cuda_api.multiprocessors(0)
    host_a, host_b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    a, b = on_device(host_a, host_b)
    first = sgemm(a, b, version="stream_k")
    assert_close(first.copy_to_host(), host_a, host_b)

    c = cuda.to_device(np.full((m, n), np.nan, np.float32))
    operands = [as_operand(array, name, 0) for array, name in ((a, "a"), (b, "b"), (c, "c"))]
    problem = Problem.of(*operands)
    variant = Variant.of(problem, tile, Epilogue())
    launches = STREAM_K.launches(tile, variant, problem, multiprocessors)
    step, blocks = launches.main, launches.main.config.grid[0]
    sums, flags = launches.workspace
    assert flags.length == blocks, "this shape does not split anything"
    parts = (sums, flags._replace(length=2 * blocks))  # as many again, which say how long each block waits
    monkeypatch.setattr(v8_stream_k, "take_flag", _late_to_take)
    monkeypatch.setattr(v8_stream_k, "raise_flag", _late_to_raise)
    kernel = step.kernel._replace(make=v8_stream_k.make_kernel.__wrapped__, cacheable=False)
    arguments = tuple(
        argument._replace(shape=(2 * blocks,))
        if isinstance(argument, Array) and argument.place == "flags"
        else argument
        for argument in step.arguments
    )
    launch = prepare(step._replace(kernel=kernel, arguments=arguments))
    place = workspace.allocate(Size.of(parts), 0)
    places = {operand.name: operand.pointer for operand in operands} | place.places(parts)
    for name, address in places.items():
        launch.set_place(name, address)
    launch.set_scalar(ALPHA, 1.0)
    launch.set_scalar(BETA, 0.0)
    for _ in range(runs):
        # Mostly none or short, sometimes longer than a tile takes.
        longest = int(rng.choice([0, 1_000, 30_000, 500_000], p=[0.3, 0.3, 0.3, 0.1]))
        delays = rng.integers(0, longest + 1, blocks) * (rng.random(blocks) < rng.choice([0.05, 0.5, 1]))
        set_words(place.zeroed + 4 * blocks, delays)
        launch()
        assert differences(first, c) == 0
    assert words(place.zeroed, blocks).sum() == 0


@pytest.mark.gpu
@pytest.mark.parametrize("version", ["stream_k", "split_k"])
def test_streams_and_threads_at_the_same_time(version, rng):
    m, n, k = 700, 900, 2000
    a, b = on_device(rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32))
    first = sgemm(a, b, version=version)
    p = plan(m, n, k, version=version)
    cuda.synchronize()
    results, failures = [], []

    def work(call):
        streams = [cuda.stream() for _ in range(3)]
        mine = [cuda.device_array((m, n), np.float32) for _ in range(30)]
        for index, c in enumerate(mine):
            call(a, b, c, stream=streams[index % 3])
        cuda.synchronize()
        results.extend(mine)

    def guarded(call):
        try:
            work(call)
        except Exception as error:
            failures.append(error)

    calls = [p, *[partial(sgemm, version=version)] * 3]
    threads = [threading.Thread(target=guarded, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(results) == 120
    assert [differences(first, c) for c in results] == [0] * 120


@pytest.mark.gpu
@pytest.mark.parametrize("version", ["stream_k", "split_k"])
def test_a_graph_shares_no_memory_with_calls(version, rng):
    cu, checked = cuda_api.cu, cuda_api.checked
    m, n, k = 700, 900, 2000
    a, b = on_device(rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32))
    p = plan(m, n, k, version=version)
    first, of_graph, of_call = (cuda.to_device(np.full((m, n), np.nan, np.float32)) for _ in range(3))
    captured, other = cuda.stream(), cuda.stream()
    p(a, b, first, stream=captured)
    cuda.synchronize()
    handle = stream_handle(captured)
    checked(
        "begin",
        cu.cuStreamBeginCapture(handle, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL),
    )
    p(a, b, of_graph, stream=captured)
    p(a, b, of_graph, stream=captured)
    graph = checked("end", cu.cuStreamEndCapture(handle))
    executable = checked("instantiate", cu.cuGraphInstantiate(graph, 0))
    assert len(p._products.workspaces) == 1, "a captured call keeps no memory of its own"
    for _ in range(20):  # on another stream than where calls go on, at the same time
        checked("launch", cu.cuGraphLaunch(executable, stream_handle(other)))
        p(a, b, of_call, stream=captured)
    cuda.synchronize()
    assert differences(first, of_graph) == 0
    assert differences(first, of_call) == 0
    cu.cuGraphExecDestroy(executable)
    cu.cuGraphDestroy(graph)


@pytest.mark.gpu
def test_atomic_additions_change_from_run_to_run(rng):
    """And those of split_k and stream_k do not, for the same product."""
    m, n, k, runs = 128, 256, 1 << 16, 200
    host_a, host_b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    a, b = on_device(host_a, host_b)
    c = cuda.to_device(np.full((m, n), np.nan, np.float32))
    distinct = {}
    for version in ("stream_k", "split_k", "split_k_atomic"):
        seen = set()
        for _ in range(runs):
            sgemm(a, b, c, version=version)
            seen.add(bits(c.copy_to_host()).tobytes())
        assert_close(c.copy_to_host(), host_a, host_b)
        distinct[version] = len(seen)
    print(f"different results in {runs} runs: {distinct}")
    assert distinct["stream_k"] == distinct["split_k"] == 1
    assert distinct["split_k_atomic"] > 1
