"""A file that is made from results and models: written, or with `--check` held against what it would be now."""

from __future__ import annotations

import sys
from pathlib import Path


def write_or_check(path: Path, text: str, arguments: list[str], complaint: str) -> int:
    """The exit status: 0, or 1 if `arguments` ask for a check and the file is another; then `complaint` is printed."""
    if "--check" not in arguments:
        path.write_text(text, encoding="utf-8")
        return 0
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return 0
    print(complaint, file=sys.stderr)
    return 1
