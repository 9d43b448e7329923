"""The versions of the ladder as candidates: prepared as `sgemm` would launch them, for one product."""

from __future__ import annotations

from numba_gemm import ladder
from numba_gemm.auto.choose import choose
from numba_gemm.auto.entry import Choice
from numba_gemm.bench.peers import Candidate
from numba_gemm.bench.product import Product
from numba_gemm.calls import checks
from numba_gemm.driver import cuda_api
from numba_gemm.driver.product import Operands, in_layout, prepare_product
from numba_gemm.ladder import Version
from numba_gemm.problem import Problem
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
    return choose(cuda_api.current_device(), Problem.of(product.a, product.b, product.c).key)


def prepare_version(requested: Requested, product: Product, tile: Tile | None = None) -> Candidate:
    """Compile, load and prepare a version; what its kernel cannot take as it is goes through scratch at each launch.

    A copy into another layout, for a version that wants A column-major, is made here, once.

    Raises:
        ValueError, RuntimeError: if the device or the version cannot.
    """
    choice = automatic(product) if isinstance(requested, str) else Choice(requested, requested.default_tile)
    version = choice.version
    used = checks.checked_tile(version, tile or choice.tile, cuda_api.current_device())
    operands = Operands(product.a, product.b, product.c)
    if not version.needs_whole_tiles or used.padded(*product.shape) == product.shape:
        operands = operands._replace(a=in_layout(version, operands.a))
    prepared = prepare_product(version, used, operands)
    loaded = prepared.main.loaded if prepared.main else None
    return Candidate(
        prepared.bound(operands),
        version=str(version),
        tile=str(used),
        registers=loaded.registers if loaded else None,
        local_bytes=loaded.local_bytes if loaded else None,
    )
