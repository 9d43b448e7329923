"""The few LLVM fragments that the device helpers share. Imported only where Numba generates code."""

from __future__ import annotations

from llvmlite import ir
from numba.cuda import cgutils
from numba.cuda.api_util import normalize_indices

FLOAT4 = ir.VectorType(ir.FloatType(), 4)
I32 = ir.IntType(32)
SHARED_ADDRESS_SPACE = 3


def element_pointer(context, builder, array_type, index_type, array, index):
    """Generic pointer to `array[index]`; the index is taken as non-negative, like all of ours."""
    index_type, indices = normalize_indices(context, builder, index_type, index, array_type, array_type.dtype)
    struct = context.make_array(array_type)(context, builder, value=array)
    return cgutils.get_item_pointer(context, builder, array_type, struct, indices, wraparound=False)


def shared_address(builder, pointer):
    """The 32-bit address that shared-memory instructions take, from a generic pointer."""
    shared = builder.addrspacecast(pointer, ir.PointerType(pointer.type.pointee, SHARED_ADDRESS_SPACE))
    return builder.ptrtoint(shared, I32)


def inline_ptx(builder, text, constraints, arguments=()):
    """Emit one PTX instruction that the optimiser may neither drop nor move across memory accesses."""
    function_type = ir.FunctionType(ir.VoidType(), [argument.type for argument in arguments])
    constraints = ",".join([*constraints, "~{memory}"])
    builder.call(ir.InlineAsm(function_type, text, constraints, side_effect=True), list(arguments))
