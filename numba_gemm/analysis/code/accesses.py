"""The memory requests of a version: what its block traces, put into the accesses that the machine code makes.

The source accesses shared memory float by float; the compiler merges neighbouring accesses of a thread into 8- or
16-byte ones where it can prove their alignment, and loads even across a float that nobody asked for. Which it did is
read from the main loop: accesses to each array are merged in the way that gives as many instructions of each width as
stand there. Arrays that only the rest of the kernel accesses are taken to be merged as widely as the source allows.

A block is traced for two lengths of K, a whole number of tiles each, the same but for one. The difference is what
one tile of K costs; the rest is done once per block: the first copies where they differ from the later ones, and C.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from numba_gemm import ladder
from numba_gemm.analysis.code import inspection, sass
from numba_gemm.analysis.code.tracing import NOT_ACCESSED, Access, Kind, Space, Trace, trace
from numba_gemm.hardware.quantity import require, round_up
from numba_gemm.kernels.interface import Variant
from numba_gemm.ladder import Version
from numba_gemm.problem import Problem
from numba_gemm.tile import FLOAT_BYTES, WARP, LaunchConfig, Tile

#: The instructions whose widths are the compiler's choice; those of cp.async are stated in the source.
_OPCODES: dict[tuple[Space, Kind], str] = {
    ("shared", "read"): "LDS",
    ("shared", "write"): "STS",
    ("global", "read"): "LDG",
}
#: Rows of matrices begin at multiples of so many floats: a line of the L1, as in any large matrix.
_LINE_FLOATS = 32


class Merging(NamedTuple):
    """How far the compiler merges a thread's accesses to neighbouring floats."""

    #: Floats that the widest access has, which starts at a multiple of its size.
    floats: int
    #: Whether a load may also take up to half as many that nobody asked for.
    gaps: bool = False


_SINGLE, _WIDEST, _WIDEST_LOAD = Merging(1), Merging(4), Merging(4, gaps=True)
#: In the order in which they are tried. In global memory the compiler cannot know that a row begins at a multiple.
_MERGINGS: dict[Space, tuple[Merging, ...]] = {
    "shared": (_WIDEST, Merging(2), _SINGLE, _WIDEST_LOAD),
    "global": (_SINGLE,),
}

#: By the array's name and what is done to it.
Mergings = dict[tuple[str, Kind], Merging]


class Site(NamedTuple):
    """A line of the source and what it does: accesses of so many bytes per thread to an array."""

    array: str
    space: Space
    kind: Kind
    site: str
    bytes: int


#: Requests of warps, one per row: for each lane the index of its first float, or `tracing.NOT_ACCESSED`.
Requests = npt.NDArray[np.int64]


class Count(NamedTuple):
    """Something counted at one site: for a tile of K, and for a block once, however many tiles there are."""

    site: Site
    per_tile: int
    once: int


@dataclass(frozen=True)
class Accesses:
    """The memory requests of one block of a version."""

    version: int | str
    tile: Tile
    #: The architecture whose machine code decides the widths; None if they are the widest that the source allows.
    arch: str | None
    #: Requests with so many tiles of K, and with one more.
    tiles: int
    fewer: dict[Site, Requests] = field(repr=False)
    more: dict[Site, Requests] = field(repr=False)

    @property
    def ffma(self) -> int:
        """FFMA instructions of the warps of a block for one tile of K."""
        return self.tile.bm * self.tile.bn * self.tile.bk // WARP

    def count(self, space: Space, quantity: Callable[[Site, tuple[int, ...]], int]) -> list[Count]:
        """The sum of a quantity of single requests, (site, starts of 32 lanes), for every site in that memory."""
        counts = []
        for site in self.more:
            if site.space == space:
                fewer, more = (_summed(quantity, site, requests.get(site)) for requests in (self.fewer, self.more))
                per_tile = more - fewer
                counts.append(Count(site, per_tile, fewer - self.tiles * per_tile))
        return counts


