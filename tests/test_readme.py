"""The README is short, and its programs run as they are printed. So do those for callers."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CALLERS = (ROOT / "notes" / "callers.md").read_text(encoding="utf-8")
#: What Numba's simulator is switched on by, in a program that needs no GPU.
SWITCH = 'os.environ["NUMBA_ENABLE_CUDASIM"] = "1"'


def programs(text):
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def run(program):
    """What a new process prints."""
    found = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_it_has_at_most_150_lines():
    assert len(README.splitlines()) <= 150


@pytest.mark.parametrize("command", ["make demo", "make test"])
def test_the_two_commands_are_there(command):
    assert re.search(rf"^{command} ", README, re.MULTILINE)
    assert re.search(rf"^{command.split()[1]}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def test_links_lead_somewhere():
    for target, anchor in re.findall(r"\]\(([^)#\s]+)(?:#([^)]*))?\)", README):
        if target.startswith("https://"):
            continue
        assert (ROOT / target).exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", (ROOT / target).read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in [re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings]


def test_the_program_for_machines_without_a_gpu_runs_as_printed():
    (program,) = (program for program in programs(README) if SWITCH in program)
    assert run(program).splitlines() == ["[[5. 0. 0.]", " [5. 5. 0.]", *[" [5. 5. 5.]"] * 4, " [5. 5. 5.]]"]


def test_programs_for_callers_run_in_the_simulator():
    """One after the other, as a reader would type them."""
    assert run("\n".join(["import os", SWITCH, *programs(CALLERS)])) == ""


@pytest.mark.gpu
@pytest.mark.parametrize("text", [README, CALLERS], ids=["README", "callers"])
def test_programs_run_on_a_gpu(text):
    for program in programs(text) if text is README else ["\n".join(programs(text))]:
        if "import torch" in program:
            pytest.importorskip("torch")
        if SWITCH not in program:
            run(program)
