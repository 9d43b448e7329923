"""The notes: complete, not stale, and their links lead somewhere."""

import importlib.metadata
import re
from pathlib import Path

import pytest

from notes.make import __main__ as command
from notes.make import machine_code, pages, rungs, values
from notes.make.evidence import stored_benchmarks
from notes.make.facts import ARCH, MEASURED_ONCE, NOTES, Facts
from notes.make.regions import fill
from numba_gemm.analysis.code.new_lines import NewLine, new_lines
from numba_gemm.ladder import RUNGS
from numba_gemm.plots.catalogue import PICTURES
from numba_gemm.plots.results import BENCHMARKS

ROOT = Path(__file__).resolve().parents[2]
FACTS = Facts.load(ROOT)
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / NOTES).glob("*.md"))}
SECTIONS = [
    "The question",
    "The prediction",
    "The code",
    "The machine code",
    "The measurement",
    "What surprised us",
    "Exercise",
]


def test_no_page_is_stale():
    filled = pages.fill_all(ROOT)
    stale = [name for name, text in filled.items() if text != PAGES[name]]
    assert not stale, "run python -m notes.make"


@pytest.mark.parametrize("version", RUNGS, ids=lambda version: version.name)
def test_a_rung_has_a_page_with_all_its_parts(version):
    text = PAGES[rungs.page_name(version)]
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == SECTIONS
    for region in ("prediction", "bottlenecks", "code", "machine-code", "measurement"):
        assert f"<!-- {region} {version.number}: generated -->" in text


