"""`Picture`: a name, what is seen, and where it comes from."""

from __future__ import annotations

import importlib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from numba_gemm.plots.results import Results


@dataclass(frozen=True)
class Picture:
    """One picture.

    Attributes:
        name: the file of `drawings` that draws it, and the name of the SVG and PNG files.
        caption: what is seen, in one line.
        sources: the modules of the project that say what is drawn.
        group: the group of stored results that it shows; None if it shows models alone.

    """

    name: str
    caption: str
    sources: tuple[str, ...]
    group: str | None = None

    @property
    def measured(self) -> bool:
        """Whether it shows measurements."""
        return self.group is not None

    def can_be_drawn(self, results: Results | None) -> bool:
        """Whether what it shows is there."""
        return self.group is None or (results is not None and bool(results.group(self.group)))

    def draw(self, results: Results | None) -> Figure:
        """The picture; matplotlib's settings have to be those of `style`, see `files`.

        Raises:
            ValueError: if it shows measurements that there are none of.
        """
        drawing = importlib.import_module(f"numba_gemm.plots.drawings.{self.name}")
        if self.group is None:
            return drawing.draw()
        if not self.can_be_drawn(results):
            where = "there are no stored results" if results is None else f"{results.path} has none"
            raise ValueError(f"{self.name} shows results of the group {self.group!r}: {where}")
        return drawing.draw(results)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "sources": list(self.sources), "measured": self.measured}
