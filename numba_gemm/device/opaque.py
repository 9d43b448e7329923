"""A value that the compiler knows nothing about.

What depends only on values from before a loop, the compiler computes once and keeps in registers through the
loop, with no regard for what else needs registers there. `opaque(value)` inside the loop is the same value, but
what depends on it is computed where it is needed.
"""

from __future__ import annotations

from numba_gemm.compiler.target import SIMULATOR


def opaque(value):
    """`value` as a uint32 of which the compiler knows nothing."""
    return value


if not SIMULATOR:
    from llvmlite import ir
    from numba.cuda import types
    from numba.cuda.extending import intrinsic, overload

    from numba_gemm.compiler.lowering import I32

    @intrinsic
    def _opaque(typing_context, value):
        def generate(context, builder, signature, arguments):
            word = context.cast(builder, arguments[0], signature.args[0], types.uint32)
            move = ir.InlineAsm(ir.FunctionType(I32, [I32]), "mov.b32 $0, $1;", "=r,r", side_effect=True)
            return builder.call(move, [word])

        return types.uint32(value), generate

    @overload(opaque, target="cuda")
    def _(value):
        return lambda value: _opaque(value)
