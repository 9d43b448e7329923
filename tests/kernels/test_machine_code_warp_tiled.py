"""Rung 7 in machine code: what its speed rests on, compiled for each architecture without a GPU."""

import math
from functools import cache

import pytest

from numba_gemm import Tile
from numba_gemm.analysis.code import machine_code, sass
from numba_gemm.analysis.code.machine_code import ARCHITECTURES
from numba_gemm.device.activation import LONG
from numba_gemm.device.epilogue import Epilogue, snapshot
from numba_gemm.kernels.interface import Variant
from numba_gemm.ladder import find

pytestmark = pytest.mark.machine_code

WARP_TILED = find("warp_tiled")
#: FFMA share of the main loop as measured; a test allows a hundredth less.
FFMA_SHARE = {"sm_80": 0.928, "sm_86": 0.928, "sm_89": 0.928, "sm_90": 0.927, "sm_100": 0.930, "sm_120": 0.934}
#: The same on sm_90 for tiles of fewer outputs a thread; the first is split-K's.
SMALLEST = Tile(64, 64, 16, 8, 8, 2, 32, 64)
SHARE_OF_SMALLER_TILES = {Tile(128, 128, 16, 8, 8, 2, 64, 32): 0.893, SMALLEST: 0.881}
#: Instructions that an activation may add for each output, the call and a share of its code.
MOST_ADDED = 5
#: The four layouts of BLAS, by whether lines of A and of B run along k.
LAYOUTS = {"NN": (True, False), "NT": (True, True), "TN": (False, False), "TT": (False, True)}


@cache
def compiled(arch, tile=WARP_TILED.default_tile, variant=None):
    return machine_code.compile_version(WARP_TILED, arch, tile, variant)


def described(code):
    loop = sass.main_loop(sass.parse(code.sass))
    return loop, (
        f"{code.arch}: {code.registers} registers, {code.spill_store_bytes} bytes spilled, {code.local_bytes} local; "
        f"main loop {loop.to_dict()}"
    )


def spills(code):
    return max(code.spill_store_bytes, code.spill_load_bytes, code.local_bytes)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_default_tile(arch):
    tile = WARP_TILED.default_tile
    code = compiled(arch)
    loop, report = described(code)
    print(report)
    assert code.registers <= 255, report
    assert spills(code) == 0, report
    assert loop.ffma == tile.bk * tile.tm * tile.tn, report
    assert loop.barriers == 1, report
    assert loop.ffma_share >= FFMA_SHARE[arch] - 0.01, report
    assert len(sass.select(loop.body, "LDS.128")) == (tile.tm + tile.tn) // 4 * tile.bk, report
    assert not sass.select(loop.body, "STS"), report


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_register_bank_conflicts_on_hopper(layout):
    along_a, along_b = LAYOUTS[layout]
    code = compiled("sm_90", variant=Variant(a_along_k=along_a, b_along_k=along_b))
    loop, report = described(code)
    print(report)
    assert loop.ffma_share >= 0.90, report
    assert loop.bank_triples == 0, report
    assert loop.operand_fetches_per_ffma <= 2.15, report
    assert spills(code) == 0, report


@pytest.mark.parametrize("vector", [True, False])
def test_edges_spill_nothing(vector):
    code = compiled("sm_90", variant=Variant(vector=vector, whole=False))
    loop, report = described(code)
    print(report)
    assert spills(code) == 0, report
    assert loop.ffma_share >= 0.90, report


@pytest.mark.parametrize("tile", SHARE_OF_SMALLER_TILES, ids=str)
def test_smaller_tiles(tile):
    code = compiled("sm_90", tile)
    loop, report = described(code)
    print(report)
    assert loop.ffma == tile.bk * tile.tm * tile.tn, report
    assert loop.ffma_share >= SHARE_OF_SMALLER_TILES[tile] - 0.01, report
    assert spills(code) == 0, report


def outside_the_loop(code):
    instructions = sass.parse(code.sass)
    loop = sass.main_loop(instructions)
    return [i for i in instructions if not loop.start <= i.address <= loop.end]


@pytest.mark.parametrize(
    ("activation", "tile"),
    [*((activation, SMALLEST) for activation in sorted(LONG)), ("gelu", WARP_TILED.default_tile)],
    ids=str,
)
def test_activations_are_called_and_change_nothing_else(activation, tile):
    """One copy of the code, in a straight line, for four outputs; as many blocks fit as without; the same main loop."""
    plain = compiled("sm_90", tile)
    code = compiled("sm_90", tile, Variant(epilogue=Epilogue(activation=activation)))
    loop, report = described(code)
    without, with_it = outside_the_loop(plain), outside_the_loop(code)
    outputs = 2 * tile.tm * tile.tn  # they are stored twice, for beta = 0 and for others
    added = (len(with_it) - len(without)) / outputs
    report = f"{activation}, {tile}: {added:.2f} instructions more an output; {report}"
    print(report)

    def more(opcode):
        return sass.count(with_it, opcode) - sass.count(without, opcode)

    assert more("CALL") == outputs / 4, report
    assert more("MUFU") == 2 * 4, report  # exp and a reciprocal
    assert more("BSSY") == 0, report
    assert added <= MOST_ADDED, report
    assert spills(code) == 0, report
    assert 65536 // (code.registers * tile.threads) == 65536 // (plain.registers * tile.threads), report
    assert loop.mix == described(plain)[0].mix, report


def opcodes_of_the_loop(code):
    return [instruction.opcode for instruction in described(code)[0].body]


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_an_activation_leaves_the_main_loop_as_it_is(arch):
    """Instruction for instruction, but for the names of registers; inlined, the order was another one."""
    plain = compiled(arch, WARP_TILED.default_tile)
    code = compiled(arch, WARP_TILED.default_tile, Variant(epilogue=Epilogue(activation="gelu")))
    assert opcodes_of_the_loop(code) == opcodes_of_the_loop(plain)


@pytest.mark.parametrize(
    ("function", "calls"),
    [(lambda x: x * math.tanh(math.log1p(math.exp(x))), 2 * 128 // 4), (lambda x: 2 * x, 0)],
    ids=["long", "short"],
)
def test_a_long_function_of_a_user_is_called(function, calls):
    plain = compiled("sm_90", WARP_TILED.default_tile)
    key, copy = snapshot(function)
    code = compiled("sm_90", WARP_TILED.default_tile, Variant(epilogue=Epilogue(key=key, function=copy)))
    instructions = sass.parse(code.sass)
    assert sass.count(instructions, "CALL") == calls
    assert spills(code) == 0
    assert len(instructions) <= 1.1 * len(sass.parse(plain.sass))
    assert opcodes_of_the_loop(code) == opcodes_of_the_loop(plain)
