"""Files that others may read at any time, and find whole."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

#: How the names of files end that are being written.
UNFINISHED = ".tmp"


def replace_file(path: Path, data: bytes) -> None:
    """Write a file so that at any time there is either the old or the new one."""
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=UNFINISHED, delete=False) as file:
        temporary = Path(file.name)
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
