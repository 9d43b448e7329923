"""The command `numba-gemm`: `app` parses and calls, a file a verb does what is more than a call."""
