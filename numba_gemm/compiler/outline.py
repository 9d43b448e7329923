"""A function of a float that a kernel has one copy of, and calls: the opposite of inlining.

A thread has up to 128 outputs. A long function, such as most activations, that is inlined for each of them makes the
kernel more than twice as long, and leaves the compiler a choice of how many to compute side by side, which it pays for
with registers; it then schedules the main loop otherwise as well. Called, it is a few hundred bytes of code, and all
the rest of the kernel is the code that it would be without one. A call takes four values, for their latencies to
overlap.
"""

from __future__ import annotations

from typing import Any

from numba_gemm.compiler.target import SIMULATOR, device_function


def outline4(function: Any) -> Any:
    """Device function of four floats that returns the tuple of what `function`, a device function, makes of each."""
    if SIMULATOR:
        return lambda *values: tuple(function(value) for value in values)
    call = _call_of(function)

    @device_function
    def four(x, y, z, w):
        return call(x, y, z, w)

    return four


if not SIMULATOR:
    from llvmlite import ir
    from numba.cuda import types
    from numba.cuda.extending import intrinsic

    _FLOAT = ir.FloatType()
    _FOUR = ir.LiteralStructType([_FLOAT] * 4)
    _NAN = _FLOAT(float("nan"))

    def _call_of(function: Any) -> Any:
        """The call of a function that the compiler may not inline.

        It takes and returns floats by value, which are registers. Numba's own functions return by way of memory.
        """

        @intrinsic
        def call(typing_context, x, y, z, w):
            def generate(context, builder, signature, arguments):
                name = f"outlined_{function.py_func.__name__}"
                target = builder.module.globals.get(name) or _define(context, builder.module, name, function)
                found = builder.call(target, arguments)
                values = [builder.extract_value(found, index) for index in range(4)]
                return context.make_tuple(builder, signature.return_type, values)

            f = types.float32
            return types.UniTuple(f, 4)(f, f, f, f), generate

        return call

    def _define(context, module, name, function):
        target = ir.Function(module, ir.FunctionType(_FOUR, [_FLOAT] * 4), name)
        target.linkage = "internal"
        target.attributes.add("noinline")
        builder = ir.IRBuilder(target.append_basic_block())
        compiled = function.compile_device((types.float32,))
        context.add_linking_libs([compiled.library])
        signature = types.float32(types.float32)
        result = ir.Constant(_FOUR, ir.Undefined)
        for index, argument in enumerate(target.args):
            status, value = context.call_internal_no_propagate(builder, compiled.fndesc, signature, [argument])
            value = builder.select(status.is_ok, value, _NAN)  # an exception leaves nothing else to return
            result = builder.insert_value(result, value, index)
        builder.ret(result)
        return target
