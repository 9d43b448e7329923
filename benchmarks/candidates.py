"""Time all candidates of "auto" for many products, beside PyTorch: what its model is fitted to, and judged by.

`python benchmarks/candidates.py [fitted|held-out]` on a machine with a GPU and PyTorch, whose products are cuBLAS's.
Writes `benchmarks/results/candidates.json`; products of the set that is not asked for stay there as they are. Each
candidate is verified before it is timed, with a cold L2, all of a product in turn.

The products are those of neural networks, decoding and training, of other sizes and layouts than the suite's: most
weights come as PyTorch stores them, transposed.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks import choices
from numba_gemm.auto.candidates import candidates
from numba_gemm.auto.entry import KEY, Choice
from numba_gemm.device.epilogue import Epilogue
from numba_gemm.kernels.interface import Variant
from numba_gemm.problem import Problem

if TYPE_CHECKING:
    from numba_gemm.driver.timing import GpuTimer

RESULTS = Path(__file__).parents[1] / choices.RESULTS
ROUNDS, WARM_UPS = 7, 2


class Product(NamedTuple):
    m: int
    n: int
    k: int
    batch: int = 1
    trans_a: bool = False
    trans_b: bool = False
    aligned: bool = True

    @property
    def problem(self) -> Problem:
        """As for arrays at such addresses; there are none."""
        m, n, k, batch, trans_a, trans_b, aligned = self
        return Problem.contiguous(m, n, k, batch, trans_a=trans_a, trans_b=trans_b, aligned=aligned)

    @property
    def small(self) -> Product:
        """One that takes the same kernels: as long a last tile, along each axis."""
        m, n, k = (extent if extent <= 768 else 768 + extent % 256 for extent in self[:3])
        return self._replace(m=m, n=n, k=k, batch=min(self.batch, 2))


NT = {"trans_b": True}
FITTED = (
    *(
        Product(m, n, k)
        for n, k in ((4096, 4096), (14336, 4096), (4096, 14336))
        for m in (2, 4, 24, 32, 48, 96, 128, 256)
    ),
    *(Product(m, n, 4096, **NT) for n in (4096, 14336) for m in (1, 8, 16, 32, 64, 128)),
    *(Product(s, s, s) for s in (64, 96, 192, 384, 640, 768, 896, 1280, 1536, 1792, 3072, 500, 2000, 777, 1500)),
    *(Product(512, 4096, 4096, **NT), Product(2048, 4096, 4096, **NT)),
    *(Product(1024, 1024, 128, 32, **NT), Product(1024, 128, 1024, 32), Product(512, 512, 64, 64, **NT)),
    *(Product(100, 100, 100, 64), Product(1024, 1024, 1024, 8)),
    *(Product(4096, 1024, 1024), Product(1024, 4096, 1024), Product(777, 1333, 555), Product(1024, 1024, 16384)),
    *(Product(10000, 64, 64), Product(2048, 64, 2048), Product(64, 2048, 2048)),
    *(Product(1, 50257, 768, **NT), Product(32, 50257, 768, **NT)),
)
HELD_OUT = (
    *(Product(3, 4096, 4096), Product(20, 5120, 5120), Product(12, 13824, 5120), Product(40, 5120, 13824)),
    *(Product(80, 8192, 8192), Product(1, 11008, 4096, **NT), Product(6, 11008, 4096, **NT)),
    *(Product(28, 11008, 4096, **NT), Product(112, 4096, 11008, **NT), Product(1, 32000, 4096, **NT)),
    *(Product(s, s, s) for s in (160, 320, 448, 576, 1152, 1408, 2304, 2560, 3584)),
    *(Product(6000, 300, 900), Product(300, 6000, 900), Product(128, 8192, 1024), Product(2048, 2048, 64)),
    *(Product(512, 512, 8192), Product(96, 96, 20000)),
    *(Product(2048, 2048, 2048, trans_a=True), Product(4096, 512, 4096, trans_a=True)),
    *(Product(640, 2560, 2560, **NT), Product(1001, 1001, 1001), Product(31, 4097, 4093), Product(2047, 2049, 2051)),
    *(Product(1024, 1024, 1024, aligned=False), Product(16, 4096, 4096, aligned=False)),
    *(Product(128, 128, 64, 128, **NT), Product(256, 256, 256, 16), Product(2048, 2048, 64, 8, **NT)),
    Product(64, 64, 64, 256),
)
SETS = {"fitted": FITTED, "held-out": HELD_OUT}


def compile_one(product: Product, choice: Choice) -> None:
    from numba_gemm.bench.trial import Trial

    Trial(**product._asdict()).launch(choice)


def compile_all(products: tuple[Product, ...], capability: tuple[int, int]) -> None:
    """On all processors, each kernel once; it stays on disk."""
    tasks: dict[tuple[Choice, Variant], tuple[Product, Choice]] = {}
    for product in products:
        for choice in candidates(product.problem.key, capability):
            variant = Variant.of(choice.version.oriented(product.problem), choice.tile, Epilogue())
            tasks.setdefault((choice, variant), (product.small, choice))
    with ProcessPoolExecutor((os.cpu_count() or 2) - 1, mp_context=get_context("spawn")) as pool:
        for _ in pool.map(compile_one, *zip(*tasks.values(), strict=True)):
            pass


def by_torch(product: Product) -> Callable[[], object]:
    import torch

    m, n, k, batch = product[:4]
    a, b = (torch.randn(batch, rows, columns, device="cuda") for rows, columns in ((m, k), (k, n)))
    # In memory as the flags say, but of the shapes of the product.
    a = a.transpose(1, 2).contiguous().transpose(1, 2) if product.trans_a else a
    b = b.transpose(1, 2).contiguous().transpose(1, 2) if product.trans_b else b
    if batch > 1:
        c = torch.empty(batch, m, n, device="cuda")
        return lambda: torch.bmm(a, b, out=c)
    matrix = torch.empty(m, n, device="cuda")
    return lambda: torch.mm(a[0], b[0], out=matrix)


def measure(product: Product, capability: tuple[int, int], timer: GpuTimer) -> dict[str, Any]:
    """Median seconds of PyTorch's product and of each candidate, the fastest first."""
    from numba_gemm.bench.trial import Trial

    trial, launches = Trial(**product._asdict()), {"torch": by_torch(product)}
    assert trial.key == product.problem.key, f"{trial.key} is not {product.problem.key}"
    for choice in candidates(trial.key, capability):
        launch = trial.launch(choice)
        error = trial.error(launch)
        assert error <= 1, f"{choice} is wrong for {trial.key}: its error is {error:.3g} times the bound"
        launches[str(choice)] = launch
    times = timer.compare(launches, rounds=ROUNDS, warm_ups=WARM_UPS)
    seconds = {name: time.median for name, time in times.items()}
    torch = seconds.pop("torch")
    return {
        **{name: getattr(trial.key, name) for name in KEY},
        "torch": torch,
        "candidates": dict(sorted(seconds.items(), key=lambda item: item[1])),
    }


