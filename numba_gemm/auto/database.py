"""The database of tuned choices: JSON files in the user's cache folder, and one that ships with the package.

A file of the user is for one device model, driver and state of the package: its version, and the fingerprint of the
kernel sources, because another kernel may be fastest with another tile. (Not for one compiler: after an update of the
toolkit, tune again.) A shipped file is for its device model whatever the driver; it belongs to the package that it
comes with. The user's entries win.

Any number of processes may tune at once: a writer takes the folder's lock, reads what is there, adds its entries, and
puts the new file in place of the old one in one step. So readers need no lock and see a whole file, the old or the new
one. A file that cannot be used is never an error for a reader: it is left out with one warning, and the next writer
replaces it. A process reads the files at its first lookup, and again only after it has tuned: what other processes find
changes nothing in the middle of a run.

`NUMBA_GEMM_TUNING=0` in the environment turns looking up off, for those who need "auto" to take the same kernel, and so
to give the same bits, whatever has been tuned. A `tile` or `version` given to `sgemm` or `plan` does so for one call.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import tempfile
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from numba import cuda
from platformdirs import user_cache_path

from numba_gemm._version import __version__
from numba_gemm.auto.candidates import why_not
from numba_gemm.auto.entry import Choice, Entry, from_dict
from numba_gemm.compiler.disk_cache import fingerprint
from numba_gemm.compiler.target import SIMULATOR
from numba_gemm.compiler.whole_file import UNFINISHED, replace_file
from numba_gemm.driver import cuda_api
from numba_gemm.problem import Problem

if not SIMULATOR:
    from cuda.bindings import driver as cu

#: What the files look like; a file with another number is not read.
SCHEMA = 1
OPT_OUT = "NUMBA_GEMM_TUNING"

Entries = Mapping[Problem, Entry]


def enabled() -> bool:
    """Whether stored choices count: unless the environment says NUMBA_GEMM_TUNING=0."""
    return os.environ.get(OPT_OUT) != "0"


# Whose entries ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Identity:
    """For what a file's entries hold."""

    device: str
    compute_capability: tuple[int, int]
    #: The CUDA version of the driver, such as "13.0".
    driver: str
    #: The version of this package; "library" in the files.
    package: str
    #: Fingerprint of the kernel sources.
    kernels: str

    @property
    def header(self) -> dict[str, Any]:
        """What a file of the user says about itself."""
        return {
            **self.shipped_header,
            "driver": self.driver,
            "library": self.package,
            "kernels": self.kernels,
        }

    @property
    def shipped_header(self) -> dict[str, Any]:
        """What has to be true of a shipped file."""
        return {
            "schema": SCHEMA,
            "device": self.device,
            "compute_capability": ".".join(map(str, self.compute_capability)),
        }

    @property
    def path(self) -> Path:
        """The user's file."""
        architecture = "sm_{}{}".format(*self.compute_capability)
        parts = (_slug(self.device), architecture, f"cuda{self.driver}", self.package, self.kernels[:16])
        return folder() / f"{'-'.join(parts)}.json"

    @property
    def shipped_path(self) -> Path:
        return shipped_folder() / f"{_slug(self.device)}.json"


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def folder() -> Path:
    """Where the user's files are."""
    return user_cache_path("numba_gemm") / "tuning"


def shipped_folder() -> Path:
    """Where the files are that come with the package."""
    return Path(str(resources.files("numba_gemm.auto"))) / "data"


def identity(device: int) -> Identity | None:
    """The device, driver and package of this process; None in the simulator, where nothing can be timed."""
    if SIMULATOR:
        return None
    name = cuda.gpus[device].name
    version = int(cuda_api.checked("cuDriverGetVersion", cu.cuDriverGetVersion()))
    return Identity(
        device=name.decode() if isinstance(name, bytes) else str(name),
        compute_capability=cuda_api.compute_capability(device),
        driver=f"{version // 1000}.{version % 1000 // 10}",
        package=__version__,
        kernels=fingerprint(),
    )


# Looking up ------------------------------------------------------------------------------------------


_tables: dict[int, Entries] = {}
_lock = threading.Lock()
_revision = 0


def lookup(device: int, key: Problem) -> Choice | None:
    """The fastest known version and tile for a product on a device; None if it has not been tuned, or by opt-out."""
    if not enabled():
        return None
    table = _tables.get(device)
    if table is None:
        table = _load(device)
    entry = table.get(key)
    return entry.best.choice if entry else None


