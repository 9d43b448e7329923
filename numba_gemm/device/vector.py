"""16-byte accesses to global memory: four neighbouring floats by one instruction.

`load4(array, index)` and `store4(array, index, x, y, z, w)` name the first element by its index; its
address has to be a multiple of 16. They become LDG.128 and STG.128. Shared memory needs no helper:
there the compiler merges neighbouring accesses by itself, and the machine-code tests see that it does.
"""

from __future__ import annotations

from numba_gemm.compiler.simulator import require_aligned
from numba_gemm.compiler.target import SIMULATOR


def load4(array, index):
    """Four floats from `array[index]` on, along the last axis, as a tuple."""
    require_aligned(array, index)
    *head, last = index
    return tuple(array[(*head, last + q)] for q in range(4))


def store4(array, index, x, y, z, w):
    """Write four floats from `array[index]` on, along the last axis."""
    require_aligned(array, index)
    *head, last = index
    for q, value in enumerate((x, y, z, w)):
        array[(*head, last + q)] = value


if not SIMULATOR:
    from llvmlite import ir
    from numba.cuda import cgutils, types
    from numba.cuda.extending import intrinsic, overload

    from numba_gemm.compiler.lowering import FLOAT4, I32, element_pointer

    @intrinsic
    def _load4(typing_context, array, index):
        def generate(context, builder, signature, arguments):
            array_type, index_type = signature.args
            pointer = element_pointer(context, builder, array_type, index_type, *arguments)
            vector = builder.load(builder.bitcast(pointer, FLOAT4.as_pointer()), align=16)
            return cgutils.pack_array(builder, [builder.extract_element(vector, I32(q)) for q in range(4)])

        return types.UniTuple(types.float32, 4)(array, index), generate

    @intrinsic
    def _store4(typing_context, array, index, x, y, z, w):
        def generate(context, builder, signature, arguments):
            array_type, index_type = signature.args[:2]
            pointer = element_pointer(context, builder, array_type, index_type, *arguments[:2])
            vector = ir.Constant(FLOAT4, ir.Undefined)
            for q, value in enumerate(arguments[2:]):
                vector = builder.insert_element(vector, value, I32(q))
            builder.store(vector, builder.bitcast(pointer, FLOAT4.as_pointer()), align=16)
            return context.get_dummy_value()

        f = types.float32
        return types.void(array, index, f, f, f, f), generate

    @overload(load4, target="cuda")
    def _(array, index):
        return lambda array, index: _load4(array, index)

    @overload(store4, target="cuda")
    def _(array, index, x, y, z, w):
        return lambda array, index, x, y, z, w: _store4(array, index, x, y, z, w)
