"""`numba-gemm explain`: the model of a version on a shape."""

from __future__ import annotations

from numba_gemm.analysis.models import explain as models
from numba_gemm.analysis.models.explain import Explanation
from numba_gemm.cli.arguments import number_or_name


def explain(version: str, m: int, n: int, k: int, device: str | None, detail: bool) -> Explanation:
    """As `numba_gemm.explain`, with the version as it is written on the command line.

    Raises:
        ValueError, RuntimeError: like `numba_gemm.explain`.
    """
    return models.explain(number_or_name(version), m, n, k, device, detail=detail)
