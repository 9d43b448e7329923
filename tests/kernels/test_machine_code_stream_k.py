"""Rung 8 and split-K in machine code: what is around the main loop, which is rung 7's, and what follows."""

import pytest
from support.compiled import compiled
from support.expectations import VARIANTS

from numba_gemm.analysis.code import machine_code, sass
from numba_gemm.kernels import reduce
from numba_gemm.kernels.interface import Variant
from numba_gemm.ladder import find

pytestmark = pytest.mark.machine_code

SPLIT_K = find("split_k")
#: The variants of the reduce kernel.
REDUCED = {"whole": Variant(), **VARIANTS}


@pytest.mark.parametrize("edges", REDUCED)
def test_the_reduce_kernel_has_many_loads_under_way(edges):
    code = machine_code.compile_kernel(
        reduce.make_kernel(SPLIT_K.default_tile, REDUCED[edges]), reduce.SIGNATURE, "sm_90"
    )
    instructions = sass.parse(code.sass)
    report = f"{edges}: {code.registers} registers, {code.spill_store_bytes} bytes spilled, {code.local_bytes} local"
    print(report)
    assert max(code.spill_store_bytes, code.spill_load_bytes, code.local_bytes) == 0, report
    assert code.registers <= 64, report
    names = [instruction.opcode for instruction in instructions]
    before_additions = names[: names.index("FADD")]
    assert sum(name.startswith("LDG.E.128") for name in before_additions) == reduce.LOADS
    assert not [name for name in names if name.startswith(("ATOM", "RED", "MEMBAR"))], "nobody waits or counts"


def test_partial_sums_move_by_16_bytes_and_are_read_from_memory():
    """And never by way of the cache for constants, which no fence empties."""
    kernel = compiled("stream_k")
    instructions = kernel.instructions
    fours = kernel.tile.tm * kernel.tile.tn // 4
    # C is read where beta is not 0, and written where it is and where it is not.
    assert len(sass.select(instructions, "LDG.E.128")) == fours + fours
    assert len(sass.select(instructions, "STG.E.128")) == 2 * fours + fours
    assert not [i for i in instructions if i.opcode.startswith("LDG") and "CONSTANT" in i.opcode]


def test_flags_are_written_after_a_fence_and_read_before_one():
    names = [i.opcode for i in compiled("stream_k").instructions]
    atomics = [at for at, name in enumerate(names) if name.startswith(("ATOMG", "ATOM.", "RED"))]
    assert any("CAS" in names[at] for at in atomics), "the flag is taken by compare and swap"
    fences = [at for at, name in enumerate(names) if name.startswith("MEMBAR") and name.endswith("GPU")]
    assert fences, "no fence at the scope of the device"
    assert any(name.startswith("CCTL.IVALL") for name in names), "the L1 is not emptied"


def test_only_the_atomic_version_adds_floats_atomically():
    for name in ("stream_k", "split_k", "split_k_atomic"):
        instructions = compiled(name).instructions
        adds = [i.opcode for i in instructions if i.opcode.startswith(("RED", "ATOM")) and "F32" in i.opcode]
        assert bool(adds) == (name == "split_k_atomic"), f"{name}: {adds[:3]}"
