"""Contracts on the machine code of every rung, compiled for each architecture without a GPU.

What a kernel's docstring claims about its instructions is read here from the disassembly. Counts follow
from the tile; register counts, spills and FFMA shares are those of the pinned toolkit (`toolchain13` in
pyproject.toml), and the first test says so when another one is installed.
"""

import importlib.metadata
import tomllib
from functools import cache, cached_property
from pathlib import Path

import pytest
from cuda.pathfinder import load_nvidia_dynamic_lib
from kernels.test_machine_code_detours import EXPECTED, SAME

from numba_gemm.analysis.code import machine_code, sass
from numba_gemm.analysis.code.machine_code import ARCHITECTURES
from numba_gemm.ladder import VERSIONS, find
from numba_gemm.tile import Tile

pytestmark = pytest.mark.machine_code

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
#: The libraries that make machine code, and the packages they come from.
COMPILERS = {"nvJitLink": "nvidia-nvjitlink", "nvvm": "nvidia-nvvm", "nvrtc": "nvidia-cuda-nvrtc"}

BLACKWELL = ("sm_100", "sm_120")
REGISTER_TILED = ["register", "vectorized", "cp_async", "cp_async_ptx", "cp_async_intrinsic", "boundary"]
INLINED_PIPELINES = ["cp_async", "cp_async_intrinsic"]
BARRIERS = {
    "naive": 0,
    "shared": 2,
    "register": 2,
    "vectorized": 2,
    "cp_async": 1,
    "cp_async_intrinsic": 1,
    "boundary": 1,
}

#: Most bytes a thread that a kernel may spill; one that is not listed must not spill at all.
SPILL_BOUND = {
    # Linked: code that is inlined so late may cost a little. With the pinned toolkit it costs nothing.
    **{("cp_async", arch): 32 for arch in ARCHITECTURES},
}
#: The same for rung 5 on sm_90 at BK = 16, which spills 36 to 52 bytes; at BK = 8 and 32 it spills nothing.
SPILL_BOUND_BK16 = 56

#: FFMA share of the main loop as measured, in the order of `ARCHITECTURES`; a test allows SHARE_MARGIN less.
FFMA_SHARE = {
    "naive": (0.133, 0.129, 0.129, 0.125, 0.167, 0.222),
    "shared": (0.348, 0.356, 0.356, 0.352, 0.344, 0.372),
    "register": (0.862, 0.862, 0.862, 0.863, 0.819, 0.822),
    "vectorized": (0.890, 0.890, 0.890, 0.892, 0.903, 0.903),
    "cp_async": (0.839, 0.839, 0.839, 0.830, 0.855, 0.875),
    "cp_async_ptx": (0.760, 0.760, 0.760, 0.740, 0.719, 0.776),
    "cp_async_intrinsic": (0.839, 0.839, 0.839, 0.830, 0.850, 0.871),
    "boundary": (0.849, 0.849, 0.849, 0.848, 0.863, 0.869),
}
SHARE_MARGIN = 0.01
NAMES = [*FFMA_SHARE]

SEED_TILES = [
    Tile(64, 64, 8, 4, 4),
    Tile(128, 64, 8, 8, 4),
    Tile(128, 128, 8, 8, 8),
    Tile(128, 128, 16, 8, 8),
    Tile(128, 256, 8, 8, 16),
    Tile(256, 128, 8, 16, 8),
]


