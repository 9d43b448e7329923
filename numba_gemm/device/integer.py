"""32-bit integer division by a value that is no constant.

Numba widens uint32 arithmetic to 64 bits, which costs nothing for sums (the compiler narrows them
again) and about a hundred instructions for a quotient.
"""

from __future__ import annotations

from numba_gemm.compiler.target import SIMULATOR


def quotient(dividend, divisor):
    """`dividend // divisor` as a uint32, for values below 2³²; the divisor is not 0."""
    return dividend // divisor


if not SIMULATOR:
    from numba.cuda import types
    from numba.cuda.extending import intrinsic, overload

    @intrinsic
    def _quotient(typing_context, dividend, divisor):
        def generate(context, builder, signature, arguments):
            narrow = [
                context.cast(builder, value, value_type, types.uint32)
                for value, value_type in zip(arguments, signature.args, strict=True)
            ]
            return builder.udiv(*narrow)

        return types.uint32(dividend, divisor), generate

    @overload(quotient, target="cuda")
    def _(dividend, divisor):
        return lambda dividend, divisor: _quotient(dividend, divisor)
