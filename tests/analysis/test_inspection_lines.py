"""The Python lines of machine code: read from a disassembly, and shown beside the main loop."""

import io
from functools import cache
from pathlib import Path

import pytest
from rich.console import Console

import numba_gemm
from numba_gemm.analysis.code import sass
from numba_gemm.analysis.code.machine_code import compile_kernel
from numba_gemm.analysis.code.sass import SourceLine, source_lines
from numba_gemm.kernels import v1_naive, v4_vectorized
from numba_gemm.ladder import find

DISASSEMBLY = """
.text.kernel:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
\t//## File "/somewhere/kernel.py", line 12
        /*0010*/                   LDG.E R2, desc[UR4][R2.64] ;
        /*0020*/                   FFMA R4, R2, R2, R4 ;
\t//## File "/somewhere/kernel.py", line 9 inlined at "/somewhere/other.py", line 3
.L_x_0:
        /*0030*/                   BRA `(.L_x_0);
"""


def python_line(module, number):
    return Path(module.__file__).read_text(encoding="utf-8").splitlines()[number - 1]


@cache
def inspected(name):
    return numba_gemm.inspect(name)


def test_a_line_holds_until_the_next_one_is_named():
    first, second = SourceLine("/somewhere/kernel.py", 12), SourceLine("/somewhere/kernel.py", 9)
    assert source_lines(DISASSEMBLY) == {0x10: first, 0x20: first, 0x30: second}
    assert [i.base for i in sass.parse(DISASSEMBLY)] == ["MOV", "LDG", "FFMA", "BRA"]


@pytest.mark.machine_code
def test_line_information_leaves_the_instructions_as_they_are():
    version = find("vectorized")
    kernel = version.make_kernel(version.default_tile)
    plain, lined = (compile_kernel(kernel, version.signature, "sm_90", (), lineinfo) for lineinfo in (None, True))
    assert source_lines(plain.sass) == {}
    assert source_lines(lined.sass)
    assert plain.registers == lined.registers
    assert sass.parse(plain.sass) == sass.parse(lined.sass)


@pytest.mark.machine_code
def test_each_instruction_has_the_line_that_it_came_from():
    found = inspected("naive")
    texts = {i: python_line(v1_naive, found.lines[i.address].line) for i in found.loop.body}
    assert {text for i, text in texts.items() if i.base in ("FFMA", "LDG")} == {
        "                total += A[row, k] * B[k, col]"
    }
    assert {Path(source.file).name for source in found.lines.values()} == {"v1_naive.py"}


@pytest.mark.machine_code
def test_what_is_inlined_has_the_line_of_the_call():
    found = inspected("vectorized")
    ffma = {found.lines[i.address].line for i in found.loop.body if i.base == "FFMA"}
    assert [python_line(v4_vectorized, line).strip() for line in ffma] == ["tile_product(As, Bs, m, n, acc)"]


@pytest.mark.machine_code
def test_the_listing_shows_each_line_above_its_instructions():
    found = inspected("vectorized")
    lines = found.loop_listing().splitlines()
    instructions = [line for line in lines if not line.startswith("#")]
    assert [line.split()[0] for line in instructions] == [f"{i.address:#06x}" for i in found.loop.body]
    above = ""
    for line in lines:
        if line.startswith("#"):
            assert line != above
            above = line
        elif " LDG." in line:
            assert "load4(" in above
        elif " FFMA " in line:
            assert above.endswith("tile_product(As, Bs, m, n, acc)")
            assert above.startswith("# v4_vectorized.py:")


@pytest.mark.machine_code
@pytest.mark.parametrize("width", [80, 120])
def test_the_tables_count_instructions_by_line(width):
    found = inspected("vectorized")
    console = Console(width=width, file=io.StringIO())
    console.print(found)
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= width
    rows = [line.split() for line in text.splitlines() if line.startswith("v4_vectorized.py:")]
    assert sum(int(row[-1]) for row in rows) == found.loop.instructions
    assert "tile_product(As, Bs, m, n, acc)" in text


@pytest.mark.machine_code
def test_a_version_with_a_cu_file_says_why_it_has_no_lines():
    found = inspected("cp_async")
    assert found.lines == {}
    console = Console(width=120, file=io.StringIO())
    console.print(found)
    assert "No Python lines: the compiler gives none where a .cu file is linked." in console.file.getvalue()
