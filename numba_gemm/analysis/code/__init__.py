"""Reading machine code, and tracing the accesses of the kernels' own source."""