def main(names: list[str]) -> None:
    from numba import cuda

    from numba_gemm.bench.environment import describe
    from numba_gemm.compiler.whole_file import replace_file
    from numba_gemm.driver.timing import GpuTimer

    stored: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    capability = tuple(cuda.get_current_device().compute_capability)
    timer = GpuTimer()
    for name in names:
        compile_all(SETS[name], capability)
        results: list[dict[str, Any]] = []
        date = datetime.now(UTC).isoformat(timespec="minutes")
        stored[name] = {"machine_info": describe(), "datetime": date, "products": results}
        for product in SETS[name]:
            result = measure(product, capability, timer)
            results.append(result)
            (judged,) = choices.judge({**stored[name], "products": [result]})
            print(
                f"{judged.key}: {judged.choice} {judged.seconds * 1e6:.1f} µs, {judged.vs_pytorch:.2f} × PyTorch; "
                f"{1 / judged.vs_fastest:.2f} times the fastest, {next(iter(result['candidates']))}",
                flush=True,
            )
            replace_file(RESULTS, (json.dumps(stored, indent=1, ensure_ascii=False) + "\n").encode())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sets", nargs="*", metavar="SET", default=list(SETS), help=" or ".join(SETS))
    sets = parser.parse_args().sets
    if unknown := [name for name in sets if name not in SETS]:
        parser.error(f"there is no set {unknown[0]!r}; there are {', '.join(SETS)}")
    main(sets)
