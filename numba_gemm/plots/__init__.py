"""The pictures of the project: what `numba-gemm plot` draws, from the models, the access tracer and stored results.

`catalogue.PICTURES` lists them as data, without matplotlib. Each is drawn by a file of its name in `drawings`, which
holds no figure of its own: shapes and devices are chosen in `subjects`, and all else is computed or read.
"""
