"""`numba-gemm show` and `numba-gemm diff`: sources as they are, and what one version adds to another."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text
from typer.testing import CliRunner

from numba_gemm import VERSIONS, Tile, ladder
from numba_gemm.cli import app
from numba_gemm.cli import diff as diff_command
from numba_gemm.cli import show as show_command

ROOT = Path(ladder.__file__).parents[1]


def invoke(*arguments, status=0):
    done = CliRunner().invoke(app.app, list(arguments), env={"COLUMNS": "100"})
    assert done.exit_code == status, done.output
    return done


def terminal(width=100):
    return Console(file=io.StringIO(), force_terminal=True, width=width)


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_in_a_pipe_it_is_the_file(version):
    assert invoke("show", version.name).stdout == Path(version.module.__file__).read_text()


def test_a_number_is_as_good_as_a_name():
    assert invoke("show", "3").stdout == invoke("show", "register").stdout


def test_as_json():
    found = json.loads(invoke("show", "5", "--json").stdout)
    assert (found["number"], found["name"]) == (5, "cp_async")
    assert (ROOT / found["file"]).read_text() == found["source"]
    assert Tile(**found["default_tile"]) == ladder.find(5).default_tile


def test_in_a_terminal_it_is_highlighted_with_numbers_and_nothing_is_cut():
    console = terminal(width=60)
    show_command.show(show_command.source("1"), console)
    out = console.file.getvalue()
    assert "\x1b[" in out, "no colours"
    plain = Text.from_ansi(out).plain
    assert "numba_gemm/kernels/v1_naive.py" in plain
    words = Path(ladder.find(1).module.__file__).read_text().split()
    assert [word for word in words if word not in plain] == []


@pytest.mark.parametrize("arguments", [["show", "99"], ["show", "nonsense"], ["diff", "1", "99"], ["diff", "99", "1"]])
def test_unknown_versions_are_one_line_and_status_2(arguments):
    done = invoke(*arguments, status=2)
    assert done.stdout == ""
    assert done.stderr.startswith("numba-gemm: unknown version ")
    assert len(done.stderr.splitlines()) == 1


def test_auto_has_no_source():
    done = invoke("show", "auto", status=2)
    assert done.stderr.startswith("numba-gemm: 'auto' chooses a version by shape and device; name one")


@pytest.mark.parametrize("arguments", [["show"], ["diff", "1"], ["show", "1", "2"]])
def test_wrong_usage_is_status_2(arguments):
    invoke(*arguments, status=2)


# diff ------------------------------------------------------------------------------------------------


def applied(before: str, diff: str) -> str:
    """The lines that the hunks of a unified diff make of the lines of the file before."""
    lines, made, at = before.splitlines(), [], 0
    for line in diff.splitlines()[2:]:
        if line.startswith("@@"):
            first = int(line.split()[1].split(",")[0].lstrip("-")) - 1
            made += lines[at:first]
            at = first
        elif line.startswith("+"):
            made.append(line[1:])
        else:
            assert lines[at] == line[1:], f"line {at + 1} is another"
            at += 1
            if line.startswith(" "):
                made.append(line[1:])
    return "\n".join(made + lines[at:])


def code(text: str) -> str:
    """What follows the module's docstring."""
    return text.split('"""', 2)[2].strip("\n")


@pytest.mark.parametrize("numbers", [("1", "2"), ("4", "5"), ("7", "3"), ("2", "swizzled")], ids="-".join)
def test_the_diff_makes_one_file_of_the_other_with_its_line_numbers(numbers):
    found = json.loads(invoke("diff", *numbers, "--json").stdout)
    before, after = (Path(ladder.find(int(n) if n.isdigit() else n).module.__file__).read_text() for n in numbers)
    assert code(applied(before, found["diff"])) == code(after)
    for line in found["new"]:
        assert line["code"] in after.splitlines()[line["number"] - 1].strip()


def test_what_a_rung_adds_is_said_marked_and_shown():
    out = invoke("diff", "1", "2").stdout
    assert out.startswith("From 1 (naive) to 2 (shared): tiles in shared memory\n")
    for text in (
        "Rung 2, shared tiles: ",
        "2 (shared) has 32×32×32",
        "Marked as new in numba_gemm/kernels/v2_shared.py:",
        "As = cuda.shared.array(A_TILE, float32, 16)",
        "--- numba_gemm/kernels/v1_naive.py",
        "+++ numba_gemm/kernels/v2_shared.py",
        "\n+            cuda.syncthreads()",
    ):
        assert text in out


def test_marks_that_both_have_are_not_new():
    both = json.loads(invoke("diff", "4", "4", "--json").stdout)
    assert both["new"] == []
    assert both["diff"] == ""


def test_the_same_kernel_with_another_tile():
    out = invoke("diff", "2", "ex4_bk16").stdout
    assert "2 (shared) has 32×32×32" in out
    assert "ex4_bk16 has 16×16×16" in out
    assert "The code is the same: both are numba_gemm/kernels/v2_shared.py." in out


def test_in_a_terminal_the_diff_is_coloured():
    console = terminal()
    diff_command.show(diff_command.difference("1", "2"), console)
    assert "\x1b[" in console.file.getvalue()
