"""The kernel for few rows in machine code: 16-byte loads, many of them under way, and nothing in local memory."""

from functools import cache

import pytest
from support.compiled import Compiled

from numba_gemm.analysis.code import sass
from numba_gemm.analysis.code.machine_code import ARCHITECTURES
from numba_gemm.kernels.interface import Variant
from numba_gemm.kernels.skinny import DEFAULT_TILE, GEMV_TILE, resident_blocks, rows_of
from numba_gemm.tile import Tile

pytestmark = pytest.mark.machine_code

#: Registers of a multiprocessor, all architectures.
REGISTERS = 65536


class Skinny(Compiled):
    def __init__(self, arch, tile, variant):
        super().__init__("skinny", arch, tile, variant)
        self.rows = rows_of(tile, variant)
        self.blocks = resident_blocks(tile, self.rows)

    @property
    def report(self):
        return f"{super().report}; {self.rows} rows, {self.loads_under_way} loads under way"

    @property
    def loads(self):
        """Where in the loop the loads of whole steps are: a step's in one go, no jump or predicate among them.

        Those of the last, partial step have one or the other, each.
        """
        runs, run = [], []
        for at, instruction in enumerate(self.loop.body):
            if instruction.base in ("BRA", "BSSY", "BSYNC"):
                runs, run = [*runs, run], []
            elif instruction.base == "LDG" and not instruction.predicate:
                run.append(at)
        return [at for run in runs if len(run) >= self.tile.tk for at in run]

    @property
    def loads_under_way(self):
        """Most loads that a thread has begun when it first needs one of them, going round the loop."""
        body, loads = self.loop.body, self.loads
        most = 0
        for at in loads:
            loaded = {f"R{int(body[at].operands[0][1:]) + q}" for q in range(4)}
            order = [*range(at + 1, len(body)), *range(at + 1)]
            use = next(n for n in order if body[n].base == "FFMA" and loaded & set(_sources(body[n])))
            distance = (use - at) % len(body)
            most = max(most, sum((other - at) % len(body) < distance for other in loads))
        return most


def _sources(instruction):
    return [operand.split(".")[0] for operand in instruction.operands[1:]]


@cache
def compiled(arch="sm_90", tile=DEFAULT_TILE, **variant):
    return Skinny(arch, tile, Variant(whole=False, **variant))


def check_a_kernel_with_vectors(kernel):
    print(kernel.report)
    tile = kernel.tile
    assert kernel.spilled == 0, kernel.report
    assert kernel.code.registers * tile.threads * kernel.blocks <= REGISTERS, kernel.report
    # Two steps, one for each of a thread's buffers.
    assert kernel.loop.ffma == 2 * kernel.rows * 4 * tile.tk, kernel.report
    assert kernel.loop.barriers == 2, kernel.report
    # All loads of weights are of 16 bytes: a whole step's, and once more with predicates for the last step.
    assert len(kernel.loads) == 2 * tile.tk, kernel.report
    assert kernel.widths("LDG") == {16: 4 * tile.tk}, kernel.report
    # Rows of A are read by 16 bytes, four k at once.
    reads = [i.access_bytes for i in sass.select(kernel.loop.body, "LDS") if i.predicate != "@!PT"]
    assert reads == [16] * (2 * kernel.rows * tile.tk // 4), kernel.report
    # While a thread computes a step, it has the loads of the next one under way; before, both.
    assert kernel.loads_under_way == 2 * tile.tk, kernel.report


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_sixteen_rows_of_a_transposed_operand(arch):
    """The most registers that any of them needs."""
    check_a_kernel_with_vectors(compiled(arch, b_along_k=True))


@pytest.mark.parametrize("rows", [8, 16])
def test_rows_of_a_row_major_operand(rows):
    check_a_kernel_with_vectors(compiled(rows=rows))


@pytest.mark.parametrize("along_k", [False, True], ids=["lines along n", "lines along k"])
def test_one_row(along_k):
    kernel = compiled(tile=GEMV_TILE, b_along_k=along_k)
    check_a_kernel_with_vectors(kernel)
    # Latency times bandwidth of an H200, by multiprocessor: 800 ns · 4.26 TB/s / 132 = 26 KB. On average a thread has
    # between one step and two under way.
    assert kernel.blocks * GEMV_TILE.threads * GEMV_TILE.tk * 16 >= 26e3, kernel.report


def test_one_square_of_weights_a_thread():
    """Half the loads a thread, twice the threads; the tile to try where sixteen rows are not needed."""
    kernel = compiled(tile=Tile(8, 128, 32, 8, 4, stages=3, tk=4), b_along_k=True)
    check_a_kernel_with_vectors(kernel)
    assert kernel.blocks == 2, kernel.report


def test_unaligned_operands_spill_nothing():
    kernel = compiled(vector=False, b_along_k=True)
    print(kernel.report)
    assert kernel.spilled == 0, kernel.report
    assert kernel.widths("LDG").keys() == {4}, kernel.report
