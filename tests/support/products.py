"""One call of `sgemm` with everything that a caller may ask for, checked against NumPy without any rounding."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.lib.stride_tricks import as_strided

from numba_gemm import sgemm
from support.checks import assert_same, units, wide_integers
from support.guarded import POISON, Guarded


@dataclass(frozen=True)
class Placement:
    """How a matrix, or a batch of matrices, lies in memory: a layout for `Guarded`."""

    column_major: bool = False
    #: Floats between the end of a line and the start of the next one.
    pitch: int = 0
    #: Floats from an address that is aligned for every access to the first element.
    shift: int = 0
    #: Floats between the end of a matrix and the start of the next one.
    gap: int = 0
    #: The distance of two lines, without the pitch, is rounded up to a multiple of this.
    multiple: int = 1

    def __call__(self, *shape):
        *batch, lines, length = (*shape[:-2], *reversed(shape[-2:])) if self.column_major else shape
        lead = -(-length // self.multiple) * self.multiple + self.pitch
        matrix = lines * lead + self.gap
        start = 16 + self.shift
        strides = tuple(4 * stride for stride in (*([matrix] if batch else []), lead, 1))

        def view(whole):
            inside = as_strided(whole[start:], (*batch, lines, length), strides)
            return inside.swapaxes(-1, -2) if self.column_major else inside

        return start + math.prod(batch) * matrix + 16, view


def every(step):
    """A layout of a vector: each `step`-th float of a buffer."""
    return lambda length: (16 + step * length, lambda whole: whole[8 : 8 + step * length : step])


@dataclass(frozen=True)
class Product:
    """C = epilogue(activation(alpha · op(A)·op(B) + beta · C + bias))."""

    m: int
    n: int
    k: int
    #: None for matrices; `shared` names the operand, "a" or "b", that all of a batch shares.
    batch: int | None = None
    shared: str = ""
    trans_a: bool = False
    trans_b: bool = False
    a: Placement = Placement()
    b: Placement = Placement()
    c: Placement = Placement()
    alpha: float = 1.0
    beta: float = 0.0
    #: Its stride; 0 for none.
    bias: int = 0
    activation: str | None = None
    epilogue: Callable | None = None
    #: The epilogue for arrays, where the same function does not do.
    twin: Callable | None = None

    def check(self, version, tile, rng):
        """Exact, into a C full of NaN if nothing is to be read there; operands and surroundings unchanged."""
        try:
            self._check(version, tile, rng)
        except Exception as error:
            error.add_note(f"the product was {self}, by version {version} with tile {tile}")
            raise

    def _check(self, version, tile, rng):
        op_a = self._values(wide_integers, rng, "a", self.m, self.k)
        op_b = self._values(units, rng, "b", self.k, self.n)
        before = self._values(wide_integers, rng, "c", self.m, self.n)
        bias = wide_integers(rng, 1, self.n)[0]
        expected = self.expected(op_a, op_b, before, bias)
        a = Guarded(op_a.swapaxes(-1, -2) if self.trans_a else op_a, self.a)
        b = Guarded(op_b.swapaxes(-1, -2) if self.trans_b else op_b, self.b)
        c = Guarded(before if self.beta else np.full_like(before, POISON), self.c)
        vector = Guarded(bias, every(self.bias)) if self.bias else None
        returned = sgemm(
            *(a.view, b.view, c.view),
            version=version.name,
            tile=tile,
            **self.options(),
            bias=vector and vector.view,
        )
        assert returned is c.view
        assert_same(c.values(), expected)
        a.assert_untouched("A")
        b.assert_untouched("B")
        c.assert_guards_intact("C")
        if vector:
            vector.assert_untouched("bias")

    def options(self):
        names = ("trans_a", "trans_b", "alpha", "beta", "activation", "epilogue")
        return {name: getattr(self, name) for name in names}

    def _values(self, make, rng, name, rows, columns):
        if self.batch is None or self.shared == name:
            return make(rng, rows, columns)
        return np.array([make(rng, rows, columns) for _ in range(self.batch)]).reshape(self.batch, rows, columns)

    def expected(self, a, b, c, bias):
        """What C has to be, computed in float64, where these numbers are exact; so they are in float32."""
        assert all(4 * scalar == int(4 * scalar) for scalar in (self.alpha, self.beta))
        parts = [self.alpha * (a.astype(np.float64) @ b), self.beta * c.astype(np.float64), bias if self.bias else 0]
        bound = abs(self.alpha) * self.k * 2**12 + (abs(self.beta) + bool(self.bias)) * 2**12
        assert bound <= 2**22, f"sums of up to {bound} quarters need not be exact in float32"
        x = sum(parts)
        if self.activation:
            x = {"relu": lambda x: np.maximum(x, 0)}[self.activation](x)
        if self.epilogue:
            rows, columns = np.indices((self.m, self.n))
            takes_position = self.epilogue.__code__.co_argcount == 3
            function = self.twin or self.epilogue
            x = function(x, rows, columns) if takes_position else function(x)
        return x.astype(np.float32)


def column_major(product, names):
    """The same product with some of its matrices stored by columns."""
    return replace(product, **{name: replace(getattr(product, name), column_major=True) for name in names})
