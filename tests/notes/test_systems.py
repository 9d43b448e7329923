"""notes/systems.md: every system of the source documents has a row, and all that the rows name exists."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from numba_gemm import VERSIONS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "notes" / "systems.md").read_text(encoding="utf-8")
#: Number of a system → where it is.
ROWS = [(int(number), where) for number, where in re.findall(r"^\| (\d+) \| .+? \| (.+) \|$", PAGE, re.MULTILINE)]
NAMES = {version.name for version in VERSIONS}


def named(kind, where):
    """What a row names as being of a kind: one after "module", several with commas after "modules"."""
    found = re.findall(rf"\b{kind}s? ((?:`[^`]+`(?:, )?)+)", where)
    return [name for names in found for name in re.findall(r"`([^`]+)`", names)]


def test_there_is_a_row_for_each_of_the_45_systems():
    assert [number for number, _ in ROWS] == list(range(1, 46))


@pytest.mark.parametrize("where", [where for _, where in ROWS], ids=[str(number) for number, _ in ROWS])
def test_what_a_row_names_exists(where):
    places = {kind: named(kind, where) for kind in ("version", "module", "file")}
    assert sum(map(len, places.values())) == where.count("`") // 2 > 0, where
    assert set(places["version"]) <= NAMES
    for module in places["module"]:
        assert find_spec(module), module
    for file in places["file"]:
        assert (ROOT / file).is_file(), file


def test_every_version_has_a_place_in_the_table():
    assert {name for _, where in ROWS for name in named("version", where)} == NAMES
