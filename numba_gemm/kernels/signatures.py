"""The arguments of the kernels: one set for rungs 1 to 5, one for those that take everything, one with a workspace."""

from __future__ import annotations

from typing import NamedTuple

from numba import float32, int64, types, uint32

_MATRIX = float32[:, ::1]

#: A, B, C: row-major and contiguous.
PLAIN = types.void(_MATRIX, _MATRIX, _MATRIX)

#: A, B, C, bias as arrays whose rows are as long as the leading dimension · M, N, K · alpha, beta ·
#: the distance of two matrices in a batch of A, B, C, in floats.
GENERAL = types.void(
    *(_MATRIX, _MATRIX, _MATRIX, _MATRIX),
    *(uint32, uint32, uint32),
    *(float32, float32),
    *(int64, int64, int64),
)

#: The same · partial sums, flags · how many matrices the batch has.
WITH_WORKSPACE = types.void(*GENERAL.args, float32[::1], uint32[::1], uint32)

#: Positions of arguments in those two.
AT_A, AT_B, AT_C, AT_BIAS, AT_ALPHA, AT_BETA, AT_SUMS, AT_FLAGS = 0, 1, 2, 3, 7, 8, 12, 13

#: Source and target of a copy, with any strides.
STAGING = types.void(float32[:, :], float32[:, :])


class WorkspaceSize(NamedTuple):
    """The memory in which the blocks of one launch exchange partial sums; see `numba_gemm.driver.workspace`."""

    #: Partial sums, which have no initial value.
    floats: int
    #: Flags or counters of 32 bits: all zero before a launch, and the kernel leaves them zero.
    flags: int
