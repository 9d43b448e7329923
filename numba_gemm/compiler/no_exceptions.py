"""A function whose exceptions are values: what it raises becomes NaN.

A kernel has nobody to raise an exception to. Numba has the thread end where it raises one, in the middle of the
kernel: without the barriers, stores and flags that are still to come, for which others then wait for ever, or not at
all.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from numba_gemm.compiler.target import SIMULATOR, device_function

#: What the compiler refuses when it compiles a function, and Python only notices when it runs it; and warnings.
_REFUSED = (NameError, AttributeError, TypeError, ImportError, Warning)


def nan_if_raised(function: Any) -> Any:
    """Device function that returns what `function` does, one from (x, row, column) to float32; NaN if that raises."""
    if SIMULATOR:
        return _simulated(function)
    call = _call_of(function)

    @device_function
    def value_or_nan(x, row, column):
        return call(x, row, column)

    return value_or_nan


def _simulated(function: Any) -> Any:
    def value_or_nan(x, row, column):
        try:
            return function(x, row, column)
        except _REFUSED:
            raise
        except Exception:
            return np.float32(math.nan)

    return value_or_nan


if not SIMULATOR:
    from llvmlite import ir
    from numba.cuda import types
    from numba.cuda.extending import intrinsic

    _NAN = ir.FloatType()(float("nan"))

    def _call_of(function: Any) -> Any:
        """The call of a function that looks at whether it returned or raised, which for most is known."""

        @intrinsic
        def call(typing_context, x, row, column):
            compiled = function.compile_device((x, row, column))

            def generate(context, builder, signature, arguments):
                context.add_linking_libs([compiled.library])
                status, value = context.call_internal_no_propagate(builder, compiled.fndesc, signature, arguments)
                return builder.select(status.is_ok, value, _NAN)

            return types.float32(x, row, column), generate

        return call
