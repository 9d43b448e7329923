"""The devices: peaks and ridges of the source documents (§2.1, §2.8, §2.9), limits, and finding one by name."""

import json

import pytest

from numba_gemm.analysis.models.roofline import ridge
from numba_gemm.hardware import devices
from numba_gemm.hardware.devices import A100, DEVICES, H100, H200, RTX_4090, RTX_5080, RTX_A6000, find
from numba_gemm.tile import OPT_IN_SHARED_BYTES


@pytest.mark.parametrize(
    ("device", "tflops"),
    [(A100, 19.5), (H100, 66.9), (H200, 66.9), (RTX_A6000, 38.7), (RTX_4090, 82.6), (RTX_5080, 56.3)],
    ids=str,
)
def test_fp32_peak_is_the_vendors(device, tflops):
    assert device.fp32_peak / 1e12 == pytest.approx(tflops, abs=0.05)


@pytest.mark.parametrize(
    ("device", "tflops"),
    [(A100, 312), (H100, 989.4), (H200, 989.4), (RTX_A6000, 154.8), (RTX_4090, 165.2), (RTX_5080, 112.6)],
    ids=str,
)
def test_tensor_peaks_are_the_vendors(device, tflops):
    assert device.bf16_peak / 1e12 == pytest.approx(tflops, rel=2e-3)
    assert device.tf32_peak / 1e12 == pytest.approx(tflops / 2, rel=2e-3)


def test_peak_of_the_a100():
    """§2.1: 108·64·2·1.41 GHz = 19.5."""
    assert A100.fp32_peak == pytest.approx(108 * 64 * 2 * 1.41e9, rel=1e-15)
    assert round(A100.fp32_peak / 1e12, 1) == 19.5


@pytest.mark.parametrize(
    ("peak", "bandwidth", "stated"),
    [(19.5, 2.0, 9.75), (312, 2.0, 156), (67, 3.35, 20), (989, 3.35, 295)],
    ids=["A100", "A100 BF16", "H100", "H100 BF16"],
)
def test_ridges(peak, bandwidth, stated):
    """§2.1, the row of the ridge, from the rounded peaks."""
    assert ridge(peak, bandwidth) == pytest.approx(stated, abs=0.5 if stated == 295 else 1e-9)


def test_ridges_of_the_devices():
    """§2.1, the same from the devices."""
    assert round(A100.ridge, 2) == 9.75
    assert round(A100.bf16_ridge) == 156
    assert round(H100.ridge) == 20
    assert round(H100.bf16_ridge) == 295


def test_tf32_is_eight_times_fp32():
    """§2.1: TF32 156 TFLOPS = 8×."""
    assert round(A100.tf32_peak / 1e12) == 156
    assert A100.tf32_peak / A100.fp32_peak == pytest.approx(8)


def test_tensor_core_arithmetic():
    """§2.8 and row 44: one m16n8k16 is 4096 FLOP; an H100's SM finishes one a cycle, an A100's one in two."""
    assert devices.mma_flops() == 4096 == 2 * 2048
    assert devices.mma_flops() / (2 * 32) == 64  # FFMA of a warp: 32 multiply-adds
    assert devices.mma_cycles(H100) == 4
    assert devices.mma_cycles(A100) == 8
    assert devices.PARTITIONS * devices.mma_flops() / devices.mma_cycles(H100) == 4096
    assert devices.PARTITIONS * devices.mma_flops() / devices.mma_cycles(A100) == 2048
    assert devices.PARTITIONS / devices.mma_cycles(H100) == 1
    assert round(132 * 1.83e9 * 4096 / 1e12) == 989 == round(H100.bf16_peak / 1e12)


def test_other_tensor_instructions():
    """Row 44: m8n8k4 of Volta, and the 64×N×16 of a warp group, N = 8 … 256."""
    assert devices.mma_flops(8, 8, 4) == 512
    assert devices.mma_flops(64, 8, 16) == 4 * devices.mma_flops()
    assert devices.mma_cycles(H100, 64, 256, 16) == 4 * 32 * devices.mma_cycles(H100)


def test_clock_of_the_h100():
    """Flag 15: 67 TFLOPS need 1.98 GHz; at 1.83 GHz it is 61.8."""
    lanes = H100.multiprocessors * H100.fp32_lanes * 2
    assert round(67e12 / lanes / 1e9, 2) == 1.98 == H100.clock_hz / 1e9
    assert round(lanes * H100.tensor_clock_hz / 1e12, 1) == 61.8


def test_constants_of_the_source_documents():
    """§2.8, the last lines: L2, the 64 MiB of B and its stride, the RTX 5080."""
    assert A100.l2_bytes == 40 * 2**20
    assert H100.l2_bytes == 50 * 2**20
    assert 4096 * 4096 * 4 == 64 * 2**20 > H100.l2_bytes
    assert 4096 * 4 == 16 * 1024 == 128 * devices.WAVEFRONT_BYTES
    assert RTX_5080.compute_capability == (12, 0)
    assert RTX_5080.multiprocessors == 84


def test_shared_memory_of_the_a100():
    """Row 26: 163 KB a block, 164 KB an SM."""
    assert A100.shared_bytes == 164 * 1024
    assert A100.shared_bytes_per_block == 163 * 1024


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.name)
def test_limits_agree(device):
    """A block's shared memory, and the KB that the system reserves for it, fill a multiprocessor."""
    assert device.shared_bytes_per_block == OPT_IN_SHARED_BYTES[device.compute_capability]
    assert device.shared_bytes == device.shared_bytes_per_block + 1024
    assert device.max_warps == {(8, 0): 64, (9, 0): 64}.get(device.compute_capability, 48)


@pytest.mark.parametrize("name", ["A100", "a100", "rtx a6000", "RTX  4090", " rtx 5080 ", "h200"])
def test_find(name):
    assert find(name).name == " ".join(name.upper().split())


@pytest.mark.parametrize("name", ["", "V100", "RTX"])
def test_unknown_names(name):
    with pytest.raises(ValueError, match="unknown device") as caught:
        find(name)
    for device in DEVICES:
        assert device.name in str(caught.value)
    assert repr(name) in str(caught.value)


def test_as_plain_numbers():
    plain = json.loads(json.dumps(H100.to_dict()))
    assert plain["compute_capability"] == [9, 0]
    assert plain["memory_bandwidth"] == 3.35e12
    assert plain["ridge"] == H100.ridge
    assert plain["shared_bytes_per_block"] == 227 * 1024
    with pytest.raises(AttributeError):
        H100.name = "H200"
