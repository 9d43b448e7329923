"""A progress bar on standard error, where rich is installed and somebody is looking; otherwise nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Reports what is being done now, and by how many steps it is further than before.
Report = Callable[[str, int], None]


@contextmanager
def bar(title: str, steps: int, shown: bool = True) -> Iterator[Report]:
    """A bar of so many steps while inside the `with`."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    except ImportError:  # an extra
        yield _silent
        return
    console = Console(stderr=True)
    if not (shown and console.is_terminal):
        yield _silent
        return
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(title, total=steps)

        def report(what: str, further: int) -> None:
            progress.update(task, description=f"{title}: {what}", advance=further)

        yield report


def _silent(what: str, further: int) -> None:
    del what, further
