"""Matrices in device memory with guard bands: whatever a kernel writes beside them shows."""

import numpy as np
from numba import cuda

from numba_gemm.driver.operands import as_operand

#: A NaN with a payload that no arithmetic makes. A kernel that reads it gives NaN; one that writes over it is seen.
POISON = np.array(0x7FC0BEEF, np.uint32).view(np.float32)


def _flat(start):
    def layout(rows, columns):
        return 2 * start + rows * columns, lambda whole: whole[start : start + rows * columns].reshape(rows, columns)

    return layout


def _column_major(rows, columns):
    size, view = _flat(16)(columns, rows)
    return size, lambda whole: view(whole).T


def _pitched(rows, columns):
    return (rows + 4, columns + 7), lambda whole: whole[2 : 2 + rows, 3 : 3 + columns]


def _pitched_column_major(rows, columns):
    shape, view = _pitched(columns, rows)
    return shape, lambda whole: view(whole).T


def _every_second_row(rows, columns):
    return (2 * rows + 2, columns + 8), lambda whole: whole[1 : 1 + 2 * rows : 2, 4 : 4 + columns]


#: From a shape to that of the buffer around it, and how the matrix lies in the buffer.
LAYOUTS = {
    "contiguous": _flat(16),  # 64 bytes in: aligned for every access
    "unaligned": _flat(17),
    "pitched": _pitched,
    "every second row": _every_second_row,
    "column-major": _column_major,
    "pitched column-major": _pitched_column_major,
}


class DeviceView:
    """Any part of a device buffer, with any strides, as `__cuda_array_interface__` tells it."""

    def __init__(self, owner, **interface):
        self.owner = owner
        self.__cuda_array_interface__ = {"version": 3, "typestr": "<f4", "strides": None, **interface}

    @property
    def shape(self):
        return self.__cuda_array_interface__["shape"]


def pointer_of(device_array) -> int:
    return as_operand(device_array, "array", 0).pointer


def bits(array) -> np.ndarray:
    """For comparisons in which −0 is not 0 and NaN equals itself."""
    return np.ascontiguousarray(array, np.float32).view(np.uint32)


class Guarded:
    """An array inside a larger poisoned buffer on the device, and a copy of the buffer as it was.

    The layout is one of `LAYOUTS`, which are for matrices, or a function like them for any shape.
    """

    def __init__(self, values, layout="contiguous"):
        values = np.asarray(values, np.float32)
        place = LAYOUTS[layout] if isinstance(layout, str) else layout
        shape, self._view = place(*values.shape)
        self.before = np.full(shape, POISON)
        inside = self._view(self.before)
        inside[...] = values
        self.buffer = cuda.to_device(self.before)
        offset = inside.ctypes.data - self.before.ctypes.data
        self.view = DeviceView(
            self.buffer,
            data=(pointer_of(self.buffer) + offset, False),
            shape=inside.shape,
            strides=inside.strides,
        )

    @classmethod
    def poisoned(cls, rows, columns, layout="contiguous"):
        """A place for a result, full of NaN."""
        return cls(np.full((rows, columns), POISON), layout)

    def values(self) -> np.ndarray:
        return self._view(self.buffer.copy_to_host()).copy()

    def assert_untouched(self, name):
        self._assert_same(name, self.before, self.buffer.copy_to_host())

    def assert_guards_intact(self, name):
        after = self.buffer.copy_to_host()
        self._view(after)[...] = self._view(self.before)
        self._assert_same(f"the memory around {name}", self.before, after)

    @staticmethod
    def _assert_same(name, before, after):
        changed = np.argwhere(bits(before) != bits(after))
        if len(changed):
            first = tuple(int(i) for i in changed[0])
            raise AssertionError(
                f"{name} changed in {len(changed)} of {before.size} places, first at {first} of its buffer: "
                f"{before[first]} became {after[first]}"
            )
