"""Global memory: what a kernel asks for, by the size of its tiles and the shape of its warps."""

from __future__ import annotations

from collections.abc import Iterator

from numba_gemm.analysis.models import traffic
from numba_gemm.hardware.devices import A100
from numba_gemm.quiz.question import Choice, Numeric, Question, figure
from numba_gemm.quiz.topics.given import CUBE, GIB, REGISTER, SHARED, SIZE
from numba_gemm.tile import WARP

TOPIC = "global memory"


def questions() -> Iterator[Question]:
    """From one output per thread to tiles of 128 × 128."""
    yield from _reads()
    yield from _reuse()
    yield from _sectors()


def _reads() -> Iterator[Question]:
    naive = traffic.naive_read_bytes(*CUBE)
    shared = traffic.block_read_bytes(*CUBE, SHARED.bm, SHARED.bn)
    register = traffic.block_read_bytes(*CUBE, REGISTER.bm, REGISTER.bn)
    yield Numeric(
        title="what one thread per output asks for",
        text=f"One thread per output, straight from the formula, {SIZE}³: how many bytes of A and B do all threads "
        "together load, caches not counted?",
        answer=naive / GIB,
        unit="GiB",
        hint="Two floats for each multiply-add.",
        explanation=f"M·N·K·8 bytes = {figure(naive / GIB)} GiB. At the bandwidth of an A100 that alone is "
        f"{traffic.read_seconds(naive, A100) * 1e3:.0f} ms; most of it is served by the caches.",
    )
    yield Numeric(
        title="tiles of 32 × 32",
        text=f"Blocks of {SHARED.bm} × {SHARED.bn} outputs that share what they load: how many GiB now?",
        answer=shared / GIB,
        unit="GiB",
        hint="Each block loads BM rows of A and BN columns of B; how many blocks are there?",
        explanation=f"M·N·K·(1/BM + 1/BN)·4 = {figure(shared / GIB)} GiB, {figure(naive / shared)} times less.",
    )
    yield Numeric(
        title="tiles of 128 × 128",
        text=f"And with blocks of {REGISTER.bm} × {REGISTER.bn}?",
        answer=register / GIB,
        unit="GiB",
        hint="A larger square tile has four times the outputs for twice the rows and columns.",
        explanation=f"{figure(register / GIB)} GiB. Twice the edge, half the reads: each element that is loaded serves "
        "more outputs.",
    )
    yield Choice(
        title="the depth of a tile",
        text="What does a larger BK, the step along K, do to the bytes that blocks load in total?",
        options=(
            "It halves them for twice the BK",
            "It doubles them for twice the BK",
            "Nothing",
            "It depends on M and N",
        ),
        right=2,
        hint="Is BK in the formula?",
        explanation="A block loads BM rows of A and BN columns of B, all K of them, in steps of whatever size. BK "
        f"decides how many barriers there are (for {SIZE}: {traffic.barriers(SIZE, 8, 2)} at BK = 8, "
        f"{traffic.barriers(SIZE, 16, 2)} at 16) and how much shared memory a tile takes.",
    )


def _reuse() -> Iterator[Question]:
    naive, block = traffic.tile_intensity(1, 1), traffic.tile_intensity(REGISTER.bm, REGISTER.bn)
    yield Numeric(
        title="intensity of one output a thread",
        text="What is the intensity at global memory of one thread per output, by what the threads load?",
        answer=naive,
        unit="FLOP/B",
        hint="Two FLOP for how many bytes?",
        explanation=f"2 FLOP for two floats, 8 bytes: {figure(naive)} FLOP/B, {A100.ridge / naive:.0f} times below the "
        "ridge of an A100.",
    )
    yield Numeric(
        title="intensity of a block",
        text=f"And of blocks of {REGISTER.bm} × {REGISTER.bn} outputs?",
        answer=block,
        unit="FLOP/B",
        hint="Count one step of k: a column of A, a row of B, and a multiply-add for each output.",
        explanation=f"BM·BN / (2·(BM + BN)) = {figure(block)} FLOP/B, {block / A100.ridge:.1f} times the ridge of an "
        "A100.",
    )
    yield Numeric(
        title="gain in intensity",
        text=f"By what factor does a block of {REGISTER.bm} × {REGISTER.bn} raise the intensity over one output per "
        "thread?",
        answer=block / naive,
        unit="",
        hint="You have both numbers; or think of how many multiply-adds a loaded float serves.",
        explanation=f"{figure(block)} / {figure(naive)} = {figure(block / naive)}, for a square tile its edge.",
    )
    yield Numeric(
        title="an outer product",
        text=f"For one k, a block of {REGISTER.bm} × {REGISTER.bn} takes a column of A and a row of B and updates all "
        "its outputs. How many multiply-adds does each float serve on average?",
        answer=traffic.reuse(REGISTER.bm, REGISTER.bn),
        unit="",
        hint="BM·BN multiply-adds, BM + BN floats.",
        explanation=f"{REGISTER.bm * REGISTER.bn} / {REGISTER.bm + REGISTER.bn} = "
        f"{figure(traffic.reuse(REGISTER.bm, REGISTER.bn))}. As inner products, each output would fetch its own row "
        "and column: that is why k is the outer loop.",
    )
    yield Numeric(
        title="how often an element is read",
        text=f"How many times is each element of A loaded with blocks of {REGISTER.bm} × {REGISTER.bn}, N = {SIZE}?",
        answer=SIZE // REGISTER.bn,
        unit="times",
        tolerance=0,
        hint="Which blocks need a given row of A?",
        explanation=f"Once by each block along N: N/BN = {SIZE // REGISTER.bn}. With one output per thread it is N = "
        f"{SIZE}.",
    )


def _sectors() -> Iterator[Question]:
    along_a_row = traffic.sectors(range(WARP))
    down_a_column = traffic.sectors(SIZE * lane for lane in range(WARP))
    yield Numeric(
        title="a coalesced load",
        text=f"Memory moves sectors of {traffic.SECTOR_BYTES} bytes. How many does a warp touch that loads {WARP} "
        "neighbouring floats of B, aligned?",
        answer=along_a_row,
        unit="sectors",
        tolerance=0,
        hint="How many floats are in a sector?",
        explanation=f"{WARP}·4 bytes / {traffic.SECTOR_BYTES} = {along_a_row} sectors, every byte of them used.",
    )
    yield Numeric(
        title="the wrong way round",
        text=f"And if neighbouring threads take neighbouring rows instead, so that they load {WARP} floats of one "
        f"column of A, {SIZE} floats apart?",
        answer=down_a_column,
        unit="sectors",
        tolerance=0,
        hint="Are any two of them in the same sector?",
        explanation=f"{down_a_column} sectors, of each of which one float in {traffic.SECTOR_BYTES // 4} is used. The "
        "formula is the same, the mapping of threads to outputs is not.",
    )
