"""`Tile`: how a kernel cuts the product into blocks, and every constraint on that, in one place.

C is cut into BM × BN blocks, one per thread block; K is walked in steps of BK;
within a block each thread computes TM × TN outputs. Where a kernel has warp tiles, the 32 threads of a warp
compute WM × WN outputs together, each thread its share in groups of four that are spread over the warp tile.

    threads      = (BM / TM) · (BN / TN), times BK / TK where they share K
    shared bytes = stages · (BM + BN) · BK · 4
    intensity    = BM · BN / (2 · (BM + BN))   FLOP per byte of global memory; BK cancels
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

FLOAT_BYTES = 4
MAX_THREADS = 1024
WARP = 32
#: Neighbouring k that a transposing copy takes at once: a warp takes 8 k × 4 lines, in 32 different banks.
TRANSPOSE_K = 8
#: Bytes of shared memory that a block gets without asking: all that a static array can have.
STATIC_SHARED_BYTES = 48 * 1024

#: Bytes of shared memory that a block may opt in to, by compute capability
#: (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
OPT_IN_SHARED_BYTES: dict[tuple[int, int], int] = {
    (7, 0): 96 * 1024,
    (7, 5): 64 * 1024,
    (8, 0): 163 * 1024,
    (8, 6): 99 * 1024,
    (8, 7): 163 * 1024,
    (8, 9): 99 * 1024,
    (9, 0): 227 * 1024,
    (10, 0): 227 * 1024,
    (10, 3): 227 * 1024,
    (11, 0): 227 * 1024,
    (12, 0): 99 * 1024,
    (12, 1): 99 * 1024,
}


class LaunchConfig(NamedTuple):
    """Grid and block as (x, y) or (x, y, z), and the bytes of dynamic shared memory."""

    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared_bytes: int = 0


def opt_in_shared_bytes(compute_capability: tuple[int, int]) -> int:
    """Largest shared memory a block can have, in bytes; an unknown device counts as its elder sibling."""
    known = [cc for cc in OPT_IN_SHARED_BYTES if cc <= compute_capability]
    return OPT_IN_SHARED_BYTES[max(known)] if known else STATIC_SHARED_BYTES


@dataclass(frozen=True)
class Tile:
    """Block tile BM × BN × BK, TM × TN outputs per thread, the depth of the copy pipeline, the warp tile, a share of K.

    Raises:
        TypeError: for a size that is not an int.
        ValueError: naming the constraint that a size breaks and the numbers.

    """

    bm: int
    bn: int
    bk: int
    tm: int = 1
    tn: int = 1
    stages: int = 1
    #: Warp tile WM × WN; 0 where threads are numbered row by row, without regard to warps.
    wm: int = 0
    wn: int = 0
    #: How many of the BK steps a thread takes where the threads of a block share K; 0 where each takes all.
    tk: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"Tile.{field.name} is {value!r}, of type {type(value).__name__}; it must be an int")
            least = field.default if field.default == 0 else 1
            if value < least:
                raise ValueError(f"Tile.{field.name} is {value}; it must be at least {least}")
        self._require_multiple("bm", "tm")
        self._require_multiple("bn", "tn")
        if self.tk:
            self._require_multiple("bk", "tk")
        if self.threads > MAX_THREADS:
            formula, factors = "(bm/tm)·(bn/tn)", f"{self.bm // self.tm}·{self.bn // self.tn}"
            if self.tk:
                formula, factors = f"{formula}·(bk/tk)", f"{factors}·{self.bk // self.tk}"
            raise ValueError(
                f"{self} has {formula} = {factors} = {self.threads} threads; a block holds at most {MAX_THREADS}"
            )

    def __str__(self) -> str:
        text = f"{self.bm}×{self.bn}×{self.bk}, {self.tm}×{self.tn} a thread"
        if self.wm or self.wn:
            text = f"{text}, {self.wm}×{self.wn} a warp"
        if self.tk:
            text = f"{text}, {self.tk} k each"
        return text if self.stages == 1 else f"{text}, {self.stages} stages"

    def _require_multiple(self, size: str, unit: str) -> None:
        if getattr(self, size) % getattr(self, unit):
            raise ValueError(
                f"Tile.{size} = {getattr(self, size)} is not a multiple of Tile.{unit} = {getattr(self, unit)}"
            )

    @property
    def threads(self) -> int:
        """Threads in a block."""
        return (self.bm // self.tm) * (self.bn // self.tn) * (self.bk // self.tk if self.tk else 1)

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory that the A and B tiles of all stages take."""
        return self.stages * (self.bm + self.bn) * self.bk * FLOAT_BYTES

    @property
    def resident_blocks(self) -> int:
        """Blocks per SM that the launch bound asks for.

        Two blocks of 256 threads leave 128 registers per thread: enough for 64 accumulators with their
        fragments and addresses, too few for 128 (which would spill).
        """
        return 2 if self.tm * self.tn <= 64 else 1

    def grid(self, m: int, n: int) -> tuple[int, int]:
        """Blocks along N (grid x) and along M (grid y) that cover C[m, n]."""
        return -(-n // self.bn), -(-m // self.bm)

    def padded(self, m: int, n: int, k: int) -> tuple[int, int, int]:
        """The smallest whole number of tiles that holds m, n and k."""
        return (-(-m // self.bm) * self.bm, -(-n // self.bn) * self.bn, -(-k // self.bk) * self.bk)

    def require_static_shared(self, padding: int = 0) -> None:
        """Raises ValueError if static shared arrays, `padding` floats included, take more than 48 KB per block."""
        needed = self.shared_bytes + padding * FLOAT_BYTES
        if needed > STATIC_SHARED_BYTES:
            padded = f" + {padding}·4" if padding else ""
            raise ValueError(
                f"{self} needs (bm+bn)·bk·4·stages{padded} = {needed} bytes of static shared memory; "
                f"a block has at most {STATIC_SHARED_BYTES}"
            )

    def require_dynamic_shared(self, compute_capability: tuple[int, int]) -> None:
        """Raises ValueError if a block takes more shared memory than the architecture lets it opt in to."""
        limit = opt_in_shared_bytes(compute_capability)
        if self.shared_bytes > limit:
            major, minor = compute_capability
            raise ValueError(
                f"{self} needs (bm+bn)·bk·4·stages = {self.shared_bytes} bytes of shared memory; "
                f"compute capability {major}.{minor} lets a block have {limit}"
            )

    def require_scalar_copies(self) -> None:
        """Raises ValueError unless the block copies whole rows of a tile at once, as many floats per thread."""
        self._require_rows("bk", self.bk, 1)
        self._require_rows("bn", self.bn, 1)
        for name, rows, row in (("A", self.bm, self.bk), ("B", self.bk, self.bn)):
            if rows % (self.threads // row):
                raise ValueError(
                    f"{self}: {self.threads} threads copy {self.threads // row} rows of {name} at once, "
                    f"which does not divide its {rows} rows"
                )

    def require_vector_copies(self) -> None:
        """Raises ValueError unless rows of the tiles and of a thread's outputs are fours, as copies of 16 bytes are."""
        for name in ("bk", "bn", "tn"):
            if getattr(self, name) % 4:
                raise ValueError(
                    f"{self}: {name} = {getattr(self, name)} is not a multiple of 4, the floats in a 16-byte access"
                )
        self._require_rows("bk", self.bk, 4)
        self._require_rows("bn", self.bn, 4)

    def require_k_major_copies(self) -> None:
        """Raises ValueError unless copies of 16 bytes along m fit, for an A whose rows are those of one k."""
        if self.bm % 4:
            raise ValueError(f"{self}: bm = {self.bm} is not a multiple of 4, the floats in a 16-byte access")
        self._require_rows("bm", self.bm, 4)

    def require_prefetch_copies(self) -> None:
        """Raises ValueError unless each thread has as many copies of 16 bytes, along rows of A and of B."""
        if self.bk % 4:
            raise ValueError(f"{self}: bk = {self.bk} is not a multiple of 4, the floats in a 16-byte access")
        self._require_rows("bk", self.bk, 4)
        self._require_rows("bk", self.bk, 1)
        for name, lines, at_once in (
            ("bm", self.bm, self.threads // (self.bk // 4)),
            ("bn", self.bn, self.threads // self.bk * 4),
        ):
            if lines % at_once:
                raise ValueError(
                    f"{self}: {self.threads} threads copy {at_once} lines of {self.bk} floats at once, "
                    f"which does not divide {name} = {lines}"
                )

    def require_line_copies(self) -> None:
        """ValueError unless copies of rows of A and columns of B, along k and across, and stores of fours, fit."""
        for name in ("bm", "bn", "tn"):
            if getattr(self, name) % 4:
                raise ValueError(
                    f"{self}: {name} = {getattr(self, name)} is not a multiple of 4, the floats in a 16-byte access"
                )
        for name, extent in (("bm", self.bm), ("bn", self.bn), ("bk", self.bk)):
            if self.threads % extent:
                raise ValueError(
                    f"{self}: {self.threads} threads do not copy whole lines of {name} = {extent} floats, one each"
                )
        for name, lines in (("bm", self.bm), ("bn", self.bn)):
            if lines % (self.threads // self.bk):
                raise ValueError(
                    f"{self}: {self.threads} threads copy {self.threads // self.bk} lines of {self.bk} floats at once, "
                    f"which does not divide {name} = {lines}"
                )

    def require_steady_copies(self) -> None:
        """Raises ValueError unless each thread has as many line copies, by 16 bytes along lines or 4 along k."""
        self.require_line_copies()
        if self.bk % TRANSPOSE_K:
            raise ValueError(
                f"{self}: bk = {self.bk} is not a multiple of {TRANSPOSE_K}, the k that a copy takes at once"
            )
        for name, lines in (("bm", self.bm), ("bn", self.bn)):
            if lines * self.bk % (4 * self.threads) or self.bk % (4 * self.threads // lines):
                raise ValueError(
                    f"{self}: {name}·bk/4 = {lines * self.bk // 4} accesses of 16 bytes are not as many for each of "
                    f"{self.threads} threads"
                )
            if lines % (self.threads // TRANSPOSE_K):
                raise ValueError(
                    f"{self}: {self.threads} threads copy {self.threads // TRANSPOSE_K} lines of {TRANSPOSE_K} floats "
                    f"at once, which does not divide {name} = {lines}"
                )

    def _require_rows(self, name: str, row: int, vector: int) -> None:
        if self.threads % (row // vector):
            raise ValueError(
                f"{self}: {self.threads} threads do not copy whole rows of {name} = {row} floats, "
                f"{row // vector} accesses each"
            )

    def require_stages(self, least: int, most: int) -> None:
        """Raises ValueError unless the copy pipeline has `least` … `most` stages."""
        if not least <= self.stages <= most:
            raise ValueError(f"{self}: stages = {self.stages}; this kernel takes {least} … {most}")

    def require_warps(self) -> None:
        """Raises ValueError without warp tiles that 4 × 8 or 8 × 4 lanes fill with groups of 4 × 4 outputs."""
        if not (self.wm and self.wn):
            raise ValueError(f"{self}: wm = {self.wm}, wn = {self.wn}; this kernel needs a warp tile")
        for size, unit in (("bm", "wm"), ("bn", "wn"), ("wm", "tm"), ("wn", "tn")):
            self._require_multiple(size, unit)
        for name in ("tm", "tn"):
            if getattr(self, name) % 4:
                raise ValueError(
                    f"{self}: {name} = {getattr(self, name)} is not a multiple of 4, the size of a thread's groups"
                )
        lanes = (self.wm // self.tm, self.wn // self.tn)
        if lanes not in ((4, 8), (8, 4)):
            raise ValueError(
                f"{self}: a warp tile of (wm/tm)·(wn/tn) = {lanes[0]}·{lanes[1]} = {lanes[0] * lanes[1]} lanes; "
                f"the {WARP} lanes of a warp are laid out as 4·8 or 8·4"
            )

    def require_square(self) -> None:
        """Raises ValueError unless BM = BN = BK and each thread has one output, and so copies one element per tile."""
        if not (self.bm == self.bn == self.bk and self.tm == self.tn == 1):
            raise ValueError(
                f"{self}: this kernel takes bm = bn = bk and tm = tn = 1, so that each thread copies "
                "one element of A and one of B"
            )
