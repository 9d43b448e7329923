"""The ring of buffers as a table: what is computed, filled and on its way, turn by turn."""

from __future__ import annotations

from matplotlib.figure import Figure

from numba_gemm import ladder
from numba_gemm.analysis.models.ring import Turn, turn
from numba_gemm.plots import style
from numba_gemm.plots.subjects import PIPELINED, TURNS


def draw() -> Figure:
    """A line per turn, a column per buffer."""
    stages = ladder.find(PIPELINED).default_tile.stages
    turns = [turn(t, stages) for t in range(TURNS)]
    made = style.figure(
        3.6,
        "The ring: each turn refills the buffer that the turn before has read",
        f"Rung {ladder.find(PIPELINED)}, {stages} stages, from analysis.ring. At its start a turn waits until at most "
        f"{turns[0].pending} group{'s' if turns[0].pending > 1 else ''} of copies may still be under way; then all "
        "threads meet at a barrier.",
    )
    axes = style.blank(made.subplots(), equal=False)
    heads = ["turn", *[f"buffer {buffer}" for buffer in range(stages)], "groups committed", "may be pending"]
    for column, head in enumerate(heads):
        axes.text(column + 0.5, 0.5, head, ha="center", va="center", fontsize=style.SMALL, fontweight="bold")
    for t, of_turn in enumerate(turns):
        texts = [str(t), *[_text(t, of_turn, buffer) for buffer in range(stages)], str(of_turn.committed),
                 str(of_turn.pending)]  # fmt: skip
        for column, text in enumerate(texts):
            fill = _fill(of_turn, column - 1) if 0 < column <= stages else "none"
            style.cell(axes, column, t + 1, 1, 1, fill, text)
    style.limits(axes, len(heads), len(turns) + 1, 0.02)
    return made


def _text(t: int, of_turn: Turn, buffer: int) -> str:
    if buffer == of_turn.compute_buffer:
        return f"compute tile {t}"
    if buffer == of_turn.refill_buffer:
        return f"ask for tile {of_turn.refill_tile}"
    tile = next(tile for tile in range(t, of_turn.refill_tile) if tile % (of_turn.pending + 2) == buffer)
    return f"tile {tile} on its way"


def _fill(of_turn: Turn, buffer: int) -> str:
    if buffer == of_turn.compute_buffer:
        return style.BLUE
    return style.ORANGE if buffer == of_turn.refill_buffer else "none"
