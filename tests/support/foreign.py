"""Arrays of other libraries, for the tests about callers."""

import numpy as np
import pytest
from numba import cuda

from support.checks import units, wide_integers

#: The shape of a product in these tests.
M, N, K = 37, 29, 19


def numbers(rng, m=M, n=N, k=K):
    return wide_integers(rng, m, k), units(rng, k, n)


def on_device(kind, values):
    """The values as an array of that library."""
    library = pytest.importorskip({"numba": "numba"}.get(kind, kind))
    if kind == "torch":
        return library.as_tensor(values, device="cuda")
    return library.asarray(values) if kind == "cupy" else cuda.to_device(values)


def on_host(array):
    cuda.synchronize()
    for read in ("copy_to_host", "get", "cpu"):  # Numba, CuPy, PyTorch
        if hasattr(array, read):
            return np.asarray(getattr(array, read)())
    return np.asarray(array)


class DlpackOnly:
    """An array that has nothing but DLPack, and remembers the stream that it was asked for."""

    def __init__(self, array):
        self.array, self.streams = array, []

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options):
        self.streams.append(options.get("stream"))
        return self.array.__dlpack__(**options)
