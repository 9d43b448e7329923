"""cuBLAS SGEMM, the baseline, by ctypes from the CUDA libraries at hand."""

from __future__ import annotations

import ctypes
from enum import IntEnum
from functools import cache

from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib

from numba_gemm.problem import Operand

_OP_N = 0


class MathMode(IntEnum):
    """cublasMath_t: whether FP32 products may be computed with TF32 inputs on tensor cores."""

    FP32 = 0
    TF32 = 3


class CublasError(RuntimeError):
    """A cuBLAS call failed."""


class Cublas:
    """A cuBLAS handle of the current device, with TF32 off unless asked for.

    Raises:
        CublasError: if there is no cuBLAS, saying how to get one, or a call fails.
    """

    def __init__(self, math_mode: MathMode = MathMode.FP32) -> None:
        self._library = _library()
        self._handle = ctypes.c_void_p()
        self._call("cublasCreate_v2", ctypes.byref(self._handle))
        self._call("cublasSetMathMode", self._handle, ctypes.c_int(math_mode))
        self._one, self._zero = ctypes.c_float(1), ctypes.c_float(0)

    def sgemm(self, a: Operand, b: Operand, c: Operand, stream: int = 0) -> None:
        """C = A·B for row-major contiguous matrices; asynchronous.

        cuBLAS is column-major and reads our row-major arrays as transposes: it computes Cᵀ = Bᵀ·Aᵀ.
        """
        (m, k), n = a.shape, b.shape[1]
        self._call("cublasSetStream_v2", self._handle, ctypes.c_void_p(stream))
        self._call(
            "cublasSgemm_v2",
            self._handle,
            ctypes.c_int(_OP_N),
            ctypes.c_int(_OP_N),
            ctypes.c_int(n),
            ctypes.c_int(m),
            ctypes.c_int(k),
            ctypes.byref(self._one),
            ctypes.c_void_p(b.pointer),
            ctypes.c_int(n),
            ctypes.c_void_p(a.pointer),
            ctypes.c_int(k),
            ctypes.byref(self._zero),
            ctypes.c_void_p(c.pointer),
            ctypes.c_int(n),
        )

    def version(self) -> str:
        """The library's version, such as 13.0.2."""
        number = ctypes.c_int()
        self._call("cublasGetVersion_v2", self._handle, ctypes.byref(number))
        return f"{number.value // 10000}.{number.value // 100 % 100}.{number.value % 100}"

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._library, name)(*arguments)
        if status != 0:
            raise CublasError(f"{name} failed with cublasStatus_t {status}")


@cache
def _library() -> ctypes.CDLL:
    try:
        found = load_nvidia_dynamic_lib("cublas")
    except DynamicLibNotFoundError as error:
        raise CublasError(
            "cuBLAS was not found; install it with `pip install 'numba-gemm[cublas13]'` (or cublas12), "
            "or a CUDA toolkit"
        ) from error
    return ctypes.CDLL(found.abs_path)
