"""Shaped views of dynamic shared memory.

A launch has one dynamic allocation, and `cuda.shared.array(0, float32, 16)` names it as a flat array.
Above 48 KB it is the only kind there is. `shared_view(memory, shape, offset)` reads a part of it, from
element `offset` on, as a row-major array of `shape`; no data moves. (`reshape` would call a helper that
does not link into a kernel.)
"""

from __future__ import annotations

import math

from numba_gemm.compiler.target import SIMULATOR


def shared_view(memory, shape, offset):
    """Row-major array of `shape` over `memory[offset:]`; shape and offset are compile-time constants."""
    return memory[offset : offset + math.prod(shape)].reshape(shape)


if not SIMULATOR:
    from llvmlite import ir
    from numba.cuda import cgutils, types
    from numba.cuda.core import ir_utils
    from numba.cuda.extending import intrinsic, overload
    from numba.cuda.np.arrayobj import populate_array

    @intrinsic
    def _shared_view(typing_context, memory, shape, offset):
        view_type = types.Array(memory.dtype, len(shape), "C")

        def generate(context, builder, signature, arguments):
            source, shape_value, offset_value = arguments
            itemsize = context.get_abi_sizeof(context.get_data_type(view_type.dtype))
            base = context.make_array(signature.args[0])(context, builder, value=source).data
            extents = [
                context.cast(builder, extent, extent_type, types.intp)
                for extent, extent_type in zip(
                    cgutils.unpack_tuple(builder, shape_value), signature.args[1], strict=True
                )
            ]
            word = extents[0].type
            strides = [ir.Constant(word, itemsize)]
            for extent in reversed(extents[1:]):
                strides.insert(0, builder.mul(strides[0], extent))
            view = context.make_array(view_type)(context, builder)
            populate_array(
                view,
                data=builder.gep(base, [offset_value]),
                shape=extents,
                strides=strides,
                itemsize=ir.Constant(word, itemsize),
                meminfo=None,
            )
            return view._getvalue()

        return view_type(memory, shape, offset), generate

    def _add_alias(view, arguments, alias_map, argument_aliases):
        ir_utils._add_alias(view, arguments[0].name, alias_map, argument_aliases)

    # Inlining removes stores to arrays that nobody reads: it has to know that a view reads `memory`.
    ir_utils.alias_func_extensions["_shared_view", __name__] = _add_alias

    # Inlined: Numba lets no function return an array that it did not receive.
    @overload(shared_view, target="cuda", inline="always")
    def _(memory, shape, offset):
        return lambda memory, shape, offset: _shared_view(memory, shape, offset)
