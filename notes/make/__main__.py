"""Fill in everything generated in `notes/`: `python -m notes.make [--check]` in a checkout.

With `--check` nothing is written, and the exit status is 1 if a page is stale.
"""

from __future__ import annotations

import sys
from pathlib import Path

from notes.make import pages
from notes.make.facts import NOTES


def main(arguments: list[str]) -> int:
    """Write the pages, or name those that are stale."""
    filled = pages.fill_all(Path())
    stale = [name for name, text in filled.items() if text != (NOTES / name).read_text(encoding="utf-8")]
    if "--check" in arguments:
        for name in stale:
            print(f"{NOTES / name} is stale: run python -m notes.make", file=sys.stderr)
        return 1 if stale else 0
    for name in stale:
        (NOTES / name).write_text(filled[name], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
