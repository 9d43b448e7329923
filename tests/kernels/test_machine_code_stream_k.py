"""Rung 8 and split-K in machine code: the main loop is rung 7's; what is around it, and what follows."""

from functools import cache

import pytest
from kernels.test_machine_code_warp_tiled import FFMA_SHARE, SHARE_OF_SMALLER_TILES

from numba_gemm.analysis.code import machine_code, sass
from numba_gemm.kernels import reduce
from numba_gemm.kernels.interface import Variant
from numba_gemm.ladder import find

pytestmark = pytest.mark.machine_code

STREAM_K, SPLIT_K, ATOMIC = (find(name) for name in ("stream_k", "split_k", "split_k_atomic"))
VARIANTS = {"whole": Variant(), "edges": Variant(whole=False), "unaligned": Variant(whole=False, vector=False)}
#: FFMA share of rung 7's main loop with split-K's tile on sm_90, as measured.
SHARE_OF_RUNG_7 = {"whole": SHARE_OF_SMALLER_TILES[SPLIT_K.default_tile], "edges": 0.886, "unaligned": 0.874}


@cache
def compiled(version, arch, variant=None):
    code = machine_code.compile_version(version, arch, variant=variant)
    instructions = sass.parse(code.sass)
    return code, instructions, sass.main_loop(instructions)


def assert_as_good_as_rung_7(version, arch, variant=None, share=None):
    """No spills, and rung 7's main loop, by the same measures as in its own test; `share` is of FFMA with its tile."""
    tile = version.default_tile
    code, _, loop = compiled(version, arch, variant)
    report = (
        f"{version} on {arch}: {code.registers} registers, {code.spill_store_bytes} bytes spilled, "
        f"{code.local_bytes} local; main loop {loop.to_dict()}"
    )
    print(report)
    assert max(code.spill_store_bytes, code.spill_load_bytes, code.local_bytes) == 0, report
    assert loop.ffma == tile.bk * tile.tm * tile.tn, report
    assert loop.barriers == 1, report
    assert loop.ffma_share >= (share or (FFMA_SHARE[arch] if variant is None else 0.91)) - 0.01, report
    assert loop.bank_triples <= 8, report
    assert len(sass.select(loop.body, "LDS.128")) == (tile.tm + tile.tn) // 4 * tile.bk, report


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_the_main_loop_of_stream_k(arch):
    assert_as_good_as_rung_7(STREAM_K, arch)


def test_edges_of_stream_k():
    assert_as_good_as_rung_7(STREAM_K, "sm_90", Variant(whole=False))


@pytest.mark.parametrize(
    ("version", "edges"), [(SPLIT_K, "whole"), (SPLIT_K, "edges"), (SPLIT_K, "unaligned"), (ATOMIC, "whole")], ids=str
)
def test_the_main_loop_of_split_k(version, edges):
    variant = VARIANTS[edges]
    assert_as_good_as_rung_7(version, "sm_90", variant, SHARE_OF_RUNG_7[edges])
    code, _, _ = compiled(version, "sm_90", variant)
    assert code.registers <= 128, "two blocks of 256 threads a multiprocessor"


@pytest.mark.parametrize("edges", VARIANTS)
def test_the_reduce_kernel_has_many_loads_under_way(edges):
    code = machine_code.compile_kernel(
        reduce.make_kernel(SPLIT_K.default_tile, VARIANTS[edges]), reduce.SIGNATURE, "sm_90"
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
    tile = STREAM_K.default_tile
    _, instructions, _ = compiled(STREAM_K, "sm_90")
    fours = tile.tm * tile.tn // 4
    # C is read where beta is not 0, and written where it is and where it is not.
    assert len(sass.select(instructions, "LDG.E.128")) == fours + fours
    assert len(sass.select(instructions, "STG.E.128")) == 2 * fours + fours
    assert not [i for i in instructions if i.opcode.startswith("LDG") and "CONSTANT" in i.opcode]


def test_flags_are_written_after_a_fence_and_read_before_one():
    _, instructions, _ = compiled(STREAM_K, "sm_90")
    names = [i.opcode for i in instructions]
    atomics = [at for at, name in enumerate(names) if name.startswith(("ATOMG", "ATOM.", "RED"))]
    assert any("CAS" in names[at] for at in atomics), "the flag is taken by compare and swap"
    fences = [at for at, name in enumerate(names) if name.startswith("MEMBAR") and name.endswith("GPU")]
    assert fences, "no fence at the scope of the device"
    assert any(name.startswith("CCTL.IVALL") for name in names), "the L1 is not emptied"


def test_only_the_atomic_version_adds_floats_atomically():
    for version in (STREAM_K, SPLIT_K, ATOMIC):
        _, instructions, _ = compiled(version, "sm_90")
        adds = [i.opcode for i in instructions if i.opcode.startswith(("RED", "ATOM")) and "F32" in i.opcode]
        assert bool(adds) == (version is ATOMIC), f"{version}: {adds[:3]}"
