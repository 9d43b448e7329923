"""Which state of the package's sources the kernels of this process are made of.

The files are read when the package is imported, just before their code is: after an upgrade or an edit the process
goes on with what it imported, and so does what it keeps on disk or notes in a table of tuned tiles.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable
from pathlib import Path

#: What can end up in machine code, relative to the package.
_PATTERNS = ("compiler/*.py", "device/*.py", "kernels/**/*.py", "problem.py", "tile.py", "hardware/quantity.py")

_PACKAGE = Path(__file__).parents[1]


def fingerprint() -> str:
    """SHA-256 over the sources that kernels are made of, as they were imported."""
    return _AS_IMPORTED


def fingerprint_of(paths: Iterable[Path]) -> str:
    """SHA-256 over names and contents of files, as they are now."""
    return _digest((path.name, path) for path in paths)


def fingerprint_at(package: Path) -> str:
    """`fingerprint`, of the sources of a package as they are now.

    Where there are none to read (in an archive, or compiled ones alone) nothing is known of them, and no two are
    alike.
    """
    found = sources_at(package)
    return _digest((str(path.relative_to(package)), path) for path in found) if found else f"unknown {uuid.uuid4()}"


def sources_at(package: Path) -> list[Path]:
    """Every file that can end up in a kernel."""
    found = {path for pattern in _PATTERNS for path in package.glob(pattern)}
    return sorted(path for path in found if path.is_file() and not path.name.startswith("."))  # no editor's


def _digest(files: Iterable[tuple[str, Path]]) -> str:
    digest = hashlib.sha256()
    for name, path in files:
        content = path.read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


_AS_IMPORTED = fingerprint_at(_PACKAGE)
