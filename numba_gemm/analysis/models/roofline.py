"""The roofline: the least time that arithmetic and memory allow a product C[M,N] = A[M,K]·B[K,N].

    FLOPs     = 2·M·N·K                       one multiply and one add a term
    bytes     = 4·(M·K + K·N + M·N)           A and B read once, C written once
    intensity = FLOPs / bytes                 K/6 for a cube
    t         = max(FLOPs / peak, bytes / bandwidth)

Williams, Waterman, Patterson, "Roofline: an insightful visual performance model" (2009).
"""

from __future__ import annotations

from dataclasses import dataclass

from numba_gemm.hardware.devices import Hardware
from numba_gemm.hardware.quantity import Result, require
from numba_gemm.tile import FLOAT_BYTES


@dataclass(frozen=True)
class Roofline(Result):
    """The two bounds of one product on one device: FLOP, bytes, FLOP per byte, seconds."""

    flops: int
    minimum_bytes: int
    minimum_intensity: float
    ridge: float
    compute_bound_s: float
    memory_bound_s: float
    bound_s: float
    #: "compute" or "memory".
    bound: str


def flops(m: int, n: int, k: int) -> int:
    """FLOP of the product, 2·M·N·K."""
    require(0, m=m, n=n, k=k)
    return 2 * m * n * k


def minimum_bytes(m: int, n: int, k: int, element_bytes: int = FLOAT_BYTES) -> int:
    """Bytes that cross the memory bus if each element does so once."""
    require(0, m=m, n=n, k=k)
    return element_bytes * (m * k + k * n + m * n)


def intensity(flop: float, moved_bytes: float) -> float:
    """FLOP per byte; 0 where nothing is moved."""
    require(0, flop=flop, moved_bytes=moved_bytes)
    return flop / moved_bytes if moved_bytes else 0.0


def ridge(peak: float, bandwidth: float) -> float:
    """FLOP per byte at which both bounds take the same time."""
    return peak / bandwidth


def attainable(device: Hardware, flop_per_byte: float) -> float:
    """FP32 FLOP/s that the roofline allows at an intensity: min(peak, intensity · bandwidth)."""
    require(0, flop_per_byte=flop_per_byte)
    return min(device.fp32_peak, flop_per_byte * device.memory_bandwidth)


def peak_fraction(device: Hardware, flop_per_byte: float) -> float:
    """What the roofline allows at an intensity, as a fraction of FP32 peak: at most 1."""
    return attainable(device, flop_per_byte) / device.fp32_peak


def roofline(m: int, n: int, k: int, device: Hardware) -> Roofline:
    """Both bounds of the FP32 product on `device`."""
    work, least = flops(m, n, k), minimum_bytes(m, n, k)
    compute_s, memory_s = work / device.fp32_peak, least / device.memory_bandwidth
    return Roofline(
        flops=work,
        minimum_bytes=least,
        minimum_intensity=intensity(work, least),
        ridge=device.ridge,
        compute_bound_s=compute_s,
        memory_bound_s=memory_s,
        bound_s=max(compute_s, memory_s),
        bound="compute" if compute_s >= memory_s else "memory",
    )
