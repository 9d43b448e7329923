"""A device that need not be here, with a database of its own, and a timer that knows the times in advance."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

from numba_gemm import Tile
from numba_gemm.auto import database
from numba_gemm.auto.database import Identity
from numba_gemm.auto.entry import KEY as FIELDS
from numba_gemm.auto.entry import Choice, Entry, Timed
from numba_gemm.ladder import find
from numba_gemm.problem import Problem

DEVICE = Identity(
    device="NVIDIA Test 1", compute_capability=(9, 0), driver="13.0", package="0.1.0", kernels="0123456789abcdef" * 4
)
KEY = Problem.of_key(512, 256, 128, 1, a_along_k=True, b_along_k=False, vector=True)


def like(key: Problem, **changes: int | bool) -> Problem:
    """The key with other sizes or layouts."""
    return Problem.of_key(**{name: getattr(key, name) for name in FIELDS} | changes)


RUNG_6 = Choice(find(6), find(6).default_tile)
RUNG_7 = Choice(find(7), find(7).default_tile)
SMALLER = Choice(find(7), Tile(64, 64, 16, 8, 8, stages=2, wm=32, wn=64))


def entry(choice: Choice = SMALLER, seconds: float = 1e-3, *others: Timed) -> Entry:
    return Entry(Timed(choice, seconds), others)


@contextmanager
def isolated(monkeypatch, folder) -> Iterator[None]:
    """Files in `folder`, none of them shipped, all for `DEVICE`."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.delenv(database.OPT_OUT, raising=False)
    monkeypatch.setattr(database, "shipped_folder", lambda: folder / "shipped")
    monkeypatch.setattr(database, "identity", lambda _: DEVICE)
    database.forget()
    yield
    database.forget()


class FakeTimer:
    """Runs what it is given as often as the real one, and reports a time for each name, or 1 s."""

    def __init__(self, seconds: dict[str, list[float]] | None = None) -> None:
        self._seconds = seconds or {}
        self.rounds = self.warm_ups = 0
        self.seen: set[str] = set()

    def compare(self, candidates, *, rounds, warm_ups):
        self.seen |= set(candidates)
        self.warm_ups += warm_ups
        measured = {name: [] for name in candidates}
        for _ in range(rounds):
            for name in candidates:
                times = self._seconds.get(name, [1.0])
                measured[name].append(times[self.rounds % len(times)])
            self.rounds += 1
        return {name: SimpleNamespace(seconds=tuple(times)) for name, times in measured.items()}