def revision() -> int:
    """A number that changes when this process has tuned: what was looked up before may be out of date."""
    return _revision


def _load(device: int) -> Entries:
    problems = []
    with _lock:
        if device in _tables:
            return _tables[device]
        entries: dict[Problem, Entry] = {}
        here = identity(device)
        if here is not None:
            for path, header in ((here.shipped_path, here.shipped_header), (here.path, here.header)):
                try:
                    entries |= read(path, header)
                except (FileNotFoundError, NotADirectoryError):
                    continue
                except (OSError, ValueError) as error:
                    problems.append(f"the tuning database {path} is left out: {error}")
        _tables[device] = entries
    for problem in problems:
        warnings.warn(problem, RuntimeWarning, stacklevel=2)
    return entries


def forget() -> None:
    """Look into the files again at the next lookup."""
    global _revision
    with _lock:
        _tables.clear()
        _revision += 1


# Files -----------------------------------------------------------------------------------------------


def read(path: Path, header: Mapping[str, Any]) -> dict[Problem, Entry]:
    """The entries of a file, all of them or none.

    Raises:
        FileNotFoundError: if there is no file.
        OSError: if it cannot be read.
        ValueError: if it holds something else, or is for something else than the header says.
    """
    document = _document(path)
    for name, expected in header.items():
        if document.get(name) != expected:
            raise ValueError(f"it says {name} = {document.get(name)!r}, where {expected!r} is expected")
    major, _, minor = str(document.get("compute_capability")).partition(".")
    if not (major.isdecimal() and minor.isdecimal()):
        raise ValueError(f"its compute_capability is {document.get('compute_capability')!r}")
    compute_capability = (int(major), int(minor))
    records = document.get("entries")
    if not isinstance(records, list):
        raise ValueError("it holds no list of entries")
    entries = entries_of(records)
    for key, entry in entries.items():
        reason = why_not(entry.best.choice, key, compute_capability)
        if reason:
            raise ValueError(f"its entry for {key} cannot be used: {reason}")
    return entries


def entries_of(records: Iterable[Any]) -> dict[Problem, Entry]:
    """The entries of a file's records. Raises ValueError for one that is none."""
    return dict(from_dict(record) for record in records)


def _document(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(document, dict):
        raise ValueError("it is not a JSON object")
    return document


def read_any(path: Path) -> tuple[dict[str, Any], dict[Problem, Entry]]:
    """The header and the entries of a file, whatever device and state of the package it is for.

    Raises:
        OSError, ValueError: like `read`.
    """
    document = _document(path)
    return {name: value for name, value in document.items() if name != "entries"}, read(path, {"schema": SCHEMA})


def user_files() -> list[Path]:
    """The user's files, of all devices and states of the package."""
    return sorted(folder().glob("*.json"))


def shipped_files() -> list[Path]:
    """The files that come with the package."""
    return sorted(shipped_folder().glob("*.json"))


def remember(here: Identity, entries: Entries) -> None:
    """Add entries to the user's file, in place of those with the same keys; this process looks into it from now on.

    Raises:
        OSError: if it cannot be written.
    """
    with _locked(here.path.parent):
        try:
            known = read(here.path, here.header)
        except (OSError, ValueError):  # none yet, or nothing that anyone can use
            known = {}
        merged = known | dict(entries)
        records = [entry.to_dict(key) for key, entry in sorted(merged.items(), key=lambda item: item[0])]
        text = json.dumps({**here.header, "entries": records}, indent=1) + "\n"
        replace_file(here.path, text.encode())
    forget()


def require_writable(here: Identity) -> None:
    """Raises OSError if nothing could be stored: before minutes are spent on measuring."""
    with _locked(here.path.parent), tempfile.TemporaryFile(dir=here.path.parent):
        pass


def clear() -> int:
    """Remove the user's files, of all devices and states of the package; how many there were."""
    if not folder().is_dir():
        return 0
    with _locked(folder()):
        files = user_files()
        for path in [*files, *folder().glob(f"*{UNFINISHED}")]:
            path.unlink()
    forget()
    return len(files)


@contextmanager
def _locked(where: Path) -> Iterator[None]:
    """Make the folder, and hold the lock that its writers take; threads exclude each other as processes do.

    The lock file stays: one who removed it could lock another file than one who waits for it.
    """
    where.mkdir(parents=True, exist_ok=True)
    with (where / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # released when the file is closed, and when its process dies
        yield
