"""What machine code every version has to have: one row a version, so that a new one adds a row and nothing else.

Counts follow from the tile. Registers, spills and shares of FFMA are those of the pinned toolkit (`toolchain13` in
pyproject.toml), as they were when a row was written.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from numba_gemm.analysis.code.machine_code import ARCHITECTURES
from numba_gemm.kernels.interface import Variant
from numba_gemm.tile import Tile

#: Bytes of an access → how many of them.
Widths = Mapping[int, int]

#: A share of FFMA may be so much smaller than it was measured.
SHARE_MARGIN = 0.01

#: What versions of any shape are compiled for besides whole tiles.
VARIANTS = {"edges": Variant(whole=False), "unaligned": Variant(whole=False, vector=False)}


@dataclass(frozen=True)
class Expected:
    """The kernel of a version for its default tile; what is None is not claimed."""

    #: Least share of FFMA among the instructions of the main loop, by the architectures that are read.
    share: Mapping[str, float]
    #: Most registers per thread.
    registers: int
    #: In the main loop, which goes round once per tile of K.
    barriers: int
    #: Loads from shared memory in the main loop.
    lds: Widths | None = None
    #: Stores to shared memory in the main loop.
    sts: Widths | None = None
    #: Loads from global memory in the main loop.
    ldg: Widths | None = None
    #: Copies from global to shared memory, by cp.async, in the main loop.
    ldgsts: Widths | None = None
    #: Stores to global memory, in the whole kernel.
    stg: Widths | None = None
    #: Most bytes per thread that are spilled; None for one that has to spill, which is its lesson.
    spilled: int | None = 0
    #: The same on sm_90 with other tiles, by their BK where it is not 0.
    spilled_by_bk: Mapping[int, int] = field(default_factory=dict)
    #: FFMA of the main loop, where they are not those of one tile of K.
    ffma: int | None = None
    #: Most FFMA of the main loop that fetch three registers of one bank.
    bank_triples: int | None = None
    #: The foreign functions that are called.
    calls: tuple[str, ...] = ()
    #: What it is compiled for, if not whole row-major matrices.
    variant: Variant | None = None
    #: Least share on sm_90 for keys of `VARIANTS`.
    share_of_variants: Mapping[str, float] = field(default_factory=dict)
    #: Least share on sm_90 with other tiles.
    share_of_tiles: Mapping[Tile, float] = field(default_factory=dict)


@dataclass(frozen=True)
class SameKernelAs:
    """Another name for the kernel of a version, in most cases with a tile of its own; read there."""

    version: str


def measured(*shares: float) -> dict[str, float]:
    """Least shares from those that were measured, in the order of `ARCHITECTURES`."""
    return {arch: share - SHARE_MARGIN for arch, share in zip(ARCHITECTURES, shares, strict=True)}


def on_hopper(share: float) -> dict[str, float]:
    return {"sm_90": share}


def on_ampere_too(share: float) -> dict[str, float]:
    """For those whose registers or copies depend on the architecture."""
    return {"sm_90": share, "sm_80": share}


#: Rung 7's main loop, which rung 8 has as well.
RUNG_7 = measured(0.928, 0.928, 0.928, 0.927, 0.930, 0.934)
#: The same on sm_90 for tiles of fewer outputs per thread: split-K's, and the smallest.
SPLIT_K_TILE = Tile(128, 128, 16, 8, 8, 2, 64, 32)
SMALLEST_WARP_TILED = Tile(64, 64, 16, 8, 8, 2, 32, 64)
RUNG_7_WITH_SPLIT_K_TILE = 0.893 - SHARE_MARGIN

EXPECTED: dict[str, Expected | SameKernelAs] = {
    "naive": Expected(
        measured(0.133, 0.129, 0.129, 0.125, 0.167, 0.222),
        registers=48,
        barriers=0,
        lds={},
        sts={},
        ldgsts={},
        stg={4: 1},
    ),
    "shared": Expected(
        measured(0.348, 0.356, 0.356, 0.352, 0.344, 0.372),
        registers=48,
        barriers=2,
        lds={4: 32, 16: 8},  # A in lines along k is read four k at once
        sts={4: 2},
        ldg={4: 2},  # one element of each tile per thread
        ldgsts={},
        stg={4: 1},
    ),
    "register": Expected(
        measured(0.862, 0.862, 0.862, 0.863, 0.819, 0.822),
        registers=128,
        barriers=2,
        lds={16: 32},  # the compiler reads fragments 16 bytes at a time: (8 + 8)/4 per step of k
        sts={4: 8},
        ldg={4: 8},  # (128 + 128)·8 floats by 256 threads
        ldgsts={},
        stg={4: 64},
    ),
    "vectorized": Expected(
        measured(0.890, 0.890, 0.890, 0.892, 0.903, 0.903),
        registers=128,
        barriers=2,
        lds={16: 32},
        sts={4: 4, 16: 1},  # A is transposed: its four floats go to four rows; B is stored as it lies
        ldg={16: 2},
        ldgsts={},
        stg={16: 16},
    ),
    "cp_async": Expected(
        measured(0.839, 0.839, 0.839, 0.830, 0.855, 0.875),
        registers=128,
        barriers=1,
        lds={16: 32},
        sts={},
        ldg={},
        ldgsts={16: 2},
        stg={16: 16},
        # Linked: code that is inlined so late may cost a little. With the pinned toolkit it costs nothing.
        spilled=32,
        spilled_by_bk={16: 56},  # it spills 36 to 52 bytes at BK = 16; at BK = 8 and 32 nothing
    ),
    "boundary": Expected(
        measured(0.849, 0.849, 0.849, 0.848, 0.863, 0.869),
        registers=128,
        barriers=1,
        lds={16: 32},
        sts={},
        ldg={},
        ldgsts={4: 4, 16: 1},  # A is transposed on its way
    ),
    "warp_tiled": Expected(
        RUNG_7,
        registers=255,
        barriers=1,
        lds={16: 96},
        sts={},
        share_of_variants={"edges": 0.90, "unaligned": 0.90},
        share_of_tiles={SPLIT_K_TILE: RUNG_7_WITH_SPLIT_K_TILE, SMALLEST_WARP_TILED: 0.881 - SHARE_MARGIN},
    ),
    "stream_k": Expected(
        {arch: RUNG_7[arch] for arch in ("sm_80", "sm_90")},
        registers=255,
        barriers=1,
        lds={16: 96},
        bank_triples=8,
        share_of_variants={"edges": 0.91 - SHARE_MARGIN},
    ),
    "skinny": Expected(
        measured(0.687, 0.687, 0.687, 0.679, 0.726, 0.741),
        registers=255,  # one block of 256 threads per multiprocessor
        barriers=2,  # two steps per round, one for each of a thread's buffers
        ffma=2 * 16 * 4 * 8,
        lds={16: 64},  # rows of A, four k at once
        sts={},
        ldg={16: 4 * 8},  # a whole step's, and once more with predicates for the last step
        variant=Variant(whole=False, b_along_k=True),  # needs the most registers
    ),
    "split_k": Expected(
        on_hopper(RUNG_7_WITH_SPLIT_K_TILE),
        registers=128,  # two blocks of 256 threads per multiprocessor
        barriers=1,
        lds={16: 64},
        bank_triples=8,
        share_of_variants={"edges": 0.886 - SHARE_MARGIN, "unaligned": 0.874 - SHARE_MARGIN},
    ),
    "split_k_atomic": Expected(
        on_hopper(RUNG_7_WITH_SPLIT_K_TILE), registers=128, barriers=1, lds={16: 64}, bank_triples=8
    ),
    "through_shared": Expected(on_hopper(0.848), 128, 1, lds={16: 32}, sts={}, ldg={}, ldgsts={4: 4, 16: 1}),
    "cp_async_ptx": Expected(
        measured(0.760, 0.760, 0.760, 0.740, 0.719, 0.776),
        registers=128,
        barriers=1,
        lds={16: 32},
        ldgsts={},  # those are in the function that is called
        spilled=None,
        calls=("cp_async16", "cp_async_commit", "cp_async_wait1"),
    ),
    "cp_async_intrinsic": Expected(
        measured(0.839, 0.839, 0.839, 0.830, 0.850, 0.871),
        registers=128,
        barriers=1,
        lds={16: 32},
        sts={},
        ldg={},
        ldgsts={16: 2},
        stg={16: 16},
    ),
    "naive_rows": Expected(on_hopper(0.115), 32, 0, lds={}, sts={}, ldg={4: 8}, ldgsts={}),
    "naive_16": SameKernelAs("naive"),
    "thread_tile_4": Expected(on_hopper(0.25), 48, 0, lds={}, sts={}, ldg={4: 8}, ldgsts={}),
    "thread_tile": Expected(on_hopper(0.47), 128, 0, lds={}, sts={}, ldg={4: 16}, ldgsts={}),
    "padded_rows": Expected(on_hopper(0.85), 128, 2, lds={16: 18 + 16}, sts={4: 8}, ldg={4: 8}, ldgsts={}),
    "untransposed": Expected(
        on_ampere_too(0.875), 128, 2, lds={16: 32}, sts={16: 2}, ldg={16: 2}, ldgsts={}, stg={16: 16}, spilled=16
    ),
    "padded_columns": Expected(
        on_hopper(0.88), 128, 2, lds={16: 32}, sts={4: 4, 16: 1}, ldg={16: 2}, ldgsts={}, stg={16: 16}
    ),
    "split_columns": Expected(
        on_hopper(0.88), 128, 2, lds={16: 32}, sts={4: 4, 16: 1}, ldg={16: 2}, ldgsts={}, stg={16: 16}
    ),
    "swizzled": Expected(
        on_hopper(0.88), 128, 2, lds={16: 32}, sts={4: 4, 16: 1}, ldg={16: 2}, ldgsts={}, stg={16: 16}
    ),
    "register_prefetch": Expected(
        on_ampere_too(0.84), 128, 1, lds={16: 32}, sts={4: 4, 16: 1}, ldg={16: 2}, ldgsts={}, stg={16: 16}
    ),
    "cp_async_b": Expected(
        on_ampere_too(0.815), 128, 1, lds={16: 32}, sts={4: 4}, ldg={16: 1}, ldgsts={16: 1}, stg={16: 16}
    ),
    "cp_async_k_major": Expected(on_hopper(0.825), 128, 1, lds={16: 32}, sts={}, ldg={}, ldgsts={16: 2}, stg={16: 16}),
    "ex3": SameKernelAs("naive"),
    "ex4_bk16": SameKernelAs("shared"),
    "ex4_bk32": SameKernelAs("shared"),
    "ex5": SameKernelAs("register"),
    "ex6": SameKernelAs("untransposed"),
    "ex7": Expected(on_hopper(0.83), 96, 2, lds={16: 128}, sts={4: 16, 16: 4}, ldg={16: 8}, ldgsts={}, stg={16: 4}),
    # Lanes beside each other in ex8 and ex9 have single columns beside each other.
    "ex8": Expected(on_hopper(0.835), 168, 2, lds={16: 32}, sts={4: 4, 16: 1}, ldg={16: 2}, ldgsts={}),
    "ex9": Expected(on_hopper(0.83), 168, 1, lds={16: 32}, sts={4: 4, 16: 1}, ldg={16: 2}, ldgsts={}),
}
#: Those that are read themselves.
ROWS: dict[str, Expected] = {name: row for name, row in EXPECTED.items() if isinstance(row, Expected)}
