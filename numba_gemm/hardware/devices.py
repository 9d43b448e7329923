"""The devices: what each multiprocessor has, how fast it runs, and the peaks that follow.

Sources, all of them NVIDIA's:

- multiprocessors, clocks, bandwidth and tensor throughput: the whitepapers of the A100, the H100, GA102 (RTX A6000),
  Ada (RTX 4090) and RTX Blackwell (RTX 5080), and the datasheet of the H200. Clocks are boost clocks.
- registers, shared memory, threads, warps and blocks: CUDA C++ Programming Guide, "Technical Specifications per
  Compute Capability".

Peaks are dense, without the factor of two that structured sparsity is advertised with, and accumulate in FP32.

    FP32 peak   = multiprocessors · lanes · 2 · clock           A100: 108 · 64 · 2 · 1.41 GHz = 19.5 TFLOP/s
    tensor peak = multiprocessors · FLOP per cycle · clock      H100: 132 · 4096 · 1.83 GHz = 989 TFLOP/s (BF16)
    ridge       = peak / bandwidth                              A100: 19.5 / 2.0 = 9.75 FLOP/B
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numba_gemm.hardware.quantity import Result
from numba_gemm.tile import WARP, opt_in_shared_bytes

#: A multiprocessor is four partitions, each with a warp scheduler, a quarter of the registers and one tensor core.
PARTITIONS = 4
#: Shared memory delivers one wavefront of 32 banks × 4 bytes per cycle, on every device below.
WAVEFRONT_BYTES = 128


@dataclass(frozen=True)
class Hardware(Result):
    """One device. Bytes, hertz, FLOP/s; counts are per multiprocessor (SM) unless the name says otherwise."""

    name: str
    compute_capability: tuple[int, int]
    multiprocessors: int
    #: FP32 multiply-adds an SM starts each cycle.
    fp32_lanes: int
    clock_hz: float
    #: Bytes per second of device memory.
    memory_bandwidth: float
    l2_bytes: int
    shared_bytes: int
    max_threads: int
    max_blocks: int
    #: FLOP per cycle of an SM's tensor cores with BF16 operands, FP32 accumulation, dense.
    bf16_flops_per_cycle: int
    #: The clock that the tensor peak is stated for, where it is not `clock_hz`.
    tensor_clock_hz: float
    registers: int = 64 * 1024

    @property
    def max_warps(self) -> int:
        """Warps that an SM holds."""
        return self.max_threads // WARP

    @property
    def shared_bytes_per_block(self) -> int:
        """Shared memory that one block can opt in to, in bytes."""
        return opt_in_shared_bytes(self.compute_capability)

    @property
    def fp32_peak(self) -> float:
        """FLOP/s of FP32 multiply-adds, tensor cores not counted."""
        return self.multiprocessors * self.fp32_lanes * 2 * self.clock_hz

    @property
    def bf16_peak(self) -> float:
        """Dense FLOP/s of the tensor cores with BF16 operands."""
        return self.multiprocessors * self.bf16_flops_per_cycle * self.tensor_clock_hz

    @property
    def tf32_peak(self) -> float:
        """Dense FLOP/s with TF32 operands (10 bits of mantissa): half of BF16 on all devices here."""
        return self.bf16_peak / 2

    @property
    def ridge(self) -> float:
        """FLOP per byte of device memory above which FP32 arithmetic is the bound."""
        return self.fp32_peak / self.memory_bandwidth

    @property
    def bf16_ridge(self) -> float:
        """FLOP per byte of device memory above which BF16 tensor arithmetic is the bound."""
        return self.bf16_peak / self.memory_bandwidth

    @property
    def warp_ffma_per_cycle(self) -> float:
        """FFMA instructions of whole warps that an SM starts each cycle: 2 with 64 lanes, 4 with 128."""
        return self.fp32_lanes / WARP

    def to_dict(self) -> dict[str, Any]:
        """The fields and what follows from them."""
        derived = (
            "max_warps",
            "shared_bytes_per_block",
            "fp32_peak",
            "bf16_peak",
            "tf32_peak",
            "ridge",
            "bf16_ridge",
            "warp_ffma_per_cycle",
        )
        return super().to_dict() | {name: getattr(self, name) for name in derived}


#: SXM, 80 GB. The datasheet's 2039 GB/s as the source documents and all their figures round it.
A100 = Hardware(
    "A100",
    (8, 0),
    multiprocessors=108,
    fp32_lanes=64,
    clock_hz=1.41e9,
    memory_bandwidth=2.0e12,
    l2_bytes=40 * 2**20,
    shared_bytes=164 * 1024,
    max_threads=2048,
    max_blocks=32,
    bf16_flops_per_cycle=2048,
    tensor_clock_hz=1.41e9,
)

#: SXM5. The 67 TFLOP/s of FP32 are at 1.98 GHz; the 989 TFLOP/s of BF16 at 1.83 GHz, where FP32 would make 61.8.
H100 = Hardware(
    "H100",
    (9, 0),
    multiprocessors=132,
    fp32_lanes=128,
    clock_hz=1.98e9,
    memory_bandwidth=3.35e12,
    l2_bytes=50 * 2**20,
    shared_bytes=228 * 1024,
    max_threads=2048,
    max_blocks=32,
    bf16_flops_per_cycle=4096,
    tensor_clock_hz=1.83e9,
)

#: An H100 with faster memory; the driver reports 60 MiB of L2.
H200 = Hardware(
    "H200",
    (9, 0),
    multiprocessors=132,
    fp32_lanes=128,
    clock_hz=1.98e9,
    memory_bandwidth=4.8e12,
    l2_bytes=60 * 2**20,
    shared_bytes=228 * 1024,
    max_threads=2048,
    max_blocks=32,
    bf16_flops_per_cycle=4096,
    tensor_clock_hz=1.83e9,
)

RTX_A6000 = Hardware(
    "RTX A6000",
    (8, 6),
    multiprocessors=84,
    fp32_lanes=128,
    clock_hz=1.80e9,
    memory_bandwidth=768e9,
    l2_bytes=6 * 2**20,
    shared_bytes=100 * 1024,
    max_threads=1536,
    max_blocks=16,
    bf16_flops_per_cycle=1024,
    tensor_clock_hz=1.80e9,
)

RTX_4090 = Hardware(
    "RTX 4090",
    (8, 9),
    multiprocessors=128,
    fp32_lanes=128,
    clock_hz=2.52e9,
    memory_bandwidth=1008e9,
    l2_bytes=72 * 2**20,
    shared_bytes=100 * 1024,
    max_threads=1536,
    max_blocks=24,
    bf16_flops_per_cycle=512,
    tensor_clock_hz=2.52e9,
)

RTX_5080 = Hardware(
    "RTX 5080",
    (12, 0),
    multiprocessors=84,
    fp32_lanes=128,
    clock_hz=2.617e9,
    memory_bandwidth=960e9,
    l2_bytes=64 * 2**20,
    shared_bytes=100 * 1024,
    max_threads=1536,
    max_blocks=24,
    bf16_flops_per_cycle=512,
    tensor_clock_hz=2.617e9,
)

DEVICES: tuple[Hardware, ...] = (A100, H100, H200, RTX_A6000, RTX_4090, RTX_5080)

_BY_NAME = {device.name.casefold(): device for device in DEVICES}


def find(name: str) -> Hardware:
    """The device of that name, in any case.

    Raises:
        ValueError: if there is none; the message lists all.

    """
    found = _BY_NAME.get(" ".join(name.casefold().split()))
    if found is None:
        names = ", ".join(device.name for device in DEVICES)
        raise ValueError(f"unknown device {name!r}; there are {names}")
    return found


def find_by_driver_name(name: str) -> Hardware:
    """The device that the driver calls so, as stored results do.

    Raises:
        ValueError: if there is none, as in `find`.

    """
    return find(name.removeprefix("NVIDIA "))


def mma_flops(m: int = 16, n: int = 8, k: int = 16) -> int:
    """FLOP of one tensor-core instruction of a warp: 2 · m · n · k.

    m16n8k16 is 2048 multiply-adds, 4096 FLOP; one FFMA of a warp is 32 multiply-adds.
    """
    return 2 * m * n * k


def mma_cycles(device: Hardware, m: int = 16, n: int = 8, k: int = 16) -> float:
    """Cycles one tensor core is busy with a BF16 instruction: H100 4, A100 8 for m16n8k16.

    The four cores of an SM together so finish one m16n8k16 per cycle on an H100, one in two cycles on an A100.
    """
    return mma_flops(m, n, k) * PARTITIONS / device.bf16_flops_per_cycle
