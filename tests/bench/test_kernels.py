"""The kernels that the measuring itself needs: one that only multiplies and adds, one that only waits for memory."""

import numpy as np
import pytest
from numba import cuda

from numba_gemm.bench import cold, limits
from numba_gemm.driver.launch import prepare_on
from numba_gemm.driver.operands import as_operand
from numba_gemm.kernels.interface import Array, Kernel, Step
from numba_gemm.tile import LaunchConfig


@pytest.mark.machine_code
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_120"])
def test_the_limit_is_made_of_multiply_adds_in_registers(arch):
    from numba_gemm.analysis.code import machine_code, sass

    code = machine_code.compile_kernel(limits.make_kernel(), limits.SIGNATURE, arch)
    loop = sass.main_loop(sass.parse(code.sass)).to_dict()
    assert loop["ffma"] == limits.STEPS * limits.SUMS
    assert loop["ffma_share"] > 0.98
    assert loop["operand_fetches_per_ffma"] < 1.5, "x and y are not reused: the register file would be the limit"
    assert code.local_bytes == 0
    assert code.registers * limits.THREADS * limits.BLOCKS_PER_SM <= 65536


@pytest.mark.device
def test_the_sums_converge():
    """sum = sum / 2 + 1 goes to 2, exactly, whatever it starts from."""
    result = cuda.to_device(np.zeros(4, np.float32))
    kernel = Kernel(limits.make_kernel, (), limits.SIGNATURE, cacheable=False)
    step = Step(kernel, LaunchConfig(grid=(2, 1), block=(2, 1)), (Array("result", (4,)), 0.5, 1.0, 10))
    prepare_on(step, {"result": as_operand(result, "result", 0)}, 0)()
    assert result.copy_to_host() == pytest.approx(2 * limits.SUMS)


def test_flops_are_counted_once_a_multiply_add():
    assert limits.flops_of(blocks=3, turns=5) == 2 * 3 * limits.THREADS * 5 * limits.STEPS * limits.SUMS


@pytest.mark.device
def test_the_chain_meets_every_link_once_and_comes_back(monkeypatch):
    seen = {}

    def prepare(step, operands, stream):
        seen["links"], seen["array"] = operands["links"].owner.copy_to_host(), operands["result"].owner
        return prepare_on(step, operands, stream)

    monkeypatch.setattr(cold, "prepare_on", prepare)
    cold.prepare_chain()()
    at, visited = 0, set()
    for _ in range(cold.LINKS):
        visited.add(at)
        at = int(seen["links"][at])
    assert at == 0
    assert len(visited) == cold.LINKS
    assert min(np.diff(sorted(visited))) * 4 >= 128, "two links share a line"
    assert seen["array"].copy_to_host()[0] == 0
