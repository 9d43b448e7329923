"""How pictures look: colours that colour-blind readers tell apart, and grey text that is legible on white and on black.

Backgrounds are transparent. The grey of text and lines has a contrast of more than 4 to white and to GitHub's dark
background. Colours are those of Okabe and Ito ("Color Universal Design", 2008); none carries a meaning that a label, a
hatch or a place does not carry too. Text becomes outlines, so that a picture looks the same without its font.
"""

from __future__ import annotations

import textwrap
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis, XAxis
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator, NullFormatter

ORANGE, SKY, GREEN, YELLOW = "#E69F00", "#56B4E9", "#009E73", "#F0E442"
BLUE, VERMILION, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
#: In the order in which they are taken where things only have to differ.
CYCLE = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION, YELLOW)
GREY = "#7a7a7a"
#: Fills that mean "nothing here".
FAINT = "#7a7a7a28"
HATCH = "////"

TITLE, NORMAL, SMALL, TINY = 11.0, 9.0, 8.0, 7.0
#: Letters in a line of TINY text that is as wide as a quarter of the picture.
COLUMN = 44
#: Inches: at 100 dots an inch, the width of a README.
WIDTH = 8.0

SETTINGS: dict[str, Any] = {
    "svg.fonttype": "path",
    "svg.hashsalt": "numba_gemm",
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": NORMAL,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "savefig.dpi": 100,
    "text.color": GREY,
    "axes.labelcolor": GREY,
    "axes.edgecolor": GREY,
    "axes.titlecolor": GREY,
    "axes.titlesize": NORMAL,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "grid.color": GREY,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "legend.fontsize": SMALL,
    "legend.labelcolor": GREY,
    "hatch.linewidth": 0.6,
    "hatch.color": GREY,
}


def figure(height: float, title: str, foot: str = "") -> Figure:
    """An empty figure, `height` inches high, with a title and, below, where it comes from."""
    made = Figure(figsize=(WIDTH, height), layout="constrained")
    made.suptitle(textwrap.fill(title, 88), x=0.01, ha="left", fontsize=TITLE, fontweight="bold", color=GREY)
    if foot:
        made.supxlabel(textwrap.fill(foot, 148), x=0.01, ha="left", fontsize=TINY, color=GREY)
    return made


def blank(axes: Axes, *, equal: bool = True) -> Axes:
    """Axes without frame and ticks, y downwards, for a drawing in its own units."""
    axes.set_axis_off()
    if equal:
        axes.set_aspect("equal")
    return axes


def cell(
    axes: Axes, x: float, y: float, width: float, height: float, fill: str = "none", text: str = "", **options: Any
) -> None:
    """A rectangle with a text in the middle, in black or white, whichever is legible on its fill."""
    size = options.pop("size", SMALL)
    looks: dict[str, Any] = {"edgecolor": GREY, "linewidth": 0.6, "clip_on": False} | options
    drawn: list[Artist] = [axes.add_patch(Rectangle((x, y), width, height, facecolor=fill, **looks))]
    if text:
        middle = (x + width / 2, y + height / 2)
        drawn.append(axes.text(*middle, text, ha="center", va="center", fontsize=size, color=text_on(fill)))
    for artist in drawn:
        artist.set_in_layout(False)  # it lies inside the limits of its axes; to measure thousands takes seconds


def text_on(fill: str) -> str:
    """The colour of text on a fill; on a transparent one, the grey of all text."""
    if fill == "none" or len(fill) > len(BLUE):
        return GREY
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(fill)]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "black" if luminance > 0.18 else "white"


def logarithmic(axis: Axis) -> None:
    """A logarithmic scale with plain numbers at 1, 2 and 5."""
    scale = axis.axes.set_xscale if isinstance(axis, XAxis) else axis.axes.set_yscale
    scale("log")
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_formatter(NullFormatter())


def limits(axes: Axes, width: float, height: float, margin: float = 0.0) -> None:
    """From 0 to `width`, and from 0 at the top to `height`."""
    axes.set_xlim(-margin, width + margin)
    axes.set_ylim(height + margin, -margin)