class Compiled:
    """A kernel's machine code, its instructions and its main loop."""

    def __init__(self, name, arch, tile):
        self.title, self.tile = f"{name} for {arch}, {tile}", tile
        self.code = machine_code.compile_version(find(name), arch, tile)
        self.instructions = sass.parse(self.code.sass)

    @cached_property
    def loop(self):
        return sass.main_loop(self.instructions)

    @property
    def calls(self):
        """Calls of other functions; a CALL inside the function is how ptxas writes a long jump."""
        return [i for i in sass.select(self.instructions, "CALL") if i.target is None]

    @property
    def spill_bytes(self):
        """The largest of what spills store and load, and of the stack: arrays that are not in registers."""
        return max(self.code.spill_store_bytes, self.code.spill_load_bytes, self.code.local_bytes)

    @property
    def report(self):
        """What was found, for the message of an assertion."""
        code, loop = self.code, self.loop
        return (
            f"{self.title}: {code.registers} registers, spills {code.spill_store_bytes} bytes stored and "
            f"{code.spill_load_bytes} loaded, {code.local_bytes} bytes local, {len(self.calls)} calls; main loop: "
            f"{loop.ffma} FFMA of {loop.instructions} ({loop.ffma_share:.3f}), {loop.barriers} barriers, {loop.mix}"
        )

    def loop_count(self, opcode):
        return len(sass.select(self.loop.body, opcode))

    def widths(self, opcode, everywhere=False):
        """Bytes of each access of that opcode in the main loop, or in the whole kernel."""
        return sorted(i.access_bytes for i in sass.select(self.instructions if everywhere else self.loop.body, opcode))


@cache
def compiled(name, arch, tile=None):
    """Once a session; the default tile without `tile`."""
    return Compiled(name, arch, tile or find(name).default_tile)


@pytest.fixture(params=ARCHITECTURES)
def arch(request):
    return request.param


def test_the_toolchain_is_the_pinned_one():
    """Machine code differs between toolkits: with another one the figures below mean nothing."""
    lines = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["dependency-groups"]["toolchain13"]
    pins = dict(line.split("==") for line in lines)
    assert set(COMPILERS.values()) <= set(pins)
    used = {}
    for library, package in COMPILERS.items():
        loaded = Path(load_nvidia_dynamic_lib(library).abs_path).resolve()
        distribution = importlib.metadata.distribution(package)
        own = {Path(distribution.locate_file(file)).resolve() for file in distribution.files}
        used[package] = distribution.version if loaded in own else f"not the package's library, {loaded}"
    print("\n".join(f"{package} {version}" for package, version in used.items()))
    other = [
        f"{package}: {used[package]}, pinned {pins[package]}" for package in used if used[package] != pins[package]
    ]
    assert not other, (
        f"{'; '.join(other)}. Register counts, spills and FFMA shares in this file are for the pinned toolkit: "
        "install it with `pip install --group toolchain13`"
    )


# Every rung ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_no_double_precision(name, arch):
    """A bare Python float in a kernel brings in instructions at a 32nd or 64th of the speed."""
    kernel = compiled(name, arch)
    double = [
        i.opcode
        for i in kernel.instructions
        if i.base in ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX") or "F64" in i.modifiers
    ]
    assert not double, f"{double} in {kernel.title}"


@pytest.mark.parametrize("name", NAMES)
def test_registers_spills_and_local_memory(name, arch):
    kernel = compiled(name, arch)
    print(kernel.report)
    code = kernel.code
    assert code.registers <= (48 if name in ("naive", "shared") else 128), kernel.report
    if name == "cp_async_ptx":
        assert code.spill_store_bytes > 0, f"the lesson of this variant is gone: {kernel.report}"
        return
    bound = SPILL_BOUND.get((name, arch), 0)
    assert kernel.spill_bytes <= bound, kernel.report
    if bound == 0:
        assert not sass.count(kernel.instructions, "LDL|STL"), kernel.report


@pytest.mark.parametrize("name", [name for name in NAMES if name != "naive"])
def test_the_main_loop_is_one_tile(name, arch):
    """Fully unrolled over the tile, and not over tiles."""
    kernel = compiled(name, arch)
    tile = kernel.tile
    assert kernel.loop.ffma == tile.bk * tile.tm * tile.tn, kernel.report


@pytest.mark.parametrize("name", BARRIERS)
def test_barriers_per_tile(name, arch):
    kernel = compiled(name, arch)
    assert kernel.loop.barriers == BARRIERS[name], kernel.report


