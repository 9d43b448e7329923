"""A set of places as few rectangles, so that a picture of a block tile has dozens of shapes and not thousands."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt


def rectangles(places: npt.NDArray[np.bool_]) -> Iterator[tuple[int, int, int, int]]:
    """(x, y, width, height) of rectangles that cover exactly the places that are true, from the top left."""
    left = places.copy()
    while left.any():
        y, x = np.argwhere(left)[0]
        width = _run(left[y, x:])
        height = _run(left[y:, x : x + width].all(axis=1))
        left[y : y + height, x : x + width] = False
        yield int(x), int(y), width, height


def _run(values: npt.NDArray[np.bool_] | np.bool_) -> int:
    """How many are true from the start."""
    return int(values.size if values.all() else values.argmin())
