"""`banks`: the wavefronts that a version's accesses to shared memory take, counted on its own source.

A block of the kernel is traced (`tracing`), the widths of its accesses come from the machine code (`accesses`), and
each request of a warp is counted by the rule of `shared_memory.request_wavefronts`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from numba_gemm.analysis.code.accesses import Accesses, Site, of_launch, version_accesses
from numba_gemm.analysis.code.tracing import NOT_ACCESSED, Kind
from numba_gemm.analysis.models.shared_memory import BANKS, request_wavefronts, vector_words
from numba_gemm.hardware.quantity import Result, ceil_div
from numba_gemm.kernels.interface import Variant
from numba_gemm.tile import FLOAT_BYTES, Tile

#: (starts of 32 lanes or None, floats per lane, whether it is a load) → wavefronts.
Rule = Callable[[Sequence[int | None], int, bool], int]


@dataclass(frozen=True)
class SharedAccess(Result):
    """One line of the source that accesses shared memory. A request is one instruction of one warp."""

    array: str
    #: "read", "write", or "copy": the writing side of cp.async.
    kind: Kind
    #: File and line.
    site: str
    #: Bytes that each thread accesses at once.
    bytes: int
    #: Of all warps of a block, for one tile of K.
    requests_per_tile: int
    wavefronts_per_tile: int
    #: Wavefronts if each were full of different words: ⌈different words / 32⌉ per request.
    ideal_per_tile: int
    #: What a block does once, however many tiles of K it has.
    requests_once: int
    wavefronts_once: int


@dataclass(frozen=True)
class Banks(Result):
    """Wavefronts of shared memory of one block, for each tile of K."""

    version: int | str
    tile: Tile
    #: The architecture whose machine code the widths are from; None if they are the widest that the source allows.
    arch: str | None
    #: FFMA instructions of all warps of a block for a tile of K.
    ffma_per_tile: int
    load_wavefronts_per_tile: int
    load_ideal_per_tile: int
    store_wavefronts_per_tile: int
    store_ideal_per_tile: int
    #: Writes by cp.async, counted like stores.
    copy_wavefronts_per_tile: int
    copy_ideal_per_tile: int
    #: Wavefronts of loads for one FFMA of a warp, for `shared_memory.peak_fraction`.
    load_wavefronts_per_ffma: float
    accesses: tuple[SharedAccess, ...]

    def wavefronts(self, kind: Kind, m: int, n: int, k: int) -> int:
        """Wavefronts of a whole launch for C[m, n] = A[m, k] · B[k, n]; the shape has to be whole tiles."""
        own = [access for access in self.accesses if access.kind == kind]
        per_tile, once = sum(a.wavefronts_per_tile for a in own), sum(a.wavefronts_once for a in own)
        return of_launch(self.tile, m, n, k, per_tile=per_tile, once=once)


def banks(
    version: int | str, *, tile: Tile | None = None, arch: str | None = "sm_90", variant: Variant | None = None
) -> Banks:
    """Count the wavefronts of a version; arguments and errors as of `accesses.version_accesses`."""
    return count_banks(version_accesses(version, tile=tile, arch=arch, variant=variant))


def rule(starts: Sequence[int | None], width: int, load: bool) -> int:
    """The rule of `shared_memory.request_wavefronts`."""
    return request_wavefronts(starts, width, load=load)


def count_banks(accesses: Accesses, rule: Rule = rule) -> Banks:
    """The wavefronts of requests; by another rule for comparison with a measurement."""

    def of_request(site: Site, starts: tuple[int, ...]) -> int:
        lanes = [None if start == NOT_ACCESSED else start for start in starts]
        return rule(lanes, site.bytes // FLOAT_BYTES, site.kind == "read")

    requests = accesses.count("shared", lambda *_: 1)
    wavefronts = accesses.count("shared", of_request)
    ideals = accesses.count("shared", _ideal)
    found = tuple(
        SharedAccess(
            array=request.site.array,
            kind=request.site.kind,
            site=request.site.site,
            bytes=request.site.bytes,
            requests_per_tile=request.per_tile,
            wavefronts_per_tile=wavefront.per_tile,
            ideal_per_tile=ideal.per_tile,
            requests_once=request.once,
            wavefronts_once=wavefront.once,
        )
        for request, wavefront, ideal in zip(requests, wavefronts, ideals, strict=True)
    )

    def per_tile(kind: Kind) -> tuple[int, int]:
        own = [access for access in found if access.kind == kind]
        return sum(access.wavefronts_per_tile for access in own), sum(access.ideal_per_tile for access in own)

    loads, load_ideal = per_tile("read")
    stores, store_ideal = per_tile("write")
    copies, copy_ideal = per_tile("copy")
    return Banks(
        version=accesses.version,
        tile=accesses.tile,
        arch=accesses.arch,
        ffma_per_tile=accesses.ffma,
        load_wavefronts_per_tile=loads,
        load_ideal_per_tile=load_ideal,
        store_wavefronts_per_tile=stores,
        store_ideal_per_tile=store_ideal,
        copy_wavefronts_per_tile=copies,
        copy_ideal_per_tile=copy_ideal,
        load_wavefronts_per_ffma=loads / accesses.ffma,
        accesses=found,
    )


def _ideal(site: Site, starts: tuple[int, ...]) -> int:
    words = vector_words((start for start in starts if start != NOT_ACCESSED), site.bytes // FLOAT_BYTES)
    return ceil_div(len(set(words)), BANKS)