@pytest.mark.parametrize("name", FFMA_SHARE)
def test_ffma_share(name, arch):
    kernel = compiled(name, arch)
    measured = FFMA_SHARE[name][ARCHITECTURES.index(arch)]
    print(f"{name} for {arch}: FFMA share {kernel.loop.ffma_share:.3f}, {measured} when this was written")
    assert kernel.loop.ffma_share >= measured - SHARE_MARGIN, kernel.report


# One rung each ---------------------------------------------------------------------------------------


def test_naive_loads_twice_per_ffma_and_selects_nothing(arch):
    kernel = compiled("naive", arch)
    assert kernel.loop.per_ffma("LDG") == 2, kernel.report
    # A signed index costs a select for Python's negative indexing.
    assert kernel.loop_count("SEL") == kernel.loop_count("USEL") == 0, kernel.report


def test_shared_copies_one_element_each(arch):
    kernel = compiled("shared", arch)
    assert kernel.widths("LDG") == kernel.widths("STS") == [4, 4], kernel.report


def test_register_moves_single_floats(arch):
    kernel = compiled("register", arch)
    tile = kernel.tile
    copies = (tile.bm + tile.bn) * tile.bk // tile.threads
    assert kernel.widths("LDG") == kernel.widths("STS") == [4] * copies, kernel.report
    assert kernel.widths("STG", everywhere=True) == [4] * (tile.tm * tile.tn), kernel.report


