"""Measuring on a GPU: events, a cold L2 cache, the cuBLAS baseline, and tables of the results.

Shared by the command line, `driver.compare` and the pytest-benchmark suites, so that a figure means the
same wherever it is printed. `benchmarks/README.md` has the protocol.
"""
