"""Contracts on the machine code of every version, compiled without a GPU; the figures are in support/expectations.py.

What a kernel's docstring claims about its instructions is read here from the disassembly. Register counts, spills and
FFMA shares are those of the pinned toolkit (`toolchain13` in pyproject.toml), and the first test says so when another
one is installed.
"""

import importlib.metadata
import tomllib
from pathlib import Path

import pytest
from cuda.pathfinder import load_nvidia_dynamic_lib
from support.cases import SEED_TILES, staged
from support.compiled import compiled
from support.expectations import EXPECTED, ROWS, VARIANTS, SameKernelAs

from numba_gemm.analysis.code import sass
from numba_gemm.analysis.code.machine_code import ARCHITECTURES
from numba_gemm.ladder import VERSIONS, find
from numba_gemm.tile import Tile

pytestmark = pytest.mark.machine_code

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
#: The libraries that make machine code, and the packages they come from.
COMPILERS = {"nvJitLink": "nvidia-nvjitlink", "nvvm": "nvidia-nvvm", "nvrtc": "nvidia-cuda-nvrtc"}

BLACKWELL = ("sm_100", "sm_120")
INLINED_PIPELINES = ["cp_async", "cp_async_intrinsic"]

#: Every version that is read, with each architecture that its row has.
READ = pytest.mark.parametrize(("name", "arch"), [(name, arch) for name, row in ROWS.items() for arch in row.share])


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
        f"{'; '.join(other)}. Register counts, spills and FFMA shares in support/expectations.py are for the pinned "
        "toolkit: install it with `pip install --group toolchain13`"
    )


# Every version ---------------------------------------------------------------------------------------


def test_every_version_has_its_row():
    assert [version.name for version in VERSIONS] == [*EXPECTED], "a row in support/expectations.py for each version"


def of_row(name, arch):
    row = ROWS[name]
    return row, compiled(name, arch, variant=row.variant)


@READ
def test_no_double_precision(name, arch):
    """A bare Python float in a kernel brings in instructions at a 32nd or 64th of the speed."""
    _, kernel = of_row(name, arch)
    double = [
        i.opcode
        for i in kernel.instructions
        if i.base in ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX") or "F64" in i.modifiers
    ]
    assert not double, f"{double} in {kernel.title}"


def check_registers_and_spills(row, kernel):
    assert kernel.code.registers <= row.registers, kernel.report
    if row.spilled is None:
        assert kernel.code.spill_store_bytes > 0, f"the lesson of this version is gone: {kernel.report}"
        return
    assert kernel.spilled <= row.spilled, kernel.report
    if row.spilled == 0:
        assert not sass.count(kernel.instructions, "LDL|STL"), kernel.report


@READ
def test_registers_spills_and_local_memory(name, arch):
    row, kernel = of_row(name, arch)
    print(kernel.report)
    check_registers_and_spills(row, kernel)


def check_one_tile(row, kernel):
    """The loop is fully unrolled over a tile of K, and not over tiles; rung 1 and its kin have no tiles."""
    tile = kernel.tile
    if tile.bk > 1:
        assert kernel.loop.ffma == (row.ffma or tile.bk * tile.tm * tile.tn), kernel.report
    assert kernel.loop.barriers == row.barriers, kernel.report


@READ
def test_the_main_loop_is_one_tile(name, arch):
    check_one_tile(*of_row(name, arch))


@READ
def test_ffma_share(name, arch):
    row, kernel = of_row(name, arch)
    print(f"{name} for {arch}: FFMA share {kernel.loop.ffma_share:.3f}, at least {row.share[arch]:.3f} is wanted")
    assert kernel.loop.ffma_share >= row.share[arch], kernel.report
    if row.bank_triples is not None:
        assert kernel.loop.bank_triples <= row.bank_triples, kernel.report


@READ
def test_accesses_of_the_main_loop_and_stores_of_the_kernel(name, arch):
    row, kernel = of_row(name, arch)
    for opcode in ("LDS", "STS", "LDG", "LDGSTS"):
        expected = getattr(row, opcode.lower())
        assert expected in (None, kernel.widths(opcode)), f"{opcode} of {kernel.report}"
    stores = kernel.widths("STG", everywhere=True)
    assert row.stg in (None, stores), f"{stores} bytes by STG in {kernel.title}"


@READ
def test_only_linked_ptx_is_called(name, arch):
    row, kernel = of_row(name, arch)
    assert kernel.called == {f"`(numba_gemm_{function})" for function in row.calls}, kernel.report


@pytest.mark.parametrize(
    ("name", "variant"), [(name, key) for name, row in ROWS.items() for key in row.share_of_variants]
)
def test_edges_and_unaligned_operands(name, variant):
    row, kernel = ROWS[name], compiled(name, variant=VARIANTS[variant])
    print(kernel.report)
    check_registers_and_spills(row, kernel)
    check_one_tile(row, kernel)
    assert kernel.loop.ffma_share >= row.share_of_variants[variant], kernel.report
    assert kernel.widths("LDS") == row.lds, kernel.report
    if row.bank_triples is not None:
        assert kernel.loop.bank_triples <= row.bank_triples, kernel.report


