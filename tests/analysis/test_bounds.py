"""What is left of the source documents' worked numbers: latencies, and what a tile's arithmetic hides."""

import re

from numba_gemm import VERSIONS
from numba_gemm.analysis.models import structure
from numba_gemm.analysis.models.bounds import MEMORY_LATENCY, SHARED_LATENCY
from numba_gemm.analysis.models.explain import OVERHEAD_WITHOUT_SHARED
from numba_gemm.analysis.models.occupancy import registers_by_overhead
from numba_gemm.hardware.devices import A100, H100
from numba_gemm.ladder import find


def test_latencies():
    """§2.8, hardware constants: LDG about 500 cycles, STS about 20, LDS 18–20."""
    assert MEMORY_LATENCY == 500
    assert 18 <= SHARED_LATENCY <= 20


def test_a_tile_takes_longer_than_a_load():
    """§4, S2-5: the arithmetic of a tile of 128×128×8 takes 1024 cycles with 128 lanes, more than a load's 500."""
    tile = find("vectorized").default_tile
    multiply_adds = tile.bm * tile.bn * tile.bk
    assert multiply_adds / H100.fp32_lanes == 1024 > MEMORY_LATENCY
    assert multiply_adds / A100.fp32_lanes == 2048


def test_stores_of_a_tile():
    """§2.3: the stores of A that conflict are 4 a thread and tile, against 512 FFMA."""
    tile = find("vectorized").default_tile
    turned = find("vectorized").structure
    as_it_lies = find("untransposed").structure
    assert tile.bm * tile.bk / tile.threads == 4
    assert tile.tm * tile.tn * tile.bk == 512
    # Four stores of one float for one of four.
    assert structure.copy_instructions(turned, tile) - structure.copy_instructions(as_it_lies, tile) == 4 - 1


def test_rung_2_by_scalars():
    """§2.3: with two wavefronts an FFMA, 4 cycles have 2 FFMA, where the lanes would take 8."""
    cycles, wavefronts_per_ffma = 4, 2
    assert cycles / wavefronts_per_ffma == 2
    assert cycles * A100.warp_ffma_per_cycle == 8


def test_the_second_ladder_has_seven_rungs():
    """Flag 10: ex3 to ex9 are seven rungs, six steps."""
    assert {re.match(r"ex\d", version.name)[0] for version in VERSIONS if re.match(r"ex\d", version.name)} == {
        f"ex{number}" for number in range(3, 10)
    }


def test_registers_of_kernels_without_shared_memory():
    """Row 6: 39 registers for 16 outputs, 114 for 64. The estimate is 5 above the one and 22 below the other."""
    assert registers_by_overhead(4, 4, OVERHEAD_WITHOUT_SHARED) - 39 == 5
    assert registers_by_overhead(8, 8, OVERHEAD_WITHOUT_SHARED) - 114 == -22
