"""What the docstrings of the detours say about machine code beside its figures, which test_machine_code.py reads."""

import pytest
from support.compiled import compiled

from numba_gemm.analysis.code import machine_code, sass
from numba_gemm.kernels.detours.layouts import make_kernel_with_layout, rung_4_layout
from numba_gemm.ladder import find

pytestmark = pytest.mark.machine_code


def test_the_layouts_leave_rung_4_as_it_is():
    """With its own layout, instruction by instruction: what the detours differ in is the layout alone."""
    rung = find("vectorized")
    tile = rung.default_tile
    kernels = (rung.make_kernel(tile), make_kernel_with_layout(tile, rung_4_layout(tile)))
    listings = [
        [
            (each.predicate, each.opcode, each.operands, each.target)
            for each in sass.parse(machine_code.compile_kernel(kernel, rung.signature, "sm_90").sass)
        ]
        for kernel in kernels
    ]
    assert listings[0] == listings[1]


def test_a_swizzle_costs_the_main_loop_nothing():
    """Row 18 has it pay with address arithmetic: that is done before the loop."""
    assert compiled("swizzled").loop.mix == compiled("split_columns").loop.mix


def test_a_thread_tile_loads_less_for_each_multiply_add():
    """§5, claim 2: 8 loads for 16 FFMA, 16 for 64."""
    for name, loads in (("thread_tile_4", 8 / 16), ("thread_tile", 16 / 64)):
        assert compiled(name).loop.per_ffma("LDG") == loads, compiled(name).report


@pytest.mark.parametrize(("name", "source"), [("thread_tile_4", 39), ("thread_tile", 114)])
def test_registers_of_thread_tiles_are_near_those_of_the_source(name, source):
    """§5, claim 3. The source's compiler is another one, so within a quarter."""
    kernel = compiled(name)
    print(f"{kernel.code.registers} registers, {source} in the source")
    assert abs(kernel.code.registers / source - 1) < 0.25, kernel.report


@pytest.mark.parametrize("name", ["register_prefetch", "cp_async_b", "ex8", "ex9"])
def test_loads_set_off_before_the_arithmetic_and_are_stored_after_it(name):
    kernel = compiled(name)
    loads, stores = kernel.places("LDG"), kernel.places("STS")
    ffma = kernel.places("FFMA")
    before = sum(place < min(stores) for place in ffma)
    after = sum(place > max(loads) for place in ffma)
    assert min(before, after) >= 0.8 * len(ffma), f"{before} and {after} of {len(ffma)} FFMA; {kernel.report}"


@pytest.mark.parametrize("name", ["cp_async_b", "cp_async_k_major"])
def test_copies_pass_the_l1_and_waits_are_as_deep_as_the_ring(name):
    kernel = compiled(name)
    assert sass.select(kernel.loop.body, "LDGSTS.BYPASS.128"), kernel.report
    waits = [each.operands for each in sass.select(kernel.loop.body, "DEPBAR.LE")]
    assert waits == [("SB0", f"{kernel.tile.stages - 2:#x}")], f"{waits} in {kernel.report}"
    order = [each.base for each in kernel.loop.body if each.base in ("DEPBAR", "BAR", "LDGSTS")]
    assert order[:3] == ["DEPBAR", "BAR", "LDGSTS"], f"{order} in {kernel.report}"
