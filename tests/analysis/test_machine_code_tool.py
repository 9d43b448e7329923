"""The tool that compiles for an architecture without a GPU, on small kernels of its own."""

import os
import subprocess
import sys

import numpy as np
import pytest
from numba import cuda, float32, types, uint32

from numba_gemm.analysis.code import machine_code, sass
from numba_gemm.compiler.cubin import Cubin

pytestmark = pytest.mark.machine_code

VECTOR = float32[::1]
MATRIX = float32[:, ::1]
SAXPY_SIGNATURE = types.void(float32, VECTOR, VECTOR)
OUTER_SIGNATURE = types.void(MATRIX, MATRIX, MATRIX)

FOREIGN_CU = """
extern "C" __device__ float fused(float a, float b) { return a * b + 2.0f; }
"""


def foreign_ptx(live_values):
    """The same function for a linker that never inlines, holding so many values at once.

    Clock reads stay in order and the sum starts with the last one, so none can be added early.
    """
    values = range(live_values)
    reads = "".join(f"mov.u32 %r, %clock; mov.b32 %v{i}, %r;\n" for i in values)
    sums = "".join(f"add.f32 %x, %x, %v{i};\n" for i in reversed(values))
    return f"""
        .version 8.0
        .target sm_80
        .address_size 64
        .visible .func (.param .b32 result) fused(.param .b32 a, .param .b32 b)
        {{ .reg .f32 %x, %y, %v<{live_values + 1}>; .reg .u32 %r;
          ld.param.f32 %x, [a]; ld.param.f32 %y, [b];
          {reads}
          {sums}
          fma.rn.f32 %x, %x, %y, 0f40000000;
          st.param.f32 [result], %x; ret; }}
        """


def saxpy(a, x, y):
    i = uint32(cuda.grid(1))
    if i < uint32(x.shape[0]):
        y[i] = a * x[i] + y[i]


def reversed_block(x, y):
    """Through 1 KB of shared memory."""
    block = cuda.shared.array(256, float32, 16)
    i = uint32(cuda.threadIdx.x)
    block[i] = x[i]
    cuda.syncthreads()
    y[i] = block[np.uint32(255) - i]


def outer_products(A, B, C):
    """Holds 64 sums over a loop."""
    acc = cuda.local.array((8, 8), float32)
    for i in range(np.uint32(8)):
        for j in range(np.uint32(8)):
            acc[i, j] = float32(0)
    t = uint32(cuda.threadIdx.x)
    for k in range(uint32(A.shape[0])):
        for i in range(np.uint32(8)):
            for j in range(np.uint32(8)):
                acc[i, j] += A[k, i + t] * B[k, j + t]
    for i in range(np.uint32(8)):
        for j in range(np.uint32(8)):
            C[i + t, j] = acc[i, j]


@pytest.mark.parametrize("arch", machine_code.ARCHITECTURES)
def test_compiles_for_every_architecture(arch):
    code = machine_code.compile_kernel(cuda.jit(saxpy), SAXPY_SIGNATURE, arch)
    assert code.arch == arch
    assert "saxpy" in code.name
    assert 0 < code.registers <= 32
    assert (code.spill_store_bytes, code.spill_load_bytes, code.local_bytes, code.shared_bytes) == (
        0,
        0,
        0,
        0,
    )
    instructions = sass.parse(code.sass)
    assert sass.count(instructions, "FFMA") == 1
    assert len(sass.select(instructions, "STG")) == 1


@pytest.mark.parametrize("arch", machine_code.ARCHITECTURES)
def test_shared_bytes_are_those_that_the_kernel_declares(arch):
    code = machine_code.compile_kernel(cuda.jit(reversed_block), types.void(VECTOR, VECTOR), arch)
    assert code.shared_bytes == 256 * 4
    assert len(sass.select(sass.parse(code.sass), "BAR.SYNC")) == 1


@pytest.mark.parametrize("limit", [{"max_registers": 32}, {"launch_bounds": (1024, 2)}])
def test_register_limits_are_honoured_and_spills_reported(limit):
    free = machine_code.compile_kernel(cuda.jit(outer_products), OUTER_SIGNATURE, "sm_90")
    limited = machine_code.compile_kernel(cuda.jit(**limit)(outer_products), OUTER_SIGNATURE, "sm_90")
    assert free.registers > 64
    assert (free.spill_store_bytes, free.spill_load_bytes, free.local_bytes) == (0, 0, 0)
    assert limited.registers <= 32
    assert limited.spill_store_bytes > 0
    assert limited.spill_load_bytes > 0
    assert limited.local_bytes > 0


