"""`numba-gemm diff`: what a version adds to another, as its authors say and as the code shows."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import typer
from rich.console import Console

from numba_gemm.analysis.code.new_lines import NewLine, new_lines
from numba_gemm.cli.show import Source, highlighted, source


@dataclass(frozen=True)
class Difference:
    """From one version to another."""

    before: Source
    after: Source

    @property
    def idea(self) -> str:
        """The first paragraph of the later one's docstring."""
        return _docstring(self.after).split("\n\n")[0]

    @property
    def new(self) -> list[NewLine]:
        """The lines of the later one that are marked as new, unless the earlier one has the same mark."""
        known = {(line.code, line.why) for line in new_lines(self.before.path)}
        return [line for line in new_lines(self.after.path) if (line.code, line.why) not in known]

    @property
    def text(self) -> str:
        """A unified diff of the code; module docstrings, which tell the idea anew, are left out."""
        return "".join(_unified(self.before, self.after))

    def to_dict(self) -> dict[str, Any]:
        before, after = (
            {key: value for key, value in side.to_dict().items() if key != "source"}
            for side in (self.before, self.after)
        )
        new = [asdict(line) for line in self.new]
        return {"from": before, "to": after, "idea": self.idea, "new": new, "diff": self.text}


def difference(before: str, after: str) -> Difference:
    """Between two versions as they are written on the command line.

    Raises:
        ValueError: if there is no such version.
    """
    return Difference(source(before), source(after))


def show(found: Difference, console: Console) -> None:
    """The idea, the marked lines, and the diff."""
    after, before = found.after, found.before
    lines = [f"From {before.version} to {after.version}: {after.version.summary}", "", found.idea, ""]
    if before.version.default_tile != after.version.default_tile:
        lines += [
            f"{before.version} has {before.version.default_tile}",
            f"{after.version} has {after.version.default_tile}",
            "",
        ]
    if before.path == after.path:
        lines += [f"The code is the same: both are {after.shown_path}."]
    typer.echo("\n".join(lines))
    if not found.text:
        return
    if found.new:
        width = max(len(str(line.number)) for line in found.new)
        marked = [f"  {line.number:>{width}}  {line.code}" + f"  # {line.why}" * bool(line.why) for line in found.new]
        typer.echo("\n".join([f"Marked as new in {after.shown_path}:", *marked, ""]))
    if console.is_terminal:
        highlighted(found.text, "diff", console)
    else:
        typer.echo(found.text, nl=False)


def _docstring(of: Source) -> str:
    return ast.get_docstring(ast.parse(of.text)) or ""


_HUNK = re.compile(r"^@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@")


def _unified(before: Source, after: Source) -> Iterator[str]:
    """With the numbers that the lines have in their files."""
    skipped_before, skipped_after = _docstring_lines(before), _docstring_lines(after)
    old = before.text.splitlines(keepends=True)[skipped_before:]
    new = after.text.splitlines(keepends=True)[skipped_after:]

    def renumbered(hunk: re.Match[str]) -> str:
        first, count, new_first, new_count = hunk.groups(default="")
        return f"@@ -{int(first) + skipped_before}{count} +{int(new_first) + skipped_after}{new_count} @@"

    for line in difflib.unified_diff(old, new, before.shown_path, after.shown_path):
        yield _HUNK.sub(renumbered, line)


def _docstring_lines(of: Source) -> int:
    """How many lines there are up to the end of the module's docstring."""
    first = ast.parse(of.text).body[0]
    is_docstring = isinstance(first, ast.Expr) and ast.get_docstring(ast.parse(of.text)) is not None
    return first.end_lineno or 0 if is_docstring else 0