def test_every_picture_is_on_a_page():
    assert {picture.name for picture in PICTURES} <= set(
        re.findall(r"<!-- picture (\w+): generated -->", "".join(PAGES.values()))
    )


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    assert sorted(re.findall(r"[\w.]+\.md", navigation)) == sorted(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_links_within_the_repository_lead_somewhere(name):
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", PAGES[name]):
        assert target.startswith("https://") or (ROOT / NOTES / target).exists(), target


@pytest.mark.parametrize("name", PAGES)
def test_no_line_of_a_paragraph_begins_with_a_mark(name):
    """Markdown takes a comment at the beginning of a line as the end of the paragraph."""
    assert not re.findall(r"^<!-- .*: generated -->.*<!-- end -->.*$", PAGES[name], re.MULTILINE)


def test_errata_state_every_computed_correction():
    used = set(re.findall(r"<!-- model ([^:]+): generated -->", "".join(PAGES.values())))
    assert used == set(values.MODELS)


class TestRegions:
    """The marks and the links to source lines."""

    def filled(self, text, page=Path("page.md"), **writers):
        return fill(text, page, writers)

    def test_a_block_and_a_number_within_a_line(self):
        text = "a\n<!-- block 7 x: generated -->\nOLD\n<!-- end -->\nit is <!-- one: generated -->OLD<!-- end -->.\n"
        once = self.filled(text, block=lambda *words: f"NEW {words}\n", one=lambda: "1 ms")
        assert once == (
            "a\n<!-- block 7 x: generated -->\n\nNEW ('7', 'x')\n\n<!-- end -->\n"
            "it is <!-- one: generated -->1 ms<!-- end -->.\n"
        )
        assert self.filled(once, block=lambda *words: f"NEW {words}\n", one=lambda: "1 ms") == once

    def test_an_empty_number_is_filled(self):
        assert self.filled("<!-- one: generated --><!-- end -->", one=lambda: "2").endswith("-->2<!-- end -->")

    def test_an_unknown_name_is_refused(self):
        with pytest.raises(ValueError, match=r"page.md: nothing generates 'tow'; there are one"):
            self.filled("<!-- tow: generated --><!-- end -->", one=lambda: "")

    @pytest.mark.parametrize("text", ["<!-- one: generated -->", "<!-- end -->", "<!-- one: generated --> " * 2])
    def test_marks_have_to_pair(self, text):
        with pytest.raises(ValueError, match="do not pair"):
            self.filled(text, one=lambda: "")

    def test_links_follow_the_line_that_they_name(self, tmp_path):
        (tmp_path / "code.py").write_text("first\nsecond (of three)\nthird\n")
        page = tmp_path / "page.md"
        linked = self.filled('[x](code.py#L9 "second (of"), [y](code.py#L9)', page)
        assert linked == '[x](code.py#L2 "second (of"), [y](code.py#L9)'

    def test_links_to_lines_that_are_gone_are_refused(self, tmp_path):
        (tmp_path / "code.py").write_text("first\n")
        with pytest.raises(ValueError, match=r"no line of code.py has 'second' in it"):
            self.filled('[x](code.py#L1 "second")', tmp_path / "page.md")
        with pytest.raises(ValueError, match=r"gone.py is no file"):
            self.filled('[x](gone.py#L1 "second")', tmp_path / "page.md")


def test_new_lines_of_a_source(tmp_path):
    source = tmp_path / "kernel.py"
    source.write_text(
        "def f(x):\n"
        '    """New: what it is for."""\n'
        "    y = x  # new: a copy\n"
        "    # new: why it is doubled,\n"
        "    # at length\n"
        "    y *= 2  # in place\n"
        "    return y  # new:\n"
    )
    assert new_lines(source) == [
        NewLine(1, "def f(x):", "what it is for."),
        NewLine(3, "y = x", "a copy"),
        NewLine(6, "y *= 2", "why it is doubled, at length"),
        NewLine(7, "return y", ""),
    ]


def test_every_rung_but_the_first_has_new_lines():
    counts = {version.number: len(new_lines(ROOT / rungs.source(version))) for version in RUNGS}
    assert [number for number, count in counts.items() if not count] == [1]


def test_measurements_come_from_the_stored_results():
    """Other results, other text: with times that nothing else on the pages has."""
    results = stored_benchmarks(ROOT)
    for benchmark in results["benchmarks"]:
        benchmark["stats"]["median"] = 0.0123456
    written = pages.regions(Facts(results, FACTS.machine_code, FACTS.measured_once), ROOT)
    assert "12.3 ms" in written["measurement"]("3")
    assert written["time"]("3") == "12.3 ms"
    assert written["times"]("3", "2") == "1.0"
    assert "12.35" in written["ways-to-cp-async"]()
    nothing = pages.regions(Facts({**results, "benchmarks": []}, FACTS.machine_code, FACTS.measured_once), ROOT)
    assert nothing["measurement"]("3").startswith("Nothing is stored")
    with pytest.raises(ValueError, match="has nothing on version '3' at 4096³"):
        nothing["time"]("3")


def test_missing_machine_code_is_an_error_with_the_command():
    with pytest.raises(ValueError, match=r"run python -m notes.make.machine_code"):
        Facts(FACTS.results, {**FACTS.machine_code, "inspections": []}, FACTS.measured_once).inspection("3")


def test_check_says_which_page_is_stale(tmp_path, monkeypatch, capsys):
    for path in (BENCHMARKS, MEASURED_ONCE, machine_code.MACHINE_CODE):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text((ROOT / path).read_text(encoding="utf-8"), encoding="utf-8")
    page = tmp_path / NOTES / "page.md"
    page.write_text("<!-- registers 4: generated -->OLD<!-- end -->\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert command.main(["--check"]) == 1
    assert capsys.readouterr().err == "notes/page.md is stale: run python -m notes.make\n"
    assert command.main([]) == 0
    assert f">{FACTS.inspection('4')['registers']}<" in page.read_text(encoding="utf-8")
    assert command.main(["--check"]) == 0


@pytest.mark.machine_code
class TestStoredMachineCode:
    """notes/machine_code.json is what the compiler makes of today's kernels, for the architecture of the results."""

    def test_it_is_of_the_installed_toolkit(self):
        assert FACTS.machine_code["toolkit"] == importlib.metadata.version("nvidia-nvjitlink")

    @pytest.mark.parametrize("version", RUNGS, ids=lambda version: version.name)
    def test_it_is_not_stale(self, version):
        found = machine_code.inspection(version.name, ARCH)
        command = f"run python -m notes.make.machine_code {version.name}, then python -m notes.make"
        assert found == FACTS.inspection(version.name), command

    def test_it_has_every_entry(self):
        stored = FACTS.machine_code
        assert [(e["name"], e["arch"]) for e in stored["inspections"]] == machine_code.inspected()
        assert [(e["name"],) for e in stored["banks"]] == machine_code.counted()
