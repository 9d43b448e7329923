"""`Variant`: what a rung with edges is compiled for, besides its tile."""

from __future__ import annotations

from dataclasses import dataclass, field

from numba_gemm.device.epilogue import Epilogue


@dataclass(frozen=True)
class Variant:
    """One instantiation of a kernel that takes any shape and layout."""

    #: Whether k is the contiguous index of A (row-major A) rather than m (A transposed).
    a_along_k: bool = True
    #: Whether k is the contiguous index of B (B transposed) rather than n (row-major B).
    b_along_k: bool = False
    #: Whether all addresses and leading dimensions allow 16-byte accesses.
    vector: bool = True
    #: Whether M, N, K are whole tiles: nothing is checked then.
    whole: bool = True
    #: Whether C lies row by row; else column by column.
    c_along_n: bool = True
    #: Rows that a kernel for few of them computes at once; 0 for kernels with a tile of rows.
    rows: int = 0
    epilogue: Epilogue = field(default_factory=Epilogue)
