"""Run every version under each of compute-sanitizer's tools, on shapes and layouts that reach the edges.

`python tests/sanitize.py` on a machine with a GPU; exit status 1 if a tool finds anything. `--worker` is
what the sanitizer runs.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from products import Placement, Product

from numba_gemm import VERSIONS, Tile
from numba_gemm.ladder import find

TOOLS = {
    "memcheck": ["--leak-check=no"],
    "racecheck": [],  # shared memory
    "initcheck": [],
    "synccheck": [],
}


def worker(name: str) -> None:
    import numpy as np
    from numba import cuda

    import numba_gemm

    rng = np.random.default_rng(0)
    version = find(name)
    tile = version.default_tile
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
    if version.takes_variants:
        for product in layouts(tile):
            product.check(version, tile, rng)


def layouts(tile: Tile) -> Iterator[Product]:
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
    for trans_a, trans_b in ((False, False), (False, True), (True, False), (True, True)):
        for place in (Placement(multiple=4), Placement(pitch=3, shift=1), Placement(column_major=True, pitch=5)):
            yield Product(
                *(fours if place.multiple > 1 else sizes), trans_a=trans_a, trans_b=trans_b, a=place, b=place, c=place
            )
        yield Product(*sizes, batch=2, shared="b", trans_a=trans_a, trans_b=trans_b, c=Placement(gap=4), **finish)
    yield Product(5, 3, 0, c=Placement(pitch=1), **finish)
    yield Product(2 * tile.bm, tile.bn, 7 * tile.bk, trans_a=True, **finish)


def main() -> int:
    """One process a version and tool, so that what one does wrong cannot hide what another does."""
    versions = [version.name for version in VERSIONS]
    with ThreadPoolExecutor(max_workers=8) as pool:
        results = {(version, tool): pool.submit(run_tool, tool, version) for version in versions for tool in TOOLS}
    failed = []
    for (version, tool), future in results.items():
        result = future.result()
        if result.returncode != 0:
            failed.append(f"{version} ({tool})")
            errors = [line for line in result.stdout.splitlines() if line.startswith("=========")]
            print(f"{version}, {tool}: exit status {result.returncode}", *errors[:25], result.stderr[-500:], sep="\n")
    for version in versions:
        clean = [tool for tool in TOOLS if results[version, tool].result().returncode == 0]
        print(f"{version}: clean with {', '.join(clean) or 'none'}")
    print(f"compute-sanitizer: {'failed: ' + ', '.join(failed) if failed else 'clean'}")
    return 1 if failed else 0


def run_tool(tool: str, version: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *("compute-sanitizer", f"--tool={tool}", "--error-exitcode=9", *TOOLS[tool]),
            *(sys.executable, __file__, "--worker", version),
        ],
        capture_output=True,
        text=True,
        check=False,
    )


if __name__ == "__main__":
    sys.exit(worker(sys.argv[2]) if "--worker" in sys.argv else main())