@pytest.mark.parametrize(
    ("name", "tile"), [(name, tile) for name, row in ROWS.items() for tile in row.share_of_tiles], ids=str
)
def test_other_tiles(name, tile):
    row, kernel = ROWS[name], compiled(name, tile=tile)
    print(kernel.report)
    assert kernel.loop.ffma == tile.bk * tile.tm * tile.tn, kernel.report
    assert kernel.loop.ffma_share >= row.share_of_tiles[tile], kernel.report
    assert kernel.spilled == 0, kernel.report


@pytest.mark.parametrize("name", [name for name, row in EXPECTED.items() if isinstance(row, SameKernelAs)])
def test_names_for_the_kernel_of_another_version(name):
    version, other = find(name), find(EXPECTED[name].version)
    assert version.make_kernel(version.default_tile) is other.make_kernel(version.default_tile)


# Rungs 1, 2 and 4 ------------------------------------------------------------------------------------


def test_naive_loads_twice_per_ffma_and_selects_nothing(arch):
    kernel = compiled("naive", arch)
    assert kernel.loop.per_ffma("LDG") == 2, kernel.report
    # A signed index costs a select for Python's negative indexing.
    assert kernel.loop_count("SEL") == kernel.loop_count("USEL") == 0, kernel.report


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_two_blocks_of_rung_2_fit_an_sm_of_2048_threads(arch):
    kernel = compiled("shared", arch)
    assert kernel.code.registers <= 65536 // 2048, kernel.report
    assert kernel.spilled == 0, kernel.report


def test_vectorized_moves_sixteen_bytes(arch):
    kernel = compiled("vectorized", arch)
    tile = kernel.tile
    a_copies = tile.bm * tile.bk // 4 // tile.threads
    b_copies = tile.bn * tile.bk // 4 // tile.threads
    assert kernel.widths("LDG") == {16: a_copies + b_copies}, kernel.report
    # A is transposed: its four floats go to four rows. B is stored as it lies.
    assert kernel.widths("STS") == {4: 4 * a_copies, 16: b_copies}, kernel.report
    assert kernel.widths("STG", everywhere=True) == {16: tile.tm * tile.tn // 4}, kernel.report


# Rung 5 ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", INLINED_PIPELINES)
def test_pipeline_copies_past_registers_and_l1(name, arch):
    kernel = compiled(name, arch)
    tile = kernel.tile
    copies = (tile.bm + tile.bn) * tile.bk // 4 // tile.threads
    assert kernel.loop_count("LDGSTS") == kernel.loop_count("LDGSTS.BYPASS.128") == copies, kernel.report
    assert not sass.count(kernel.instructions, "STS"), kernel.report


@pytest.mark.parametrize("name", INLINED_PIPELINES)
def test_pipeline_waits_then_meets_then_copies_then_commits(name, arch):
    kernel = compiled(name, arch)
    order = [i.base for i in kernel.loop.body if i.base in ("DEPBAR", "BAR", "LDGSTS", "LDGDEPBAR")]
    copies = kernel.loop_count("LDGSTS")
    assert order == ["DEPBAR", "BAR", *["LDGSTS"] * copies, "LDGDEPBAR"], f"{order} in {kernel.report}"


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("name", [*INLINED_PIPELINES, "cp_async_ptx"])
def test_wait_depth_is_stages_minus_two(name, stages):
    kernel = compiled(name, tile=Tile(128, 128, 8, 8, 8, stages=stages))
    if name == "cp_async_ptx":
        waits = [i.operands[-1] for i in kernel.loop.body if i.base == "CALL" and "_wait" in i.operands[-1]]
        assert waits == [f"`(numba_gemm_cp_async_wait{stages - 2})"], f"{waits} in {kernel.report}"
    else:
        waits = [i.operands for i in sass.select(kernel.loop.body, "DEPBAR.LE")]
        assert waits == [("SB0", f"{stages - 2:#x}")], f"{waits} in {kernel.report}"


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
        tile = staged(tile, 3)
    row, kernel = ROWS[name], compiled(name, tile=tile)
    print(kernel.report)
    assert kernel.loop.ffma == tile.bk * tile.tm * tile.tn, kernel.report
    assert kernel.code.registers <= 65536 // (tile.threads * tile.resident_blocks), kernel.report
    assert kernel.spilled <= row.spilled_by_bk.get(tile.bk, 0), kernel.report


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("bk", [16, 32])
def test_pipeline_depths(bk, stages):
    row, kernel = ROWS["cp_async"], compiled("cp_async", tile=Tile(128, 128, bk, 8, 8, stages=stages))
    print(kernel.report)
    tile = kernel.tile
    assert kernel.loop.ffma == tile.bk * tile.tm * tile.tn, kernel.report
    assert kernel.code.registers <= 128, kernel.report
    assert kernel.spilled <= row.spilled_by_bk.get(bk, 0), kernel.report
