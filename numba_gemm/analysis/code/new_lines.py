"""The lines of a kernel that carry its idea: those marked `# new:`, with what the comment says and where they stand."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_COMMENT = re.compile(r'^(?P<code>.*?)\s*(?:#|""")\s*new:\s*(?P<why>.*?)(?:""")?$', re.IGNORECASE)


@dataclass(frozen=True)
class NewLine:
    """A line of the source, counted from 1; `why` is its comment, which may be empty."""

    number: int
    code: str
    why: str


def new_lines(source: Path) -> list[NewLine]:
    """The marked lines of a file.

    A comment on a line of its own belongs to the next line of code, and goes on over the comments between them; a
    docstring that begins with "New:" belongs to the `def` above it.
    """
    lines = source.read_text(encoding="utf-8").splitlines()
    found = []
    for index, line in enumerate(lines):
        match = _COMMENT.match(line)
        if match is None:
            continue
        why = match["why"]
        if '"""' in line:
            found.append(NewLine(index, lines[index - 1].strip(), why))
        elif match["code"].strip():
            found.append(NewLine(index + 1, match["code"].strip(), why))
        else:
            after = index + 1
            while lines[after].strip().startswith("#"):
                why += " " + lines[after].strip().lstrip("# ")
                after += 1
            found.append(NewLine(after + 1, lines[after].partition("  # ")[0].strip(), why))
    return found
