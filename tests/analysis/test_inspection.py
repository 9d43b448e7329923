"""`inspect`: figures that agree with the compiler and the tile, tables that are readable, errors that help."""

import io
import json
from functools import cache

import pytest
from rich.console import Console

import numba_gemm
from numba_gemm import VERSIONS, Tile
from numba_gemm.analysis.code import sass
from numba_gemm.analysis.code.inspection import inspect
from numba_gemm.analysis.code.machine_code import ARCHITECTURES, compile_kernel
from numba_gemm.device.async_copy import foreign_source
from numba_gemm.kernels.interface import Variant
from numba_gemm.ladder import find

KEYS = [
    "version",
    "arch",
    "registers",
    "spill_store_bytes",
    "spill_load_bytes",
    "local_bytes",
    "shared_bytes",
    "instructions",
    "loop",
]
LOOP_KEYS = ["instructions", "ffma", "ffma_share", "operand_fetches_per_ffma", "bank_triples", "barriers", "mix"]


#: Detours that differ from a rung in the kernel alone are compiled in tests/kernels/test_machine_code.py.
INSPECTED = [
    v
    for v in VERSIONS
    if v.number is not None or v.traits.foreign_files or v.traits.a_k_major or v.traits.takes_variants
]


@cache
def inspected(name):
    return numba_gemm.inspect(name)


@pytest.mark.machine_code
@pytest.mark.parametrize("version", INSPECTED, ids=lambda version: version.name)
def test_every_version_is_inspected_with_the_keys_of_the_contract(version):
    found = inspected(version.name)
    figures = found.to_dict()
    assert list(figures) == KEYS
    assert list(figures["loop"]) == LOOP_KEYS
    assert json.loads(json.dumps(figures)) == figures
    assert (figures["version"], figures["arch"]) == (version.number or version.name, "sm_90")
    assert found.tile == version.default_tile
    assert sum(figures["loop"]["mix"].values()) == figures["loop"]["instructions"] < figures["instructions"]


@pytest.mark.machine_code
def test_static_and_dynamic_shared_memory_count():
    assert inspected("naive").shared_bytes == 0
    for name in ("shared", "register", "vectorized", "cp_async", "cp_async_ptx", "boundary"):
        least = find(name).default_tile.shared_bytes
        assert least <= inspected(name).shared_bytes < 1.25 * least, name


@pytest.mark.machine_code
def test_foreign_code_is_linked_inlined_or_called():
    assert sass.select(inspected("cp_async").loop.body, "LDGSTS.128")
    assert "CALL.ABS.NOINC" in inspected("cp_async_ptx").loop.mix
    assert not sass.select(inspected("cp_async_ptx").loop.body, "LDGSTS")


@pytest.mark.machine_code
def test_the_figures_are_those_of_the_compiler_for_that_tile_and_architecture():
    rung, tile = find(5), Tile(64, 64, 8, 4, 4, stages=2)
    code = compile_kernel(rung.make_kernel(tile), rung.signature, "sm_80", [foreign_source("cp_async.cu")])
    instructions = sass.parse(code.sass)
    found = numba_gemm.inspect(5, arch="sm_80", tile=tile)
    assert (found.version, found.arch, found.tile) == (5, "sm_80", tile)
    assert found.registers == code.registers
    assert (found.spill_store_bytes, found.spill_load_bytes) == (code.spill_store_bytes, code.spill_load_bytes)
    assert found.local_bytes == code.local_bytes
    assert found.shared_bytes == tile.shared_bytes
    assert found.instructions == len(instructions)
    assert found.loop == sass.main_loop(instructions)
    assert found.loop.ffma == tile.bk * tile.tm * tile.tn


@pytest.mark.machine_code
def test_a_variant_is_compiled_as_asked():
    rung, variant = find("boundary"), Variant(a_along_k=False)
    found = inspect(rung.name, tile=rung.small_tile, variant=variant)
    assert found.shared_bytes == rung.module.shared_bytes(found.tile, variant)
    assert found.shared_bytes != rung.module.shared_bytes(found.tile, Variant())


@pytest.mark.machine_code
def test_the_listing_is_the_main_loop_with_branches_to_addresses():
    found = inspected("cp_async")
    lines = found.loop_listing().splitlines()
    assert [line.split()[0] for line in lines] == [f"{i.address:#06x}" for i in found.loop.body]
    assert sum(" FFMA " in line for line in lines) == found.loop.ffma
    assert f"{found.loop.start:#06x}" in lines[-1].split()[-1]
    assert "`" not in found.loop_listing()


@pytest.mark.machine_code
@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", ["naive", "cp_async_ptx", "warp_tiled"])
def test_the_tables_show_every_figure_uncut(width, name):
    found = inspected(name)
    console = Console(width=width, file=io.StringIO())
    console.print(found)
    text = console.file.getvalue()
    assert "…" not in text
    assert name in text
    rows = {line.rsplit(maxsplit=1)[0]: line.rsplit(maxsplit=1)[1] for line in text.splitlines() if " " in line.strip()}
    assert rows["registers a thread"] == str(found.registers)
    assert rows["shared memory a block, bytes"] == str(found.shared_bytes)
    lines = [line.split() for line in text.splitlines()]
    for opcode, count in found.loop.mix.items():
        assert [*opcode.split(), str(count), f"{count / found.loop.instructions:.1%}"] in lines


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"version": "nonsense"}, ValueError, r"unknown version 'nonsense'; there are the numbers 1, .*'naive'"),
        ({"version": 99}, ValueError, r"unknown version 99; there are"),
        ({"version": "auto"}, ValueError, r"'auto' chooses by shape .* a number or a name"),
        ({"version": 5.0}, TypeError, r"version is 5\.0, of type float"),
        ({"version": 5, "tile": (128, 128, 8)}, TypeError, r"tile is \(128, 128, 8\), of type tuple"),
        ({"version": 2, "tile": Tile(16, 32, 8)}, ValueError, r"takes bm = bn = bk"),
        (
            {"version": 5, "arch": "sm_89", "tile": Tile(128, 128, 32, 8, 8, stages=4)},
            ValueError,
            r"131072 bytes of shared memory; compute capability 8\.9 lets a block have",
        ),
        ({"version": 5, "variant": Variant()}, ValueError, r"version 5 \(cp_async\) has no variants"),
    ],
)
def test_what_cannot_be_inspected_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        inspect(**arguments)


@pytest.mark.machine_code
def test_an_unknown_architecture_lists_the_known_ones():
    with pytest.raises(ValueError, match=f"'sm_70': one of {', '.join(ARCHITECTURES)}"):
        numba_gemm.inspect(1, arch="sm_70")


@pytest.mark.simulator
def test_the_simulator_compiles_nothing():
    with pytest.raises(RuntimeError, match="unset NUMBA_ENABLE_CUDASIM"):
        numba_gemm.inspect(1)
