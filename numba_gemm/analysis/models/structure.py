"""What a kernel does that its `Tile` does not say: which thread has which outputs, and where operands lie.

From both follow the addresses that the lanes of a warp read in one step of k, and from these the wavefronts of shared
memory, and the lines and sectors of global memory. Only the kernel's own index expressions go in, as they are written
down here; `banks` and `sectors` get the same from running the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

from numba_gemm.analysis.models import traffic
from numba_gemm.analysis.models.shared_memory import request_wavefronts, vector_words, wavefronts
from numba_gemm.hardware.devices import WAVEFRONT_BYTES
from numba_gemm.hardware.quantity import Result, ceil_div
from numba_gemm.kernels.interface import Copy, Structure, Variant
from numba_gemm.ladder import Version
from numba_gemm.problem import Problem
from numba_gemm.tile import FLOAT_BYTES, WARP, LaunchConfig, Tile

#: Floats in a 16-byte access.
VECTOR = 4
#: Row stride of the operands for which the sectors and lines of a warp are counted: rows never share a line.
_LONG_ROW = 4096


@dataclass(frozen=True)
class Wavefronts(Result):
    """Wavefronts of shared memory that a warp takes in one step of k.

    `least` counts all lanes of a read at once; `served` by the rule that reads of 16 bytes follow
    (`shared_memory.request_wavefronts`).
    """

    least: float
    served: float


def launch_of(
    version: Version, tile: Tile, m: int, n: int, k: int, multiprocessors: int = 1, variant: Variant | None = None
) -> LaunchConfig:
    """Grid, block and dynamic shared memory for one product, of whole row-major matrices unless `variant` says else."""
    problem = Problem.contiguous(m, n, k)
    return version.launches(tile, variant or Variant(), problem, multiprocessors).main.config


def shared_bytes(version: Version, tile: Tile) -> int:
    """Bytes of shared memory a block, static or dynamic, for whole row-major matrices."""
    structure = version.structure
    if not structure.shared:
        return 0
    padding = structure.a_padding * (tile.bm if structure.a_in_lines else tile.bk) * FLOAT_BYTES
    return version.shared_bytes(tile, Variant()) or tile.shared_bytes + padding


def steps_of_thread(tile: Tile) -> int:
    """Steps of k that a thread takes in a step of BK: all of them, or its share."""
    return tile.tk or tile.bk


# Shared memory ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Read:
    """One read of a fragment: the first word of each lane, the words that follow on, and the steps of k it serves."""

    firsts: tuple[int, ...]
    width: int
    steps: int

    @property
    def least(self) -> int:
        """Wavefronts if all lanes are served at once."""
        return wavefronts(vector_words(self.firsts, self.width))

    @property
    def served(self) -> int:
        """Wavefronts by the rule of `request_wavefronts`."""
        absent = (None,) * (WARP - len(self.firsts))
        return request_wavefronts((*self.firsts, *absent), self.width, load=True)


def shared_wavefronts(structure: Structure, tile: Tile) -> Wavefronts:
    """Wavefronts per step of k for both fragments of a warp."""
    reads = _fragment_reads(structure, tile)
    return Wavefronts(
        least=sum(read.least / read.steps for read in reads), served=sum(read.served / read.steps for read in reads)
    )


def shared_loads(structure: Structure, tile: Tile) -> float:
    """Load instructions per thread and step of k for both fragments."""
    return sum(1 / read.steps for read in _fragment_reads(structure, tile))


def _fragment_reads(structure: Structure, tile: Tile) -> list[_Read]:
    """All reads for the fragments of A and B.

    Where a tile lies in lines, [m, k], the compiler reads four k of one at once (tests/kernels/test_machine_code.py),
    unless lines do not begin at multiples of 16 bytes. Other reads are of four neighbours, where a thread has four.
    """
    places = [_thread_place(structure, tile, lane) for lane in range(min(WARP, tile.threads))]
    rows = [[_line(structure, m, i, tile.tm, tile.wm) for m, _ in places] for i in range(tile.tm)]
    columns = [[_column(structure, tile, n, j) for _, n in places] for j in range(tile.tn)]
    reads = _reads(rows, structure.a_in_lines, tile.bk + structure.a_padding)
    if structure.copy_b != "none":
        if structure.swizzled:
            columns = [[n ^ n >> 5 << 2 for n in line] for line in columns]
        reads += _reads(columns, structure.b_in_lines, tile.bk)
    return reads


def _reads(lines: list[list[int]], in_lines: bool, row: int) -> list[_Read]:
    """The reads of a fragment whose outputs have these lines by lane, in rows of `row` floats if it lies in lines."""
    if in_lines:
        width = VECTOR if row % VECTOR == 0 else 1
        return [_Read(tuple(line * row for line in output), width, width) for output in lines]
    width = VECTOR if len(lines) % VECTOR == 0 else 1
    return [_Read(tuple(output), width, 1) for output in lines[::width]]


def _column(structure: Structure, tile: Tile, thread: int, j: int) -> int:
    if structure.split_columns:
        return j // VECTOR * (tile.bn * VECTOR // tile.tn) + thread * VECTOR + j % VECTOR
    return _line(structure, thread, j, tile.tn, tile.wn)


def _line(structure: Structure, thread: int, i: int, outputs: int, warp: int) -> int:
    """Row (column) in the block of the i-th of a thread's `outputs` rows (columns)."""
    if structure.lanes == "warp tile":
        return i // VECTOR * (VECTOR * warp // outputs) + thread * VECTOR + i % VECTOR
    if structure.lanes == "warp lines":
        return thread + i * (warp // outputs)
    return thread * outputs + i


def _thread_place(structure: Structure, tile: Tile, lane: int) -> tuple[int, int]:
    """Row and column of a lane of the first warp in the grid of the threads of its block or warp tile."""
    if structure.lanes == "warp tile":
        of_four, of_eight = lane // 2 % 4, lane % 2 + lane // 8 * 2
        return (of_four, of_eight) if tile.wm // tile.tm == 4 else (of_eight, of_four)
    if structure.lanes == "warp lines":
        return divmod(lane, tile.wn // tile.tn)
    if structure.lanes == "rows":
        column, row = divmod(lane, tile.bm // tile.tm)
        return row, column
    row, column = divmod(lane, tile.bn // tile.tn)
    return row % (tile.bm // tile.tm), column


# Global memory, where nothing passes through shared memory ---------------------------------------------------


def global_loads(tile: Tile) -> int:
    """Load instructions per thread and step of k: its floats of A and of B, one by one."""
    return tile.tm + tile.tn


def global_lines(structure: Structure, tile: Tile) -> int:
    """128-byte lines that a warp's loads of one step of k touch: what the L1 cache looks up and delivers."""
    line = WAVEFRONT_BYTES // FLOAT_BYTES
    return sum(len({word // line for word in words}) for words in _global_words(structure, tile))


def global_sectors(structure: Structure, tile: Tile) -> int:
    """32-byte sectors that a warp's loads of one step of k touch."""
    return sum(traffic.sectors(words) for words in _global_words(structure, tile))


def _global_words(structure: Structure, tile: Tile) -> list[list[int]]:
    """The words of each load of a step of k: a row of A is far from the next one, neighbours in B are neighbours."""
    places = [_thread_place(structure, tile, lane) for lane in range(min(WARP, tile.threads))]
    of_a = [[(row * tile.tm + i) * _LONG_ROW for row, _ in places] for i in range(tile.tm)]
    return of_a + [[column * tile.tn + j for _, column in places] for j in range(tile.tn)]


# Copies ------------------------------------------------------------------------------------------------------


def copy_instructions(structure: Structure, tile: Tile) -> float:
    """Load and store instructions per thread and step of BK that bring both tiles to where they are used.

    A float is a load and a store. Of four it is one load and one store, but four stores where A is turned round. By
    cp.async four are one instruction, or four where A is turned.
    """
    a, b = (lines * tile.bk / tile.threads for lines in (tile.bm, tile.bn))
    return _copies(structure.copy_a, a, structure.turns_a) + _copies(structure.copy_b, b, turned=False)


def _copies(copy: Copy, floats: float, turned: bool) -> float:
    match copy:
        case "floats":
            return 2 * floats
        case "vectors":
            return floats / VECTOR + (floats if turned else floats / VECTOR)
        case "async":
            return floats if turned else floats / VECTOR
        case "none":
            return floats / VECTOR


def copy_wavefronts(structure: Structure, tile: Tile) -> int:
    """Wavefronts per block and step of BK to write the tiles into shared memory without conflicts."""
    lines = tile.bm + (tile.bn if structure.copy_b != "none" else 0)
    return ceil_div(lines * tile.bk * FLOAT_BYTES, WAVEFRONT_BYTES)


def barriers(tile: Tile) -> int:
    """Barriers per step of BK: two where one buffer is filled and used in turn, one where buffers alternate."""
    return 2 if tile.stages == 1 else 1
