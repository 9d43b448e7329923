"""16-byte loads of data that are used once: they leave the L1 to what is used again.

`load4_once(array, index)` is `device.vector.load4` with that hint. The array must not be written while the kernel runs.
"""

from __future__ import annotations

from numba_gemm.compiler.target import SIMULATOR
from numba_gemm.device.vector import load4


def load4_once(array, index):
    """Four floats from `array[index]` on, along the last axis, as a tuple; the address is a multiple of 16."""
    return load4(array, index)


if not SIMULATOR:
    from llvmlite import ir
    from numba.cuda import cgutils, types
    from numba.cuda.extending import intrinsic, overload

    from numba_gemm.compiler.lowering import element_pointer

    #: Read-only data past the L1. No side effect: unlike an asynchronous copy, the compiler may move it.
    _LOAD = "ld.global.nc.L1::no_allocate.v4.f32 {$0, $1, $2, $3}, [$4];"

    @intrinsic
    def _load4_once(typing_context, array, index):
        def generate(context, builder, signature, arguments):
            pointer = element_pointer(context, builder, *signature.args, *arguments)
            four = ir.LiteralStructType([ir.FloatType()] * 4)
            assembly = ir.InlineAsm(ir.FunctionType(four, [pointer.type]), _LOAD, "=f,=f,=f,=f,l")
            loaded = builder.call(assembly, [pointer])
            return cgutils.pack_array(builder, [builder.extract_value(loaded, q) for q in range(4)])

        return types.UniTuple(types.float32, 4)(array, index), generate

    @overload(load4_once, target="cuda")
    def _(array, index):
        return lambda array, index: _load4_once(array, index)
