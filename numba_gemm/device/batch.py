"""One matrix of a strided batch: an array that starts further on in memory."""

from __future__ import annotations

import ctypes

import numpy as np

from numba_gemm.compiler.target import SIMULATOR


def moved(array, elements):
    """An array with the shape and strides of `array` that begins `elements` elements further on in memory."""
    host = array if isinstance(array, np.ndarray) else array._item._ary  # shared memory is NumPy's own
    start = host.ctypes.data + int(elements) * host.itemsize
    memory = memoryview((ctypes.c_byte * host.nbytes).from_address(start)).cast("B")
    return np.ndarray(host.shape, host.dtype, memory, strides=host.strides)


if not SIMULATOR:
    from numba.cuda.extending import intrinsic, overload
    from numba.cuda.np.arrayobj import populate_array
    from numba.cuda.types import intp

    @intrinsic
    def _moved(typing_context, array, elements):
        def generate(context, builder, signature, arguments):
            array_type, elements_type = signature.args
            source = context.make_array(array_type)(context, builder, value=arguments[0])
            offset = context.cast(builder, arguments[1], elements_type, intp)
            target = context.make_array(array_type)(context, builder)
            populate_array(
                target,
                data=builder.gep(source.data, [offset]),
                shape=source.shape,
                strides=source.strides,
                itemsize=source.itemsize,
                meminfo=None,
            )
            return target._getvalue()

        return array(array, elements), generate

    # Inlined: Numba lets no function return an array that it did not receive.
    @overload(moved, target="cuda", inline="always")
    def _(array, elements):
        return lambda array, elements: _moved(array, elements)