def of_launch(tile: Tile, m: int, n: int, k: int, *, per_tile: int, once: int) -> int:
    """What all blocks of a launch for C[m, n] do, from the counts of one block.

    Raises:
        ValueError: for a shape that is not whole tiles; edges are not counted here.

    """
    require(1, m=m, n=n, k=k)
    if tile.padded(m, n, k) != (m, n, k):
        raise ValueError(f"m, n, k = {m}, {n}, {k} is not whole tiles of {tile}")
    grid_n, grid_m = tile.grid(m, n)
    return grid_m * grid_n * (once + k // tile.bk * per_tile)


def _summed(quantity: Callable[[Site, tuple[int, ...]], int], site: Site, requests: Requests | None) -> int:
    """Many requests are the same but for their place, which matters modulo a line only: count each kind once."""
    if requests is None:
        return 0
    least = np.where(requests == NOT_ACCESSED, np.iinfo(np.int64).max, requests).min(axis=1, keepdims=True)
    moved = np.where(requests == NOT_ACCESSED, NOT_ACCESSED, requests - least // _LINE_FLOATS * _LINE_FLOATS)
    kinds = Counter(map(tuple, moved.tolist()))
    return sum(quantity(site, kind) * times for kind, times in kinds.items())


def version_accesses(
    version: int | str, *, tile: Tile | None = None, arch: str | None = "sm_90", variant: Variant | None = None
) -> Accesses:
    """The memory requests of a block of whole tiles, of matrices whose rows begin at multiples of 128 bytes.

    Args:
        version: a number or a name of `VERSIONS`.
        tile: the tile instead of the version's default.
        arch: the architecture whose machine code decides how wide the accesses are; or None: then accesses to shared
            memory are as wide as the source allows, and those to global memory as the source states.
        variant: for a version that takes variants, the one; by default for whole row-major matrices.

    Raises:
        ValueError: for an unknown version or architecture, a tile that they cannot use, or a version that takes more
            than matrices.
        RuntimeError: with `arch` in the simulator, without nvdisasm, or where no widths explain the main loop.

    """
    found = ladder.find(version)
    tile = tile or found.default_tile
    found.check(tile)
    return _accesses(found, tile, arch, variant or Variant())


@cache
def _accesses(version: Version, tile: Tile, arch: str | None, variant: Variant) -> Accesses:
    tiles = tile.stages + 1  # at least, so that a pipeline is full
    fewer, more = (one_block(version, tile, variant, count).trace().accesses for count in (tiles, tiles + 1))
    if arch is None:
        mergings = _widest(more)
    else:
        compiled = inspection.inspect(
            version.name, arch=arch, tile=tile, variant=variant if version.traits.takes_variants else None
        )
        mergings = _mergings_in(compiled.loop, tile.bk * tile.tm * tile.tn, fewer, more)
    return Accesses(
        version=version.name if version.number is None else version.number,
        tile=tile,
        arch=arch,
        tiles=tiles,
        fewer=_requests(_merged(fewer, mergings)),
        more=_requests(_merged(more, mergings)),
    )


class Launch(NamedTuple):
    """A product of one tile of C, by one block: the kernel, what to pass to each of its parameters, and the grid."""

    kernel: Any
    arguments: dict[str, Any]
    config: LaunchConfig

    def trace(self) -> Trace:
        """Run it; the arrays among the arguments are read and written."""
        return trace(
            self.kernel,
            list(self.arguments.values()),
            block=self.config.block,
            grid=self.config.grid,
            shared_bytes=self.config.shared_bytes,
        )


def one_block(version: Version, tile: Tile, variant: Variant, tiles: int) -> Launch:
    """The launch of a version for one tile of C and so many tiles of K; all matrices are zero.

    Raises:
        ValueError: for a version that takes more than matrices and their sizes.

    """
    m, n, k = tile.bm, tile.bn, tiles * tile.bk
    known: dict[str, Any]
    if version.traits.takes_variants:
        # As `kernels.interface.general_arguments` has them: rows as long as the leading dimension.
        known = {
            "A": _matrix(m, k) if variant.a_along_k else _matrix(k, m),
            "B": _matrix(n, k) if variant.b_along_k else _matrix(k, n),
            "C": _matrix(m, n),
            "bias": _matrix(n, 1),
            **{name: np.uint32(size) for name, size in (("M", m), ("N", n), ("K", k))},
            **{name: np.float32(factor) for name, factor in (("alpha", 1), ("beta", 0))},
            **dict.fromkeys(("a_batch", "b_batch", "c_batch"), 0),
        }
    else:
        shapes = {"A": (m, k), "At": (k, m), "B": (k, n), "C": (m, n)}
        known = {name: _matrix(*shape)[:, : shape[1]] for name, shape in shapes.items()}
    kernel = version.make_kernel(tile, variant)
    parameters = inspect.signature(kernel.py_func).parameters
    unknown = [name for name in parameters if name not in known]
    if unknown:
        raise ValueError(f"version {version} cannot be traced: there is nothing to pass as {', '.join(unknown)}")
    config = version.launches(tile, variant, Problem.contiguous(m, n, k), 1).main.config
    return Launch(kernel, {name: known[name] for name in parameters}, config)


def _matrix(rows: int, columns: int) -> npt.NDArray[np.float32]:
    return np.zeros((rows, round_up(columns, _LINE_FLOATS)), np.float32)


# Widths ----------------------------------------------------------------------------------------------


def _widest(accesses: Iterable[Access]) -> Mergings:
    """What the compiler is known to do: merge where it knows the alignment, which it does in shared memory."""
    return {
        (access.array, access.kind): _WIDEST_LOAD if access.kind == "read" else _WIDEST
        for access in accesses
        if access.space == "shared"
    }


def _mergings_in(loop: sass.Loop, ffma: int, fewer: tuple[Access, ...], more: tuple[Access, ...]) -> Mergings:
    """Those with which one tile of K, with `ffma` FFMAs per thread, has the instructions of the main loop."""
    mergings: Mergings = {}
    for (space, kind), opcode in _OPCODES.items():
        in_loop = Counter(instruction.access_bytes for instruction in sass.select(loop.body, opcode))
        a_tile = {size: count * ffma / loop.ffma for size, count in in_loop.items()}
        arrays = sorted({access.array for access in more if (access.space, access.kind) == (space, kind)})
        counts = {
            (array, merging): _instructions_a_tile(array, kind, merging, fewer, more)
            for array in arrays
            for merging in _MERGINGS[space]
        }
        for choice in product(_MERGINGS[space], repeat=len(arrays)):
            chosen = list(zip(arrays, choice, strict=True))
            if sum((counts[one] for one in chosen), Counter()) == a_tile:
                mergings.update({(array, kind): merging for array, merging in chosen})
                break
        else:
            possible = {f"{array}, {merging}": dict(count) for (array, merging), count in counts.items()}
            raise RuntimeError(
                f"the {opcode} of the main loop, by their bytes {a_tile} for a tile of K, are not what the source has "
                f"with any merging of its accesses: {possible}"
            )
    return mergings


def _instructions_a_tile(
    array: str, kind: Kind, merging: Merging, fewer: tuple[Access, ...], more: tuple[Access, ...]
) -> Counter[int]:
    """Instructions of a thread for one tile of K, by the bytes of each."""
    sides = []
    for accesses in (fewer, more):
        own = [access for access in accesses if (access.array, access.kind) == (array, kind)]
        sides.append(Counter(FLOAT_BYTES * access.floats for access in _merged(own, {(array, kind): merging})))
    return sides[1] - sides[0]


def _merged(accesses: Iterable[Access], mergings: Mergings) -> list[Access]:
    """The accesses with neighbours between two barriers merged into wide ones."""
    groups: dict[tuple[str, Kind, int], list[Access]] = {}
    for access in accesses:
        groups.setdefault((access.array, access.kind, access.epoch), []).append(access)
    return [
        merged
        for (array, kind, _), group in groups.items()
        for merged in _merge(group, mergings.get((array, kind), _SINGLE))
    ]


def _merge(group: list[Access], merging: Merging) -> Iterator[Access]:
    """Accesses of one kind to one array, each single one merged or as it is, in the order of the first of each."""
    left: dict[bytes, list[Access]] = {}
    for access in group:
        if access.floats == 1:
            left.setdefault(access.starts.tobytes(), []).append(access)
        else:
            yield access
    width = merging.floats
    while width:
        least = width // 2 if merging.gaps and width > 2 else width
        for access in group:
            window = _window(access.starts, width) if access.floats == 1 else None
            if window is None or not left.get(access.starts.tobytes()):
                continue
            inside = [place for place in (_moved(window, q).tobytes() for q in range(width)) if left.get(place)]
            if len(inside) >= least:
                for place in inside:
                    left[place].pop()
                yield replace(access, floats=width, starts=window)
        width //= 2


def _window(starts: Requests, width: int) -> Requests | None:
    """The places at multiples of `width` at or before those of all threads; None unless all are as far from them."""
    distances = np.unique(starts[starts != NOT_ACCESSED] % width)
    return _moved(starts, -int(distances[0])) if len(distances) == 1 else None


def _moved(starts: Requests, floats: int) -> Requests:
    return np.where(starts == NOT_ACCESSED, NOT_ACCESSED, starts + floats)


def _requests(accesses: Iterable[Access]) -> dict[Site, Requests]:
    """Of each site, the requests of the warps that take part."""
    found: dict[Site, list[Requests]] = {}
    for access in accesses:
        site = Site(access.array, access.space, access.kind, access.site, FLOAT_BYTES * access.floats)
        threads = access.starts.size
        lanes = np.pad(access.starts, (0, round_up(threads, WARP) - threads), constant_values=NOT_ACCESSED)
        warps = lanes.reshape(-1, WARP)
        found.setdefault(site, []).append(warps[(warps != NOT_ACCESSED).any(axis=1)])
    return {site: np.concatenate(requests) for site, requests in found.items()}
