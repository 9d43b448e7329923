"""Results of compiling, kept on disk in the user's cache folder: an entry a file.

A file is named by the SHA-256 of the entry's key, which says all that the result depends on, and holds the key, a
checksum and the result. It is written whole or not at all, and believed only if key and checksum are right. So any
number of processes may read and write at once, and what is out of date is just never asked for.

Nothing that is wrong with a file, the folder or the disk is an error: then nothing is read, or nothing is kept. Since
what is read is run, folders and files of another user, or that anybody may write, are refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from platformdirs import user_cache_path

from numba_gemm.compiler.whole_file import UNFINISHED, replace_file

#: Bytes on disk, if nothing else is said.
DEFAULT_BYTES = 1 << 30
#: An entry that nobody used for a month goes, and what a writer left behind that was killed an hour ago.
KEPT_SECONDS = 30 * 24 * 3600
UNFINISHED_SECONDS = 3600
#: What a clock may be ahead of another one.
_CLOCK_SECONDS = 24 * 3600

#: How a file starts; another layout gets another number.
_MAGIC = b"numba-gemm entry 1\n"
_DIGEST_BYTES = 32
_LENGTH_BYTES = 4
#: No entry is larger.
_LARGEST = 1 << 28


class Entry(NamedTuple):
    """A result: what is said of it, as JSON has it, and its bytes."""

    facts: dict[str, Any]
    data: bytes


@dataclass(frozen=True)
class Store:
    """The entries of one kind.

    Attributes:
        name: the folder's, in the cache folder of the library.
        switch: the variable in the environment that turns the store off where it is 0.
        limit: the variable for the number of bytes on disk, 1 GiB unless it says another one; what was used longest
            ago goes first.

    """

    name: str
    switch: str
    limit: str

    @property
    def enabled(self) -> bool:
        """Whether entries are read and written: unless the environment says otherwise."""
        return os.environ.get(self.switch) != "0"

    @property
    def folder(self) -> Path:
        """Where the entries are."""
        return user_cache_path("numba_gemm") / self.name

    @property
    def limit_bytes(self) -> int:
        """What the entries may take together."""
        text = os.environ.get(self.limit, "")
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else DEFAULT_BYTES

    def path(self, key: str) -> Path:
        """The file of an entry."""
        return self.folder / hashlib.sha256(key.encode()).hexdigest()

    def load(self, key: str) -> Entry | None:
        """The entry of a key; None if there is none that can be used."""
        if not self.enabled:
            return None
        path = self.path(key)
        try:
            _require_own_folder(path.parent)
            found = _unpacked(_read_own_file(path), key)
        except (OSError, ValueError, zlib.error, RecursionError):
            return None
        with suppress(OSError):
            os.utime(path)  # used now
        return found

    def keep(self, key: str, facts: dict[str, Any], data: bytes) -> None:
        """Keep an entry, in place of the one with its key, and remove what was not used for long."""
        if not self.enabled:
            return
        path = self.path(key)
        try:
            _make_folder(path.parent)
            _require_own_folder(path.parent)
            replace_file(path, _packed(key, facts, data))
            self._remove_unused(path.parent)
        except OSError:
            return

    def _remove_unused(self, folder: Path) -> None:
        now, limit, total = time.time(), self.limit_bytes, 0
        for used, size, path in sorted(_files(folder), reverse=True):
            longest = UNFINISHED_SECONDS if path.endswith(UNFINISHED) else KEPT_SECONDS
            with suppress(OSError):
                if total + size > limit or now - used > longest:
                    os.unlink(path)
                    continue
                if used - now > _CLOCK_SECONDS:
                    os.utime(path)  # a clock was wrong: its age counts from today, or it would stay for ever
            total += size


def _files(folder: Path) -> list[tuple[float, int, str]]:
    """When each file was last used, its size and its path."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):  # another process removed it
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    found.append((status.st_mtime, status.st_size, entry.path))
    return found


# Whose it is -----------------------------------------------------------------------------------------


def _make_folder(folder: Path) -> None:
    if not folder.is_absolute():
        raise FileNotFoundError(f"{folder}: the user has no home folder")
    folder.parent.parent.mkdir(parents=True, exist_ok=True)
    for each in (folder.parent, folder):
        each.mkdir(mode=0o700, exist_ok=True)


def _require_own_folder(folder: Path) -> None:
    for each in (folder, folder.parent):
        _require_own(each.stat(), each)


def _require_own(status: os.stat_result, path: Path) -> None:
    if status.st_uid != os.geteuid() or status.st_mode & stat.S_IWOTH:
        raise PermissionError(f"{path} is another user's, or anybody may write it")


def _read_own_file(path: Path) -> bytes:
    # Neither follows a link nor waits for the writer of a pipe.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        _require_own(status, path)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
            raise OSError(f"{path} is no entry")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


# What is in it ---------------------------------------------------------------------------------------


def _packed(key: str, facts: dict[str, Any], data: bytes) -> bytes:
    header = json.dumps({"key": key, "facts": facts}).encode()
    body = zlib.compress(len(header).to_bytes(_LENGTH_BYTES) + header + data, level=1)
    return _MAGIC + hashlib.sha256(body).digest() + body


def _unpacked(packed: bytes, key: str) -> Entry:
    """The entry in a file.

    Raises:
        ValueError, zlib.error, RecursionError: if it is damaged, or another key's.

    """
    magic, rest = packed[: len(_MAGIC)], packed[len(_MAGIC) :]
    checksum, body = rest[:_DIGEST_BYTES], rest[_DIGEST_BYTES:]
    if magic != _MAGIC or hashlib.sha256(body).digest() != checksum:
        raise ValueError("damaged")
    content = zlib.decompress(body)
    end = _LENGTH_BYTES + int.from_bytes(content[:_LENGTH_BYTES])
    header = json.loads(content[_LENGTH_BYTES:end])
    if not isinstance(header, dict) or header.get("key") != key or not isinstance(header.get("facts"), dict):
        raise ValueError("the entry of another key")
    return Entry(header["facts"], content[end:])
