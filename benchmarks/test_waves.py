"""The last wave of blocks, whole and partial: what a multiprocessor that has run out of blocks costs.

Four whole waves, and then more rows of blocks up to five; how many rows a wave has is up to the device. A rung whose
blocks have a multiprocessor each, and one with two blocks on each, have the same shapes.
"""

from __future__ import annotations

import pytest

from benchmarks.conftest import Measurement, clock, shared_problem
from numba_gemm import Version, ladder
from numba_gemm.analysis.models.occupancy import occupancy
from numba_gemm.analysis.models.waves import waves
from numba_gemm.driver import loading
from numba_gemm.hardware.at_hand import at_hand
from numba_gemm.kernels.interface import Variant
from numba_gemm.problem import Problem
from numba_gemm.tile import Tile

K = 4096
#: 4.75 is what the sources count at 4096³ on the GPU that they describe.
WAVES = [4.0, 4.1, 4.4, 4.75, 5.0]
#: Most multiprocessors that have their blocks side by side.
MOST_ACROSS = 16
VERSIONS = [ladder.find("boundary"), ladder.find("warp_tiled")]


def shape_of(tile: Tile, wanted: float, multiprocessors: int, resident: int) -> tuple[int, int, int]:
    """About so many waves of whole tiles, with so many blocks on a multiprocessor: M, N, K."""
    across = max(count for count in range(1, MOST_ACROSS + 1) if multiprocessors % count == 0)
    rows = round(wanted * multiprocessors / across)
    return rows * tile.bm, across * resident * tile.bn, K


@pytest.mark.parametrize("wanted", WAVES)
@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
@pytest.mark.benchmark(group="waves", timer=clock)
def test_waves(measurement: Measurement, version: Version, wanted: float) -> None:
    tile, device = version.default_tile, at_hand()
    assert device is not None
    dynamic = version.shared_bytes(tile, Variant())
    step = version.launches(tile, Variant(), Problem.contiguous(tile.bm, tile.bn, tile.bk), 1).main
    loaded = loading.load(step.kernel, dynamic)
    resident = occupancy(tile.threads, loaded.registers, loaded.shared_bytes + dynamic, device).blocks_per_sm
    m, n, k = shape_of(tile, wanted, device.multiprocessors, resident)
    columns, rows = tile.grid(m, n)
    counted = waves(rows * columns, device.multiprocessors, resident)
    measurement.benchmark.extra_info.update(
        waves=counted.waves,
        wave_efficiency=counted.wave_efficiency,
        last_wave=counted.last_wave,
        slots=counted.slots,
    )
    measurement.version_against_cublas(version, tile, shared_problem(m, n, k))