def test_main_loop_of_a_real_kernel():
    code = machine_code.compile_kernel(cuda.jit(outer_products), OUTER_SIGNATURE, "sm_90")
    loop = sass.main_loop(sass.parse(code.sass))
    assert loop.ffma % 64 == 0
    assert loop.per_ffma("LDG") == 16 / 64


def calling_kernel():
    fused = cuda.declare_device("fused", float32(float32, float32), abi="c")

    @cuda.jit
    def kernel(x, y):
        i = uint32(cuda.threadIdx.x)
        y[i] = fused(x[i], y[i])

    return kernel


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_foreign_cu_is_inlined(tmp_path, arch):
    path = tmp_path / "fused.cu"
    path.write_text(FOREIGN_CU)
    code = machine_code.compile_kernel(calling_kernel(), types.void(VECTOR, VECTOR), arch, [path])
    instructions = sass.parse(code.sass)
    assert sass.count(instructions, "CALL") == 0
    assert sass.count(instructions, "FFMA") == 1


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_foreign_ptx_is_called_and_its_registers_count(tmp_path, arch):
    """The called function needs more registers than the kernel, which ptxas does not know before the link."""
    path = tmp_path / "fused.ptx"
    path.write_text(foreign_ptx(live_values=100))
    code = machine_code.compile_kernel(calling_kernel(), types.void(VECTOR, VECTOR), arch, [str(path)])
    instructions = sass.parse(code.sass)
    assert sass.count(instructions, "CALL") == 1
    assert sass.count(instructions, "FFMA") == 0
    assert code.registers > 100


def test_no_driver_is_started_and_the_current_device_is_restored():
    from numba.cuda import dispatcher
    from numba.cuda.cudadrv.driver import driver

    before = (dispatcher.get_current_device, driver.is_initialized)
    machine_code.compile_kernel(cuda.jit(saxpy), SAXPY_SIGNATURE, "sm_80")
    with pytest.raises(TypeError, match="1 argument types given"):
        machine_code.compile_kernel(cuda.jit(saxpy), types.void(VECTOR), "sm_80")
    assert (dispatcher.get_current_device, driver.is_initialized) == before


@pytest.mark.gpu
def test_another_process_is_told_the_same():
    """With a driver, nvJitLink would keep what it linked, and have nothing to report of it the next time."""
    code = (
        "from numba_gemm.analysis.code.machine_code import compile_version; from numba_gemm.ladder import find;"
        "print(compile_version(find('naive'), 'sm_90'))"
    )
    environment = {**os.environ, "NUMBA_GEMM_CODE_CACHE": "0"}
    first, second = (
        subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )
    assert "registers=32" in first
    assert first == second


def test_errors_say_what_to_do(monkeypatch, tmp_path):
    kernel = cuda.jit(saxpy)
    with pytest.raises(ValueError, match=r"'sm_70': one of sm_80, .*sm_120"):
        machine_code.compile_kernel(kernel, SAXPY_SIGNATURE, "sm_70")
    with pytest.raises(ValueError, match=r"is \.cu or \.ptx, not \.cubin"):
        machine_code.compile_kernel(kernel, SAXPY_SIGNATURE, "sm_80", [tmp_path / "x.cubin"])
    with pytest.raises(RuntimeError, match=r"nvdisasm failed with exit status \d+ .*older"):
        machine_code.disassemble(b"no machine code")
    monkeypatch.setattr(machine_code, "find_nvidia_binary_utility", lambda _: None)
    with pytest.raises(RuntimeError, match=r"pip install 'numba-gemm\[inspect\]'"):
        machine_code.compile_kernel(kernel, SAXPY_SIGNATURE, "sm_80")
    monkeypatch.setattr(machine_code, "SIMULATOR", True)
    with pytest.raises(RuntimeError, match="unset NUMBA_ENABLE_CUDASIM"):
        machine_code.compile_kernel(kernel, SAXPY_SIGNATURE, "sm_80")


def test_an_unknown_log_format_is_an_error():
    log = "Compiling entry function 'k' for 'sm_80'\nUsed 8 registers"
    with pytest.raises(RuntimeError, match="log of ptxas is not as expected"):
        machine_code._describe("sm_80", Cubin("k", b"", log), 0)
