"""What the docstrings of the detours say about machine code, read from it, compiled without a GPU.

All on sm_90; those whose registers or copies depend on the architecture on sm_80 as well. Figures are for the pinned
toolkit, as in test_machine_code.py.
"""

from collections import Counter
from functools import cache
from typing import NamedTuple

import pytest

from numba_gemm.analysis.code import machine_code, sass
from numba_gemm.kernels.detours.layouts import make_kernel_with_layout, rung_4_layout
from numba_gemm.ladder import VERSIONS, find

pytestmark = pytest.mark.machine_code


class Loop(NamedTuple):
    """A main loop: barriers, and how many accesses of which width, in bytes, of each kind."""

    barriers: int
    lds: dict[int, int]
    sts: dict[int, int]
    ldg: dict[int, int]
    ldgsts: dict[int, int]
    #: Least FFMA share, a hundredth under the one that was measured.
    share: float
    #: Most registers a thread.
    registers: int
    #: Most bytes that a thread spills.
    spilled: int = 0


#: On sm_90, for the default tile. 512 FFMA a tile of the register-tiled ones, two copies of 16 bytes a thread.
EXPECTED = {
    "naive_rows": Loop(0, {}, {}, {4: 8}, {}, 0.115, 32),
    "thread_tile_4": Loop(0, {}, {}, {4: 8}, {}, 0.25, 48),
    "thread_tile": Loop(0, {}, {}, {4: 16}, {}, 0.47, 128),
    "padded_rows": Loop(2, {16: 18 + 16}, {4: 8}, {4: 8}, {}, 0.85, 128),
    "untransposed": Loop(2, {16: 32}, {16: 2}, {16: 2}, {}, 0.875, 128, 16),
    "padded_columns": Loop(2, {16: 32}, {4: 4, 16: 1}, {16: 2}, {}, 0.88, 128),
    "split_columns": Loop(2, {16: 32}, {4: 4, 16: 1}, {16: 2}, {}, 0.88, 128),
    "swizzled": Loop(2, {16: 32}, {4: 4, 16: 1}, {16: 2}, {}, 0.88, 128),
    "register_prefetch": Loop(1, {16: 32}, {4: 4, 16: 1}, {16: 2}, {}, 0.84, 128),
    "cp_async_b": Loop(1, {16: 32}, {4: 4}, {16: 1}, {16: 1}, 0.815, 128),
    "cp_async_k_major": Loop(1, {16: 32}, {}, {}, {16: 2}, 0.825, 128),
    "ex7": Loop(2, {16: 128}, {4: 16, 16: 4}, {16: 8}, {}, 0.83, 96),
    "ex8": Loop(2, {16: 32}, {4: 4, 16: 1}, {16: 2}, {}, 0.835, 168),
    "ex9": Loop(1, {16: 32}, {4: 4, 16: 1}, {16: 2}, {}, 0.83, 168),
}
#: Those that store rows of C; lanes beside each other in ex8 and ex9 have single columns beside each other.
VECTOR_STORES = [name for name in EXPECTED if find(name).alignment == 16 and name not in ("ex8", "ex9")]
#: Names for the kernel of another version, in most cases with a tile of their own; read there.
SAME = {
    "naive_16": "naive",
    "ex3": "naive",
    "ex4_bk16": "shared",
    "ex4_bk32": "shared",
    "ex5": "register",
    "ex6": "untransposed",
}
#: Read in test_machine_code.py.
ELSEWHERE = {"cp_async_ptx", "cp_async_intrinsic"}
ON_SM_80 = ["untransposed", "register_prefetch", "cp_async_b"]


class Compiled:
    """A detour's machine code and its main loop."""

    def __init__(self, name, arch):
        version = find(name)
        self.tile = version.default_tile
        self.code = machine_code.compile_version(version, arch)
        self.instructions = sass.parse(self.code.sass)
        self.loop = sass.main_loop(self.instructions)
        self.spilled = max(self.code.spill_store_bytes, self.code.spill_load_bytes, self.code.local_bytes)
        self.report = (
            f"{name} for {arch}, {self.tile}: {self.code.registers} registers, {self.spilled} bytes spilled; main "
            f"loop {self.loop.to_dict()}"
        )

    def widths(self, opcode, everywhere=False):
        """How many accesses of each number of bytes, in the main loop or in the whole kernel."""
        found = sass.select(self.instructions if everywhere else self.loop.body, opcode)
        return dict(Counter(instruction.access_bytes for instruction in found))

    def places(self, opcode):
        """Where instructions stand in the main loop."""
        return [place for place, instruction in enumerate(self.loop.body) if instruction.base == opcode]


@cache
def _compiled(name, arch):
    return Compiled(name, arch)


def compiled(name, arch="sm_90"):
    """Once a session."""
    return _compiled(name, arch)


@pytest.mark.parametrize(("name", "arch"), [(n, "sm_90") for n in EXPECTED] + [(n, "sm_80") for n in ON_SM_80])
def test_the_main_loop(name, arch):
    kernel, expected = compiled(name, arch), EXPECTED[name]
    print(kernel.report)
    assert kernel.loop.barriers == expected.barriers, kernel.report
    for opcode in ("LDS", "STS", "LDG", "LDGSTS"):
        assert kernel.widths(opcode) == getattr(expected, opcode.lower()), f"{opcode} of {kernel.report}"
    assert kernel.loop.ffma_share >= expected.share, kernel.report
    assert kernel.code.registers <= expected.registers, kernel.report
    assert kernel.spilled <= expected.spilled, kernel.report
    if kernel.tile.bk > 1:
        assert kernel.loop.ffma == kernel.tile.bk * kernel.tile.tm * kernel.tile.tn, kernel.report


@pytest.mark.parametrize("name", VECTOR_STORES)
def test_outputs_are_stored_sixteen_bytes_at_a_time(name):
    kernel = compiled(name)
    assert kernel.widths("STG", everywhere=True) == {16: kernel.tile.tm * kernel.tile.tn // 4}, kernel.report


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


@pytest.mark.parametrize("name", SAME)
def test_names_for_the_kernel_of_another_version(name):
    version, other = find(name), find(SAME[name])
    assert version.make_kernel(version.default_tile) is other.make_kernel(version.default_tile)


def test_every_detour_is_read():
    detours = {version.name for version in VERSIONS if ".detours." in version.module.__name__}
    assert detours <= {*EXPECTED, *SAME, *ELSEWHERE}, "a new detour: state what its main loop looks like"
