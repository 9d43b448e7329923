"""Run every version under each of compute-sanitizer's tools, on shapes and layouts that reach the edges.

`python tests/sanitize.py [VERSION …]` on a machine with a GPU; exit status 1 if a tool finds anything.
`--worker VERSION PART` is what the sanitizer runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import cuda
from support.products import Placement, Product

import numba_gemm
from numba_gemm import VERSIONS, Tile
from numba_gemm.ladder import find

TOOLS = {
    "memcheck": ["--leak-check=no"],
    "racecheck": [],  # shared memory
    "initcheck": [],
    "synccheck": [],
}


#: What one process does of a version: plain products, or one combination of transposes in all kinds of layouts.
PARTS = ("plain", "nn", "nt", "tn", "tt")


def worker(name: str, part: str) -> None:
    rng = np.random.default_rng(0)
    version = find(name)
    tile = version.default_tile
    if part != "plain":
        for product in layouts(tile, trans_a=part[0] == "t", trans_b=part[1] == "t"):
            product.check(version, tile, rng)
        return
    shapes = [
        (tile.bm, tile.bn, tile.bk),  # one tile: fewer than a pipeline has stages
        (2 * tile.bm, tile.bn, 7 * tile.bk),  # the ring goes round twice and ends in the middle
        (tile.bm + 1, tile.bn - 1, 3 * tile.bk + 1),  # padded in every direction
        (1, 1, 1),
        (5, 3, 0),
    ]
    for m, n, k in shapes:
        a = rng.integers(-8, 9, (m, k)).astype(np.float32)
        b = rng.integers(-8, 9, (k, n)).astype(np.float32)
        c = numba_gemm.sgemm(cuda.to_device(a), cuda.to_device(b), version=version.name).copy_to_host()
        if not np.array_equal(c, a @ b):
            sys.exit(f"{version} is wrong at {m}×{n}×{k}")


def layouts(tile: Tile, trans_a: bool, trans_b: bool) -> Iterator[Product]:
    """Each way to copy an operand's tile and to store C, at its edges."""
    sizes = (tile.bm + 1, tile.bn - 1, 3 * tile.bk + 1)
    fours = (tile.bm + 4, tile.bn - 4, 3 * tile.bk + 1)  # ragged, and still copied by 16 bytes
    finish = {
        "alpha": 2.0,
        "beta": -1.0,
        "bias": 2,
        "activation": "relu",
        "epilogue": lambda x, row, col: x + row - col,
    }
    for place in (Placement(multiple=4), Placement(pitch=3, shift=1), Placement(column_major=True, pitch=5)):
        yield Product(
            *(fours if place.multiple > 1 else sizes), trans_a=trans_a, trans_b=trans_b, a=place, b=place, c=place
        )
    yield Product(*sizes, batch=2, shared="b", trans_a=trans_a, trans_b=trans_b, c=Placement(gap=4), **finish)
    if not trans_a and not trans_b:
        for m, n, k in (sizes, (2 * tile.bm, tile.bn, 7 * tile.bk)):
            yield Product(m, n, k, beta=1.0, epilogue=up_by_three)
    if trans_a and not trans_b:
        yield Product(5, 3, 0, c=Placement(pitch=1), **finish)
        yield Product(2 * tile.bm, tile.bn, 7 * tile.bk, trans_a=True, **finish)


def up_by_three(x: float) -> float:
    """With a loop: kernels call it, as they do long activations."""
    for _ in range(3):
        x = x + 1
    return x


def main(names: list[str]) -> int:
    """One process a version, part and tool, so that what one does wrong cannot hide what another does."""
    versions = [find(name) for name in names] or list(VERSIONS)
    work = [(v.name, part) for v in versions for part in (PARTS if v.takes_everything else PARTS[:1])]
    # Once without a tool, so that kernels are compiled once and not once a tool.
    results = run_all([(name, part, None) for name, part in work])
    results |= run_all([(name, part, tool) for name, part in work for tool in TOOLS])
    failed = {job: result for job, result in results.items() if result.returncode != 0}
    for (name, part, tool), result in failed.items():
        errors = [line for line in result.stdout.splitlines() if line.startswith("=========")]
        print(f"{name}, {part}, {tool or 'no tool'}: exit status {result.returncode}", *errors[:25], sep="\n")
        print(result.stderr[-500:])
    for version in versions:
        broken = {tool for name, _, tool in failed if name == version.name}
        clean = [tool for tool in TOOLS if tool not in broken]
        print(f"{version}: clean with {', '.join(clean) or 'none'}{'; fails without a tool' if None in broken else ''}")
    print(f"compute-sanitizer: {f'{len(failed)} of {len(results)} processes failed' if failed else 'clean'}")
    return 1 if failed else 0


Job = tuple[str, str, str | None]


def run_all(jobs: list[Job]) -> dict[Job, subprocess.CompletedProcess[str]]:
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        return dict(zip(jobs, pool.map(run_one, jobs), strict=True))


def run_one(job: Job) -> subprocess.CompletedProcess[str]:
    name, part, tool = job
    sanitizer = ["compute-sanitizer", f"--tool={tool}", "--error-exitcode=9", *TOOLS[tool]] if tool else []
    return subprocess.run(
        [*sanitizer, sys.executable, __file__, "--worker", name, part], capture_output=True, text=True, check=False
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(*sys.argv[2:])
    else:
        sys.exit(main(sys.argv[1:]))
