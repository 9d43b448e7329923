"""Run every version in Numba's simulator on a few small tiles; print one JSON object a line.

A program of its own, because the simulator has to be on before Numba is imported:
`NUMBA_ENABLE_CUDASIM=1 python -m numba_gemm.bench.simulated`.
"""

from __future__ import annotations

import json
import sys

from numba_gemm import ladder
from numba_gemm.compiler.target import SIMULATOR
from numba_gemm.driver.compare import compare


def main() -> None:
    if not SIMULATOR:
        sys.exit("set NUMBA_ENABLE_CUDASIM=1")
    for version in ladder.RUNGS:
        tile = version.small_tile
        # Two tiles by two, less one row and column, and enough of K to fill and drain a pipeline.
        shape = (2 * tile.bm - 1, 2 * tile.bn - 1, 5 * tile.bk)
        result = compare(version.name, *shape, tile=tile)
        print(json.dumps({"name": version.name, "shape": shape, "error": result.error}), flush=True)


if __name__ == "__main__":
    main()
