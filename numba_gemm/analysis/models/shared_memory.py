"""Shared memory: wavefronts of an access, and the bound that they set on FP32 arithmetic.

Shared memory has 32 banks of 4 bytes; word i lies in bank i mod 32. A wavefront delivers one word of each bank, 128
bytes at most, to as many lanes as want it, and a multiprocessor has one per cycle. Lanes that want different words of
one bank need a wavefront each; the same word is a broadcast.

`wavefronts` counts one set of words at once. `request_wavefronts` counts one instruction of a warp, of which the
hardware serves as many lanes at once as make 128 bytes:

- 4 bytes per lane: the whole warp;
- 8 bytes: its two halves, one after the other;
- 16 bytes: its four quarters, one after the other;
- loads of 8 or 16 bytes take twice as many lanes at once if each lane of the warp reads the same address as the lane
  whose number differs in bit 0, or each the same as the one that differs in bit 1. So a 16-byte load has
  two wavefronts at least, and four without such pairs. Stores do not gain from pairs.

Pairs are what NVIDIA says of 16-byte loads on compute capability 7.0 (developer forum, "Unexpected shared memory bank
conflict"). No document of NVIDIA's has the whole rule: `benchmarks/counters.py` holds it against a GPU's counters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from numba_gemm.hardware.devices import Hardware
from numba_gemm.hardware.quantity import require
from numba_gemm.tile import WARP

BANKS = 32


def wavefronts(words: Iterable[int]) -> int:
    """Wavefronts for one access of a warp to these words (indices of floats): most distinct words in one bank."""
    banks: dict[int, set[int]] = {}
    for word in words:
        require(0, word=word)
        banks.setdefault(word % BANKS, set()).add(word)
    return max((len(distinct) for distinct in banks.values()), default=0)


def request_wavefronts(starts: Sequence[int | None], width: int, *, load: bool) -> int:
    """Wavefronts for one instruction of a warp.

    Args:
        starts: for each of the 32 lanes the index of its first float, or None where it takes no part.
        width: floats that each lane accesses: 1, 2 or 4.
        load: whether it is a load; else a store.

    """
    if len(starts) != WARP:
        raise ValueError(f"starts are {len(starts)} places; a warp has {WARP} lanes")
    if width not in (1, 2, 4):
        raise ValueError(f"width is {width}; an access of a lane has 1, 2 or 4 floats")
    at_once = WARP // width
    if load and width > 1 and (_pairs_agree(starts, 1) or _pairs_agree(starts, 2)):
        at_once *= 2
    return sum(_served(starts[first : first + at_once], width) for first in range(0, WARP, at_once))


def _served(starts: Sequence[int | None], width: int) -> int:
    """Wavefronts for these lanes at once."""
    return wavefronts(vector_words((start for start in starts if start is not None), width))


def _pairs_agree(starts: Sequence[int | None], bit: int) -> bool:
    """Whether lanes whose numbers differ in that bit alone have the same address, or one of them takes no part."""
    pairs = ((start, starts[lane ^ bit]) for lane, start in enumerate(starts))
    return all(one == other or None in (one, other) for one, other in pairs)


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
    """Bound of shared memory as a fraction of FP32 peak: one wavefront per cycle for those that full rate wants."""
    require(0, wavefronts_per_ffma=wavefronts_per_ffma)
    wanted = wavefronts_per_ffma * device.warp_ffma_per_cycle
    return min(1.0, 1 / wanted) if wanted else 1.0


def margin(tm: int, tn: int, wavefronts_per_k: int, device: Hardware) -> float:
    """Cycles of FFMA over cycles of shared memory for one k of a warp, TM × TN outputs per thread; < 1 is a bound."""
    require(1, tm=tm, tn=tn, wavefronts_per_k=wavefronts_per_k)
    return tm * tn / device.warp_ffma_per_cycle / wavefronts_per_k


def fragment_floats(lane_rows: int, lane_columns: int, tm: int, tn: int) -> int:
    """Different floats that a warp reads for one k, with lanes laid out as lane_rows × lane_columns."""
    require(1, lane_rows=lane_rows, lane_columns=lane_columns, tm=tm, tn=tn)
    return lane_rows * tm + lane_columns * tn
