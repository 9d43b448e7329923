"""Rung 7 in machine code: what its speed rests on in every layout, and what an epilogue adds."""

import math

import pytest
from support.compiled import compiled
from support.expectations import SMALLEST_WARP_TILED

from numba_gemm.analysis.code import sass
from numba_gemm.analysis.code.machine_code import ARCHITECTURES
from numba_gemm.device.activation import LONG
from numba_gemm.device.epilogue import Epilogue, snapshot
from numba_gemm.kernels.interface import Variant
from numba_gemm.ladder import find

pytestmark = pytest.mark.machine_code

#: Instructions that an activation may add for each output, the call and a share of its code.
MOST_ADDED = 5
#: The four layouts of BLAS, by whether lines of A and of B run along k.
LAYOUTS = {"NN": (True, False), "NT": (True, True), "TN": (False, False), "TT": (False, True)}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_register_bank_conflicts_on_hopper(layout):
    along_a, along_b = LAYOUTS[layout]
    kernel = compiled("warp_tiled", variant=Variant(a_along_k=along_a, b_along_k=along_b))
    loop, report = kernel.loop, kernel.report
    print(report)
    assert loop.ffma_share >= 0.90, report
    assert loop.bank_triples == 0, report
    assert loop.operand_fetches_per_ffma <= 2.15, report
    assert kernel.spilled == 0, report


@pytest.mark.parametrize(
    ("activation", "tile"),
    [*((activation, SMALLEST_WARP_TILED) for activation in sorted(LONG)), ("gelu", find("warp_tiled").default_tile)],
    ids=str,
)
def test_activations_are_called_and_change_nothing_else(activation, tile):
    """One copy of the code, in a straight line, for four outputs; as many blocks fit as without; the same main loop."""
    plain = compiled("warp_tiled", tile=tile)
    kernel = compiled("warp_tiled", tile=tile, variant=Variant(epilogue=Epilogue(activation=activation)))
    without, with_it = plain.outside_the_loop(), kernel.outside_the_loop()
    outputs = 2 * tile.tm * tile.tn  # they are stored twice, for beta = 0 and for others
    added = (len(with_it) - len(without)) / outputs
    report = f"{activation}, {tile}: {added:.2f} instructions more an output; {kernel.report}"
    print(report)

    def more(opcode):
        return sass.count(with_it, opcode) - sass.count(without, opcode)

    assert more("CALL") == outputs / 4, report
    assert more("MUFU") == 2 * 4, report  # exp and a reciprocal
    assert more("BSSY") == 0, report
    assert added <= MOST_ADDED, report
    assert kernel.spilled == 0, report
    blocks, plain_blocks = (65536 // (each.code.registers * tile.threads) for each in (kernel, plain))
    assert blocks == plain_blocks, report
    assert kernel.loop.mix == plain.loop.mix, report


def opcodes_of_the_loop(kernel):
    return [instruction.opcode for instruction in kernel.loop.body]


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_an_activation_leaves_the_main_loop_as_it_is(arch):
    """Instruction for instruction, but for the names of registers; inlined, the order was another one."""
    plain = compiled("warp_tiled", arch)
    kernel = compiled("warp_tiled", arch, variant=Variant(epilogue=Epilogue(activation="gelu")))
    assert opcodes_of_the_loop(kernel) == opcodes_of_the_loop(plain)


@pytest.mark.parametrize(
    ("function", "calls"),
    [(lambda x: x * math.tanh(math.log1p(math.exp(x))), 2 * 128 // 4), (lambda x: 2 * x, 0)],
    ids=["long", "short"],
)
def test_a_long_function_of_a_user_is_called(function, calls):
    plain = compiled("warp_tiled")
    key, copy = snapshot(function)
    kernel = compiled("warp_tiled", variant=Variant(epilogue=Epilogue(key=key, function=copy)))
    assert sass.count(kernel.instructions, "CALL") == calls
    assert kernel.spilled == 0
    assert len(kernel.instructions) <= 1.1 * len(plain.instructions)
    assert opcodes_of_the_loop(kernel) == opcodes_of_the_loop(plain)
