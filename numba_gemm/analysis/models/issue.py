"""Instruction issue: the share of FFMA among the instructions bounds the fraction of FP32 peak.

Each of the four schedulers of a multiprocessor issues one instruction of a warp per cycle. With 64 FP32 lanes two of
the four slots can start an FFMA, so issue is a bound only below a share of one half; with 128 lanes all four can,
and the share is itself the bound.
"""

from __future__ import annotations

from numba_gemm.hardware.devices import PARTITIONS, Hardware
from numba_gemm.hardware.quantity import require


def ffma_share(ffma: int, loads: int, others: int = 0) -> float:
    """FFMA over all instructions of the loop."""
    require(0, ffma=ffma, loads=loads, others=others)
    total = ffma + loads + others
    return ffma / total if total else 0.0


def peak_fraction(share: float, device: Hardware) -> float:
    """Bound of issue as a fraction of FP32 peak, for a share of FFMA."""
    require(0, share=share)
    return min(1.0, share * PARTITIONS / device.warp_ffma_per_cycle)
