"""Run every version under each of compute-sanitizer's tools, on shapes that reach the edges.

`python tests/sanitize.py` on a machine with a GPU; exit status 1 if a tool finds anything. `--worker` is
what the sanitizer runs.
"""

from __future__ import annotations

import subprocess
import sys

TOOLS = {
    "memcheck": ["--leak-check=no"],
    "racecheck": [],  # shared memory
    "initcheck": [],
    "synccheck": [],
}


def worker() -> None:
    import numpy as np
    from numba import cuda

    import numba_gemm

    rng = np.random.default_rng(0)
    for version in numba_gemm.VERSIONS:
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


def main() -> int:
    failed = []
    for tool, options in TOOLS.items():
        command = ["compute-sanitizer", f"--tool={tool}", "--error-exitcode=9", *options]
        result = subprocess.run(
            [*command, sys.executable, __file__, "--worker"], capture_output=True, text=True, check=False
        )
        summary = [line for line in result.stdout.splitlines() if "SUMMARY" in line]
        print(f"{tool}: exit status {result.returncode}; {'; '.join(summary) or 'no summary'}", flush=True)
        if result.returncode != 0:
            failed.append(tool)
            print(result.stdout[-3000:], result.stderr[-3000:], sep="\n")
    print(f"compute-sanitizer: {'failed: ' + ', '.join(failed) if failed else 'clean with ' + ', '.join(TOOLS)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(worker() if "--worker" in sys.argv else main())