def test_vectorized_moves_sixteen_bytes(arch):
    kernel = compiled("vectorized", arch)
    tile = kernel.tile
    a_copies = tile.bm * tile.bk // 4 // tile.threads
    b_copies = tile.bn * tile.bk // 4 // tile.threads
    assert kernel.widths("LDG") == [16] * (a_copies + b_copies), kernel.report
    # A is transposed: its four floats go to four rows. B is stored as it lies.
    assert kernel.widths("STS") == [4] * 4 * a_copies + [16] * b_copies, kernel.report
    assert kernel.widths("STG", everywhere=True) == [16] * (tile.tm * tile.tn // 4), kernel.report


@pytest.mark.parametrize("name", REGISTER_TILED)
def test_fragments_are_read_sixteen_bytes_at_a_time(name, arch):
    kernel = compiled(name, arch)
    tile = kernel.tile
    assert kernel.widths("LDS") == [16] * ((tile.tm + tile.tn) // 4 * tile.bk), kernel.report


# Rung 5 ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", INLINED_PIPELINES)
def test_pipeline_copies_past_registers_and_l1(name, arch):
    kernel = compiled(name, arch)
    tile = kernel.tile
    copies = (tile.bm + tile.bn) * tile.bk // 4 // tile.threads
    assert kernel.loop_count("LDGSTS") == kernel.loop_count("LDGSTS.BYPASS.128") == copies, kernel.report
    assert kernel.loop_count("LDG") == kernel.loop_count("STS") == 0, kernel.report
    assert not sass.count(kernel.instructions, "STS"), kernel.report
    assert kernel.widths("STG", everywhere=True) == [16] * (tile.tm * tile.tn // 4), kernel.report


@pytest.mark.parametrize("name", INLINED_PIPELINES)
def test_pipeline_waits_then_meets_then_copies_then_commits(name, arch):
    kernel = compiled(name, arch)
    order = [i.base for i in kernel.loop.body if i.base in ("DEPBAR", "BAR", "LDGSTS", "LDGDEPBAR")]
    copies = kernel.loop_count("LDGSTS")
    assert order == ["DEPBAR", "BAR", *["LDGSTS"] * copies, "LDGDEPBAR"], f"{order} in {kernel.report}"


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("name", [*INLINED_PIPELINES, "cp_async_ptx"])
def test_wait_depth_is_stages_minus_two(name, stages):
    kernel = compiled(name, "sm_90", Tile(128, 128, 8, 8, 8, stages=stages))
    if name == "cp_async_ptx":
        waits = [i.operands[-1] for i in kernel.loop.body if i.base == "CALL" and "_wait" in i.operands[-1]]
        assert waits == [f"`(numba_gemm_cp_async_wait{stages - 2})"], f"{waits} in {kernel.report}"
    else:
        waits = [i.operands for i in sass.select(kernel.loop.body, "DEPBAR.LE")]
        assert waits == [("SB0", f"{stages - 2:#x}")], f"{waits} in {kernel.report}"


def test_only_linked_ptx_is_called(arch):
    assert [compiled(name, arch).calls for name in NAMES if name != "cp_async_ptx"] == [[]] * (len(NAMES) - 1)
    kernel = compiled("cp_async_ptx", arch)
    called = {i.operands[-1] for i in kernel.calls}
    functions = ("cp_async16", "cp_async_commit", "cp_async_wait1")
    assert called == {f"`(numba_gemm_{function})" for function in functions}, f"{called} in {kernel.report}"
    assert kernel.loop_count("LDGSTS") == 0, kernel.report


def test_linking_cuda_source_costs_nothing(arch):
    """Inlined at the link, the foreign functions leave the machine code that the intrinsic does."""
    linked, intrinsic = (compiled(name, arch) for name in INLINED_PIPELINES)
    code = [[(i.predicate, i.opcode, i.target) for i in kernel.instructions] for kernel in (linked, intrinsic)]
    # On Blackwell address arithmetic comes out in another order, a few instructions more or less.
    if arch in BLACKWELL:
        difference = linked.loop.instructions - intrinsic.loop.instructions
        assert abs(difference) <= 6, f"{linked.report}\n{intrinsic.report}"
    else:
        assert code[0] == code[1], f"{linked.report}\n{intrinsic.report}"


# Other tiles -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("tile", SEED_TILES, ids=str)
@pytest.mark.parametrize("name", ["register", "vectorized", "cp_async"])
def test_tiles_fit_their_registers(name, tile):
    if name == "cp_async":
        tile = Tile(tile.bm, tile.bn, tile.bk, tile.tm, tile.tn, stages=3)
    kernel = compiled(name, "sm_90", tile)
    print(kernel.report)
    assert kernel.loop.ffma == tile.bk * tile.tm * tile.tn, kernel.report
    assert kernel.code.registers <= 65536 // (tile.threads * tile.resident_blocks), kernel.report
    assert kernel.spill_bytes <= (SPILL_BOUND_BK16 if (name, tile.bk) == ("cp_async", 16) else 0), kernel.report


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("bk", [16, 32])
def test_pipeline_depths(bk, stages):
    tile = Tile(128, 128, bk, 8, 8, stages=stages)
    kernel = compiled("cp_async", "sm_90", tile)
    print(kernel.report)
    assert kernel.loop.ffma == tile.bk * tile.tm * tile.tn, kernel.report
    assert kernel.code.registers <= 128, kernel.report
    assert kernel.spill_bytes <= (SPILL_BOUND_BK16 if bk == 16 else 0), kernel.report


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_two_blocks_of_rung_2_fit_an_sm_of_2048_threads(arch):
    kernel = compiled("shared", arch)
    assert kernel.code.registers <= 65536 // 2048, kernel.report
    assert kernel.spill_bytes == 0, kernel.report


def test_every_version_has_its_line_in_the_tables():
    elsewhere = {"warp_tiled", "skinny", "stream_k", "split_k", "split_k_atomic"}  # in files of their own
    elsewhere |= {*EXPECTED, *SAME}  # in test_machine_code_detours.py
    assert {version.name for version in VERSIONS} == {*FFMA_SHARE} | elsewhere, "a new version: state its shares here"
    assert {*BARRIERS, "cp_async_ptx"} == {*REGISTER_TILED, "naive", "shared"} == {*FFMA_SHARE}
