"""Write pictures as SVG and PNG; the same bytes each time, for the same version of matplotlib."""

from __future__ import annotations

import io
import re
from pathlib import Path

import matplotlib.style
from matplotlib.figure import Figure

from numba_gemm.plots import style
from numba_gemm.plots.picture import Picture
from numba_gemm.plots.results import Results

#: Where the repository keeps them.
FOLDER = Path("notes/pictures")


def svg(picture: Picture, results: Results | None) -> bytes:
    """The SVG file. It names the version of matplotlib and no date."""
    return saved(figure(picture, results), "svg", {"Title": picture.caption, "Date": None})


def png(picture: Picture, results: Results | None) -> bytes:
    """The PNG file, 800 pixels wide."""
    return saved(figure(picture, results), "png", {"Title": picture.caption, "Software": None})


def write(picture: Picture, results: Results | None, folder: Path) -> list[Path]:
    """Both files; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for suffix, contents in ((".svg", svg(picture, results)), (".png", png(picture, results))):
        path = folder / f"{picture.name}{suffix}"
        path.write_bytes(contents)
        written.append(path)
    return written


def drawn_by(contents: bytes) -> str:
    """The version of matplotlib that an SVG file says it is from."""
    found = re.search(rb"<dc:title>Matplotlib v([^,]+),", contents)
    return found[1].decode() if found else ""


def texts(contents: bytes) -> list[str]:
    """The texts in an SVG file, which stand in comments beside their outlines."""
    return [text.decode().strip() for text in re.findall(rb"<!--(.*?)-->", contents, re.DOTALL)]


def figure(picture: Picture, results: Results | None) -> Figure:
    """The picture as matplotlib has it, whatever the user's settings are."""
    with matplotlib.style.context([style.SETTINGS], after_reset=True):
        return picture.draw(results)


def saved(drawn: Figure, kind: str, metadata: dict[str, str | None]) -> bytes:
    """The contents of the file, which do not depend on when and where it is written."""
    with matplotlib.style.context([style.SETTINGS], after_reset=True):
        file = io.BytesIO()
        drawn.savefig(file, format=kind, metadata=metadata)
    return file.getvalue()
