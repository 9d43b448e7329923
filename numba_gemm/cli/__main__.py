"""`python -m numba_gemm.cli`."""

from numba_gemm.cli.app import app

app()
