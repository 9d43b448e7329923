"""The command `numba-gemm`: `app` parses and calls, one file a verb does what is more than a call."""
