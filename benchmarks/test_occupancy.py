"""The same kernel with fewer warps on a multiprocessor than fit: how many does it take to hide what each waits for?

A block is given more dynamic shared memory than it uses, so that only so many fit. Together they always fill the shared
memory of a multiprocessor, and the L1, which has the rest of it, is as large each time. With 8×8 sums a thread
no more than a quarter of the warps fits into the registers; with 4×4 a half; one sum is for comparison, as each of its
FFMA waits for the one before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from cuda.bindings import driver as cu

from benchmarks.conftest import Measurement, Target, clock
from benchmarks.resident import resident_blocks
from numba_gemm import Tile, ladder
from numba_gemm.analysis.models.occupancy import filling_shared_bytes, occupancy
from numba_gemm.analysis.models.waves import waves
from numba_gemm.driver import loading
from numba_gemm.driver.compare import KnownProduct
from numba_gemm.driver.cuda_api import checked
from numba_gemm.driver.launch import PreparedLaunch
from numba_gemm.driver.loading import LoadedKernel
from numba_gemm.hardware.at_hand import at_hand
from numba_gemm.kernels.interface import Variant
from numba_gemm.problem import Problem

#: Version, tile, and blocks on a multiprocessor, the most of them as many as fit on an H200.
KERNELS = {
    "8x8": ("vectorized", Tile(128, 128, 8, 8, 8), (1, 2)),
    "4x4": ("vectorized", Tile(64, 64, 8, 4, 4), (1, 2, 4)),
    "1x1": ("shared", Tile(16, 16, 16), (1, 2, 4, 6)),
}
SWEEP = [
    pytest.param(version, tile, blocks, id=f"{name}-{blocks}")
    for name, (version, tile, counts) in KERNELS.items()
    for blocks in counts
]


@contextmanager
def allowed(loaded: LoadedKernel, shared_bytes: int) -> Iterator[None]:
    """Lets a kernel have so much dynamic shared memory, and as much as there is for all of its blocks."""
    attributes = cu.CUfunction_attribute
    carveout = attributes.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT

    def set_attribute(attribute: cu.CUfunction_attribute, value: int) -> None:
        checked("cuKernelSetAttribute", cu.cuKernelSetAttribute(attribute, value, loaded.handle, loaded.device))

    set_attribute(attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes)
    set_attribute(carveout, int(cu.CUshared_carveout.CU_SHAREDMEM_CARVEOUT_MAX_SHARED))
    try:
        yield
    finally:  # other benchmarks use the same kernel
        set_attribute(carveout, int(cu.CUshared_carveout.CU_SHAREDMEM_CARVEOUT_DEFAULT))


@pytest.mark.parametrize("shape", [(4096, 4096, 4096)], ids=["4096"])
@pytest.mark.parametrize(("name", "tile", "blocks"), SWEEP)
@pytest.mark.benchmark(group="occupancy", timer=clock)
def test_resident_warps(measurement: Measurement, problem: KnownProduct, name: str, tile: Tile, blocks: int) -> None:
    version, device = ladder.find(name), at_hand()
    assert device is not None
    step = version.launches(tile, Variant(), Problem.contiguous(*problem.shape), 1).main
    loaded = loading.load(step.kernel)
    of_block = filling_shared_bytes(blocks, device)
    shared_bytes = of_block - loaded.shared_bytes
    predicted = occupancy(tile.threads, loaded.registers, of_block, device)
    if predicted.blocks_per_sm < blocks:
        pytest.skip(f"{blocks} blocks of {loaded.registers} registers a thread do not fit on {device.name}")

    target = Target(problem)
    config = step.config._replace(shared_bytes=shared_bytes)
    candidate = PreparedLaunch(step._replace(config=config), loaded)
    for place, operand in zip("abc", target.operands, strict=False):
        candidate.set_place(place, operand.pointer)
    with allowed(loaded, shared_bytes):
        resident = resident_blocks(loaded.function, tile.threads, shared_bytes)
        assert resident == predicted.blocks_per_sm, f"the model says {predicted}"
        grid_x, grid_y = config.grid
        measurement.against_cublas(
            candidate,
            target,
            f"{version}, {tile}",
            version=version.name,
            tile=str(tile),
            outputs=tile.tm * tile.tn,
            shared_bytes=of_block,
            resident_blocks=resident,
            resident_warps=predicted.warps_per_sm,
            occupancy=predicted.occupancy,
            limiters=list(predicted.limiters),
            wave_efficiency=waves(grid_x * grid_y, device.multiprocessors, resident).wave_efficiency,
        )
