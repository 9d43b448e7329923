"""Shared memory: wavefronts of an access, and the bound that they set on FP32 arithmetic.

Shared memory has 32 banks of 4 bytes; word i lies in bank i mod 32. A wavefront delivers one word of each bank, 128
bytes at most, to as many lanes as want it, and a multiprocessor has one a cycle. Lanes that want different words of
one bank need a wavefront each; the same word is a broadcast.

The count here takes all lanes of a warp at once. Accesses of 16 bytes may instead be served by quarters of a warp,
which makes the least number of wavefronts four: what a device does has to be measured.
"""

from __future__ import annotations

from collections.abc import Iterable

from numba_gemm.analysis.hardware import Hardware
from numba_gemm.analysis.quantity import require

BANKS = 32


def wavefronts(words: Iterable[int]) -> int:
    """Wavefronts for one access of a warp to these words (indices of floats): most distinct words in one bank."""
    banks: dict[int, set[int]] = {}
    for word in words:
        require(0, word=word)
        banks.setdefault(word % BANKS, set()).add(word)
    return max((len(distinct) for distinct in banks.values()), default=0)


def vector_words(starts: Iterable[int], width: int = 4) -> list[int]:
    """The words of accesses of `width` floats that begin at `starts`."""
    return [start + offset for start in starts for offset in range(width)]


def swizzled_word(word: int) -> int:
    """XOR swizzle on chunks of 16 bytes: chunk c goes to c xor (c >> 3).

    On single floats, x xor (x >> 3), it is a bijection too, but tears the four floats of a 16-byte access apart.
    """
    require(0, word=word)
    chunk, offset = divmod(word, 4)
    return (chunk ^ (chunk >> 3)) * 4 + offset


def peak_fraction(wavefronts_per_ffma: float, device: Hardware) -> float:
    """Bound of shared memory as a fraction of FP32 peak: one wavefront a cycle for those that full rate wants."""
    require(0, wavefronts_per_ffma=wavefronts_per_ffma)
    wanted = wavefronts_per_ffma * device.warp_ffma_per_cycle
    return min(1.0, 1 / wanted) if wanted else 1.0


def margin(tm: int, tn: int, wavefronts_per_k: int, device: Hardware) -> float:
    """Cycles of FFMA over cycles of shared memory for one k of a warp with TM × TN outputs a thread; < 1 is a bound."""
    require(1, tm=tm, tn=tn, wavefronts_per_k=wavefronts_per_k)
    return tm * tn / device.warp_ffma_per_cycle / wavefronts_per_k


def fragment_floats(lane_rows: int, lane_columns: int, tm: int, tn: int) -> int:
    """Different floats that a warp reads for one k, with lanes laid out as lane_rows × lane_columns."""
    require(1, lane_rows=lane_rows, lane_columns=lane_columns, tm=tm, tn=tn)
    return lane_rows * tm + lane_columns * tn
