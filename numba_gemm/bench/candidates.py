"""The versions of the ladder as candidates: prepared as `sgemm` would launch them, for one product."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from numba_gemm import ladder
from numba_gemm.auto.choose import choose
from numba_gemm.auto.entry import Choice, Key
from numba_gemm.bench.peers import Candidate
from numba_gemm.bench.product import Product
from numba_gemm.calls import checks
from numba_gemm.compiler.target import SIMULATOR
from numba_gemm.driver import cuda_api, launch, loading, multiply
from numba_gemm.driver.timing import Launch
from numba_gemm.kernels.signatures import PLAIN
from numba_gemm.ladder import Version
from numba_gemm.problem import arrange
from numba_gemm.tile import Tile

AUTO = "auto"
#: A version, or `AUTO`.
Requested = Version | str


def parse_versions(text: str) -> list[Requested]:
    """Versions as "1,5,auto" or by name, each once, in that order.

    Raises:
        ValueError: for what is no version.
    """
    return list(dict.fromkeys(_parse_version(part.strip()) for part in text.split(",")))


def _parse_version(text: str) -> Requested:
    if text == AUTO:
        return AUTO
    return ladder.find(int(text) if text.isdecimal() else text)


def automatic(product: Product) -> Choice:
    """The version and tile that "auto" takes on the current device."""
    return choose(cuda_api.current_device(), Key.of(arrange(product.a, product.b, product.c)))


def prepare_version(requested: Requested, product: Product, tile: Tile | None = None) -> Candidate:
    """Compile, load and prepare a version; what its kernel cannot take as it is goes through scratch at each launch.

    A copy into another layout, for a version that wants A column-major, is made here, once.

    Raises:
        ValueError, RuntimeError: if the device or the version cannot.
    """
    choice = automatic(product) if isinstance(requested, str) else Choice(requested, requested.default_tile)
    version = choice.version
    used = checks.checked_tile(version, tile or choice.tile, cuda_api.current_device())
    a, b, c = product.a, product.b, product.c
    run: Launch
    if version.needs_whole_tiles and used.padded(*product.shape) != product.shape:
        run = partial(multiply.multiply, version, used, a, b, c, 0)
        loaded = None if SIMULATOR else loading.load(loading.gemm_kernel(version, used), PLAIN, used.shared_bytes)
    else:
        launches = multiply.prepare_gemm(version, used, multiply.in_layout(version, a), b, c, 0)
        run = launches[0] if len(launches) == 1 else partial(_enqueue, launches)
        loaded = launches[0].loaded
    return Candidate(
        run,
        version=str(version),
        tile=str(used),
        registers=loaded.registers if loaded else None,
        local_bytes=loaded.local_bytes if loaded else None,
    )


def _enqueue(launches: Sequence[launch.Launch]) -> None:
    for prepared in launches:
        prepared()
