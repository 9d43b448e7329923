"""`sectors`: the 32-byte sectors of global memory that a version's accesses touch, counted on its own source.

The caches and the memory move sectors of 32 bytes, and a request, one instruction of one warp, costs as many as
its lanes touch together, however little of each they use: neighbouring floats for neighbouring lanes are 4 sectors, one
float for all lanes is 1, and floats a row apart are 32 (CUDA C++ Best Practices Guide, "Coalesced Access to Global
Memory"). The count says what the L1 is asked for, not what it misses. A cp.async of 16 bytes passes the L1 by
and asks the L2 for the same sectors.
"""

from __future__ import annotations

from dataclasses import dataclass

from numba_gemm.analysis.code.accesses import Accesses, Site, of_launch, version_accesses
from numba_gemm.analysis.code.tracing import NOT_ACCESSED, Kind
from numba_gemm.analysis.models.shared_memory import vector_words
from numba_gemm.hardware.quantity import Result
from numba_gemm.kernels.interface import Variant
from numba_gemm.tile import FLOAT_BYTES, Tile

SECTOR_BYTES = 32
_SECTOR_FLOATS = SECTOR_BYTES // FLOAT_BYTES


@dataclass(frozen=True)
class GlobalAccess(Result):
    """One line of the source that accesses global memory. A request is one instruction of one warp."""

    array: str
    #: "read", "write", or "copy": the reading side of cp.async.
    kind: Kind
    #: File and line.
    site: str
    #: Bytes that each thread accesses at once.
    bytes: int
    #: Of all warps of a block, for one tile of K.
    requests_per_tile: int
    sectors_per_tile: int
    #: What a block does once, however many tiles of K it has.
    requests_once: int
    sectors_once: int
    sectors_per_request: float
    #: Different bytes that a request asks for, over those of its sectors: 1 is perfect.
    useful: float


@dataclass(frozen=True)
class Sectors(Result):
    """Sectors of global memory that one block asks for."""

    version: int | str
    tile: Tile
    #: The architecture whose machine code the widths are from; None if they are those of the source.
    arch: str | None
    #: Loads and copies by cp.async, for a tile of K.
    requests_per_tile: int
    sectors_per_tile: int
    accesses: tuple[GlobalAccess, ...]

    def requests(self, kind: Kind, m: int, n: int, k: int) -> int:
        """Requests of a whole launch for C[m, n] = A[m, k] · B[k, n]; the shape has to be whole tiles."""
        own = [access for access in self.accesses if access.kind == kind]
        per_tile, once = sum(a.requests_per_tile for a in own), sum(a.requests_once for a in own)
        return of_launch(self.tile, m, n, k, per_tile=per_tile, once=once)

    def sectors(self, kind: Kind, m: int, n: int, k: int) -> int:
        """Sectors of a whole launch for C[m, n] = A[m, k] · B[k, n]; the shape has to be whole tiles."""
        own = [access for access in self.accesses if access.kind == kind]
        per_tile, once = sum(a.sectors_per_tile for a in own), sum(a.sectors_once for a in own)
        return of_launch(self.tile, m, n, k, per_tile=per_tile, once=once)


def sectors(
    version: int | str, *, tile: Tile | None = None, arch: str | None = "sm_90", variant: Variant | None = None
) -> Sectors:
    """Count the sectors of a version; arguments and errors as of `accesses.version_accesses`."""
    return count_sectors(version_accesses(version, tile=tile, arch=arch, variant=variant))


def request_sectors(starts: list[int], width: int) -> int:
    """Sectors of one request whose lanes access `width` floats from each of `starts` on, indices of floats."""
    return len({word // _SECTOR_FLOATS for word in vector_words(starts, width)})


def count_sectors(accesses: Accesses) -> Sectors:
    """The sectors that requests touch, and how much of them is wanted."""
    requests = accesses.count("global", lambda *_: 1)
    touched = accesses.count("global", _sectors)
    used = accesses.count("global", _different_floats)
    found = []
    for request, sector, floats in zip(requests, touched, used, strict=True):
        # Of one tile, or of what is done once where a tile does nothing.
        count, size, useful = (
            (request.per_tile, sector.per_tile, floats.per_tile)
            if request.per_tile
            else (request.once, sector.once, floats.once)
        )
        found.append(
            GlobalAccess(
                array=request.site.array,
                kind=request.site.kind,
                site=request.site.site,
                bytes=request.site.bytes,
                requests_per_tile=request.per_tile,
                sectors_per_tile=sector.per_tile,
                requests_once=request.once,
                sectors_once=sector.once,
                sectors_per_request=size / count,
                useful=useful / (size * _SECTOR_FLOATS),
            )
        )
    return Sectors(
        version=accesses.version,
        tile=accesses.tile,
        arch=accesses.arch,
        requests_per_tile=sum(access.requests_per_tile for access in found),
        sectors_per_tile=sum(access.sectors_per_tile for access in found),
        accesses=tuple(found),
    )


def _sectors(site: Site, starts: tuple[int, ...]) -> int:
    return request_sectors([start for start in starts if start != NOT_ACCESSED], site.bytes // FLOAT_BYTES)


def _different_floats(site: Site, starts: tuple[int, ...]) -> int:
    return len(set(vector_words((start for start in starts if start != NOT_ACCESSED), site.bytes // FLOAT_BYTES)))
