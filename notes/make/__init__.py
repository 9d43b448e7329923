"""What is generated in `notes/`: numbers, tables, links to source lines. `python -m numba_gemm.notes` fills it in."""
