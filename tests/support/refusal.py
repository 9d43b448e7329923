"""How the tests ask for an error: `sgemm` has to refuse, say why, and leave everything as it was."""

import numpy as np
import pytest
from numba import cuda

from numba_gemm import sgemm
from support.guarded import POISON, DeviceView, Guarded, pointer_of

#: The shape of a product in these tests: three numbers that a message cannot hold by chance.
M, N, K = 5, 7, 3


def ones(*shape, dtype=np.float32):
    return cuda.to_device(np.ones(shape, dtype))


def refused(error, *fragments, a=None, b=None, c=None, **options):
    """`sgemm` raises exactly this error, says all of this, and leaves C as it was."""
    options.setdefault("version", 1)
    a, b = ones(M, K) if a is None else a, ones(K, N) if b is None else b
    result = Guarded.poisoned(M, N)
    with pytest.raises(error) as caught:
        sgemm(a, b, result.view if c is None else c, **options)
    assert type(caught.value) is error
    message = str(caught.value)
    missing = [str(fragment) for fragment in fragments if str(fragment) not in message]
    assert not missing, f"{missing} not in: {message}"
    result.assert_untouched("C")


def view(shape, strides=None, *, offset=0, read_only=False, floats=4096, **interface):
    """A device array described as whatever; there is memory behind every one of them."""
    buffer = cuda.to_device(np.full(floats, POISON))
    middle = pointer_of(buffer) + floats // 2 * 4
    return DeviceView(buffer, data=(middle + offset, read_only), shape=shape, strides=strides, **interface)
