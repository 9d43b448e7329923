"""Three operations on float32, each a few instructions without a branch on a GPU.

Python's own words for them are longer there: `1 / x` and `a / b` are rounded correctly, for which they look at the
exponents and in rare cases call a function, and the compiler does not move the work of other outputs across that.
"""

from __future__ import annotations

import math

import numpy as np
from numba import cuda, float32

from numba_gemm.compiler.target import SIMULATOR, device_function

if SIMULATOR:

    def exp(x):
        """eˣ, within 1 ulp on a GPU."""
        return np.exp(np.float32(x))

    def fused(a, b, c):
        """Of a · b + c the float32 nearest to it: the product of two float32 is exact in float64."""
        return np.float32(np.float64(a) * np.float64(b) + np.float64(c))

    def reciprocal(x):
        """1 / x, within 1 ulp on a GPU; for x whose reciprocal is no subnormal."""
        return np.float32(1) / x
else:
    from llvmlite import ir
    from numba.cuda import types
    from numba.cuda.extending import intrinsic

    @device_function
    def exp(x):
        return float32(math.exp(x))

    @device_function
    def fused(a, b, c):
        return cuda.fma(a, b, c)

    @intrinsic
    def reciprocal(typing_context, x):
        def generate(context, builder, signature, arguments):
            kind = ir.FunctionType(ir.FloatType(), [ir.FloatType()])
            return builder.call(ir.InlineAsm(kind, "rcp.approx.ftz.f32 $0, $1;", "=f,f"), arguments)

        return types.float32(types.float32), generate
