"""Few rows: at M = 1 every weight is used once, and each row more uses it once more.

    FLOPs     = 2·b·N·K                                   b rows
    intensity = 2·b·N·K / (weight·N·K + element·b·(N + K))     → 2b / weight bytes while b ≪ N, K

So 0.5 FLOP/B in FP32 and 1 in BF16 at b = 1: memory is the bound until b reaches the ridge, and fewer bytes per weight
are all that helps. Until then the time is flat in b, if enough loads are under way to use the bandwidth:

    bytes under way = bandwidth · latency                 Little's law

Little, "A Proof for the Queuing Formula: L = λW" (1961).
"""

from __future__ import annotations

from numba_gemm.analysis.models.roofline import flops, minimum_bytes
from numba_gemm.hardware.quantity import require
from numba_gemm.tile import FLOAT_BYTES


def weight_seconds(n: int, k: int, bandwidth: float, weight_bytes: float = FLOAT_BYTES) -> float:
    """Seconds to read B[K,N] once."""
    require(0, n=n, k=k)
    return n * k * weight_bytes / bandwidth


def weight_intensity(batch: int, weight_bytes: float = FLOAT_BYTES) -> float:
    """FLOP per byte of weights, 2·b / weight_bytes; A and C not counted."""
    require(0, batch=batch)
    return 2 * batch / weight_bytes


def intensity(
    batch: int, n: int, k: int, weight_bytes: float = FLOAT_BYTES, element_bytes: float = FLOAT_BYTES
) -> float:
    """FLOP per byte with A[b,K] and C[b,N] counted."""
    require(1, batch=batch, n=n, k=k)
    return flops(batch, n, k) / (weight_bytes * n * k + element_bytes * batch * (n + k))


def ridge_batch_of_weights(ridge: float, weight_bytes: float = FLOAT_BYTES) -> float:
    """The batch from which arithmetic is the bound, if only weights are read: ridge · weight_bytes / 2."""
    require(0, ridge=ridge)
    return ridge * weight_bytes / 2


def ridge_batch(
    ridge: float, n: int, k: int, weight_bytes: float = FLOAT_BYTES, element_bytes: float = FLOAT_BYTES
) -> float:
    """The batch at which `intensity` is `ridge`; infinite where A and C alone keep it below.

    ridge · weight·N·K / (2·N·K − ridge · element·(N + K)).
    """
    require(0, ridge=ridge)
    require(1, n=n, k=k)
    room = 2 * n * k - ridge * element_bytes * (n + k)
    return ridge * weight_bytes * n * k / room if room > 0 else float("inf")


def bound_seconds(batch: int, n: int, k: int, bandwidth: float, peak: float) -> float:
    """Least seconds of the FP32 product of b rows: max(FLOPs / peak, bytes of A, B and C / bandwidth)."""
    return max(flops(batch, n, k) / peak, minimum_bytes(batch, n, k) / bandwidth)


def bytes_under_way(bandwidth: float, latency: float) -> float:
    """Bytes that have to be on their way at any time, to use a bandwidth at a latency in seconds."""
    require(0, bandwidth=bandwidth, latency=latency)
    return bandwidth * latency
