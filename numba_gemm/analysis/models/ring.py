"""The ring of a copy pipeline: which tile lies where, and what has been committed, at each turn of the main loop.

S buffers of one step of K each. Before the loop, copies of S − 1 tiles are committed, a group each. Turn t waits until
at most S − 2 groups are under way, passes a barrier, refills a buffer with tile t + S − 1 (committing a group even if
there is no such tile), and computes tile t.
"""

from __future__ import annotations

from dataclasses import dataclass

from numba_gemm.hardware.quantity import Result, require
from numba_gemm.tile import FLOAT_BYTES


@dataclass(frozen=True)
class Turn(Result):
    """Turn t of a ring: buffers, and groups of copies when the turn begins."""

    #: The buffer that is computed, t mod S.
    compute_buffer: int
    #: The buffer that is filled, (t + S − 1) mod S: the one that turn t − 1 has computed.
    refill_buffer: int
    #: The tile that goes there.
    refill_tile: int
    #: Groups committed so far, S − 1 + t: those of the tiles 0 … t + S − 2.
    committed: int
    #: Groups that may still be under way after the wait.
    pending: int


def turn(t: int, stages: int) -> Turn:
    """Turn `t` of a ring of `stages` buffers."""
    require(0, t=t)
    require(2, stages=stages)
    return Turn(
        compute_buffer=t % stages,
        refill_buffer=(t + stages - 1) % stages,
        refill_tile=t + stages - 1,
        committed=stages - 1 + t,
        pending=stages - 2,
    )


def stage_bytes(lines: int, bk: int) -> int:
    """Bytes of one operand in one stage, the distance of its buffers: BM·BK·4 or BN·BK·4."""
    require(1, lines=lines, bk=bk)
    return lines * bk * FLOAT_BYTES


def chunk_offset(row: int, column: int, bk: int) -> int:
    """Bytes from the start of a buffer [rows][BK] to a chunk of 16 bytes, (BK·row + column)·4; column in fours."""
    require(0, row=row, column=column)
    require(1, bk=bk)
    if column % 4:
        raise ValueError(f"column is {column}; a 16-byte chunk begins at a multiple of 4")
    return (bk * row + column) * FLOAT_BYTES
