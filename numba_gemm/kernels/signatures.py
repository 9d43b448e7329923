"""The arguments of the kernels, as Numba types: one set for rungs 1 to 5, one for those that take everything."""

from __future__ import annotations

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

#: Source and target of a copy, with any strides.
STAGING = types.void(float32[:, :], float32[:, :])
