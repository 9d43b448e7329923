"""The model of occupancy against CUDA's own calculator, for every rung as it is loaded."""

import pytest

from benchmarks.resident import resident_blocks
from numba_gemm.analysis.models.occupancy import occupancy
from numba_gemm.driver import loading
from numba_gemm.hardware.at_hand import at_hand
from numba_gemm.kernels.interface import Variant
from numba_gemm.ladder import RUNGS
from numba_gemm.problem import Problem


@pytest.mark.gpu
@pytest.mark.parametrize("version", RUNGS, ids=lambda version: version.name)
def test_blocks_of_a_multiprocessor_are_those_that_cuda_counts(version):
    tile = version.default_tile
    step = version.launches(tile, Variant(), Problem.contiguous(tile.bm, tile.bn, tile.bk), 1).main
    dynamic = step.config.shared_bytes
    loaded = loading.load(step.kernel, dynamic)
    counted = resident_blocks(loaded.function, tile.threads, dynamic)
    predicted = occupancy(tile.threads, loaded.registers, loaded.shared_bytes + dynamic, at_hand())
    assert predicted.blocks_per_sm == counted, predicted
