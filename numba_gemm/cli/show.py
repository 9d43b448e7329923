"""`numba-gemm show`: the source of a version's kernel, as it is in the repository."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.syntax import Syntax

from numba_gemm import ladder
from numba_gemm.cli.arguments import number_or_name
from numba_gemm.ladder import Version


@dataclass(frozen=True)
class Source:
    """The file that a version's kernel is in."""

    version: Version
    path: Path
    text: str

    @property
    def shown_path(self) -> str:
        """Relative to what holds the package."""
        return self.path.relative_to(Path(ladder.__file__).parents[1]).as_posix()

    def to_dict(self) -> dict[str, Any]:
        return {
            "number": self.version.number,
            "name": self.version.name,
            "summary": self.version.summary,
            "file": self.shown_path,
            "default_tile": asdict(self.version.default_tile),
            "source": self.text,
        }


def source(version: str) -> Source:
    """Of a version as it is written on the command line.

    Raises:
        ValueError: if there is none, or "auto", which is none.
    """
    if version == "auto":
        raise ValueError("'auto' chooses a version by shape and device; name one: `numba-gemm versions` lists them")
    found = ladder.find(number_or_name(version))
    path = Path(str(found.module.__file__))
    return Source(found, path, path.read_text(encoding="utf-8"))


def show(found: Source, console: Console) -> None:
    """Highlighted with line numbers for who looks at it; as it is for a file or a pipe."""
    if not console.is_terminal:
        typer.echo(found.text, nl=False)
        return
    console.print(f"Version {found.version}, {found.shown_path}, by default with {found.version.default_tile}\n")
    highlighted(found.text, "python", console, line_numbers=True)


def highlighted(text: str, language: str, console: Console, *, line_numbers: bool = False) -> None:
    """Print code in colours; long lines go on in the next."""
    syntax = Syntax(text, language, theme="ansi_dark", line_numbers=line_numbers, word_wrap=True)
    console.print(syntax)
