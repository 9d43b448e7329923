"""What is generated in a page: text between marks, and the line numbers of links to the source.

    <!-- prediction 3: generated -->
    …                                        `REGIONS["prediction"](facts, "3")` writes what stands here
    <!-- end -->

    rung 4 takes <!-- time 4: generated -->3.97 ms<!-- end -->, …         the same within a line

    [`load4`](../numba_gemm/device/vector.py#L40 "def load4")

A link with a title points to the first line of the file that has the title in it; its number is what is generated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

#: Writes a region, from the words behind its name.
Region = Callable[..., str]

_REGION = re.compile(r"<!-- (?P<call>[^:>]+): generated -->(?P<block>\n)?.*?<!-- end -->", re.DOTALL)
_MARK = re.compile(r"<!-- [^>]*: generated -->|<!-- end -->")
_SOURCE_LINK = re.compile(r'\]\((?P<path>[^)#\s]+)#L\d+ "(?P<text>[^"]+)"\)')


def fill(text: str, page: Path, regions: Mapping[str, Region]) -> str:
    """The text of a page with everything generated brought up to date.

    Raises:
        ValueError: for a region that nothing writes, marks that do not pair, or a link to a line that is not there.

    """
    if len(_MARK.findall(text)) != 2 * len(_REGION.findall(text)):
        raise ValueError(f"{page}: marks of generated regions do not pair")

    def region(match: re.Match[str]) -> str:
        name, *words = match["call"].split()
        if name not in regions:
            raise ValueError(f"{page}: nothing generates {name!r}; there are {', '.join(sorted(regions))}")
        written = regions[name](*words).strip()
        around = "\n\n" if match["block"] else ""
        return f"<!-- {match['call']}: generated -->{around}{written}{around}<!-- end -->"

    return _SOURCE_LINK.sub(lambda match: _numbered(match, page), _REGION.sub(region, text))


def _numbered(match: re.Match[str], page: Path) -> str:
    source = page.parent / match["path"]
    if not source.is_file():
        raise ValueError(f"{page}: {match['path']} is no file")
    for number, line in enumerate(source.read_text(encoding="utf-8").splitlines(), start=1):
        if match["text"] in line:
            return f"]({match['path']}#L{number}" + f' "{match["text"]}")'
    raise ValueError(f"{page}: no line of {match['path']} has {match['text']!r} in it")


def table(header: list[str], rows: list[list[str]], left: int = 1) -> str:
    """A Markdown table; columns from `left` on are aligned to the right."""
    rule = ["---" if column < left else "---:" for column in range(len(header))]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (header, rule, *rows))
