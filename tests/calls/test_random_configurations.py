"""What a caller may combine, at random but alike in every run: shape, layout, alignment, scalars, epilogue, batch."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from support.cases import GENERAL_TILES
from support.products import Placement, Product

from numba_gemm.compiler.target import SIMULATOR

pytestmark = pytest.mark.device

#: How many in all, in parts that can run side by side; and the largest size.
PARTS, IN_A_PART = (8, 10) if SIMULATOR else (20, 12)
LARGEST = 36 if SIMULATOR else 300
#: Nearly each configuration is a kernel of its own, which takes five seconds to compile for a large tile and one for a
#: small one. What differs between tiles is small beside that, so a large one takes every fifth part.
FEWER = 5


def plus_position(x, row, col):
    return 2 * x - 3 * row + 5 * col


def plus_one(x):
    return x + 1


def size(rng):
    """Often small, or a multiple of 4 or 8; seldom 0."""
    kind = rng.integers(12)
    if kind == 0:
        return int(rng.integers(0, 3))
    if kind < 6:
        return int(rng.integers(1, LARGEST // 8 + 1)) * 8
    return int(rng.integers(1, LARGEST + 1))


def placement(rng):
    """Half of them aligned for 16-byte accesses."""
    aligned = rng.integers(2)
    pitch, shift, gap = (int(rng.integers(0, 3)) * 4 if aligned else int(rng.integers(0, 9)) for _ in range(3))
    return Placement(bool(rng.integers(2)), pitch, shift, gap, multiple=4 if aligned else 1)


def configuration(rng):
    batch = [None, None, 1, 2, 3][rng.integers(5)]
    product = Product(
        *(size(rng), size(rng), size(rng)),
        batch=batch,
        shared=["", "a", "b"][rng.integers(3)] if batch else "",
        trans_a=bool(rng.integers(2)),
        trans_b=bool(rng.integers(2)),
        a=placement(rng),
        b=placement(rng),
        c=placement(rng),
    )
    finish = [
        {},
        {"alpha": 2.0, "beta": -1.0},
        {"alpha": -0.5, "beta": 0.25, "bias": int(rng.integers(1, 4))},
        {"bias": int(rng.integers(1, 4)), "activation": "relu"},
        {"alpha": [0.0, 3.0][rng.integers(2)], "beta": 1.0, "bias": 1, "activation": "relu", "epilogue": plus_position},
        {"epilogue": plus_one},
    ]
    return replace(product, **finish[rng.integers(len(finish))])


def configurations(part):
    rng = np.random.default_rng([0, part])
    return [configuration(rng) for _ in range(IN_A_PART)]


def cases():
    for general in GENERAL_TILES:
        version, tile = general.values
        for part in range(0, PARTS, FEWER if tile == version.default_tile else 1):
            yield pytest.param(version, tile, part, id=f"{part}-{general.id}")


@pytest.mark.parametrize(("version", "tile", "part"), list(cases()))
def test_configurations(version, tile, part, rng):
    for product in configurations(part):
        product.check(version, tile, rng)  # the failing one is in the error's note


def test_the_configurations_have_everything():
    # Each value of each choice; each of the four transposes, in fact; both orders of C with each epilogue.
    found = set()
    for product in (product for part in range(PARTS) for product in configurations(part)):
        placements = {name: getattr(product, name) for name in "abc"}
        flips = [getattr(product, f"trans_{name}") ^ placements[name].column_major for name in "ab"]
        aligned = all(place.multiple == 4 for place in placements.values())
        found |= {
            ("layout", *flips),
            ("flags", product.trans_a, product.trans_b),
            ("order of c", product.c.column_major, product.bias > 0, product.epilogue),
            ("batch", product.batch, product.shared),
            ("aligned", aligned),
            ("beta", product.beta != 0),
            ("empty", 0 in (product.m, product.n)),
            ("no k", product.k == 0),
        }
    expected = {"layout": 4, "flags": 4, "order of c": 8, "batch": 10, "aligned": 2, "beta": 2, "empty": 2, "no k": 2}
    assert Counter(kind for kind, *_ in found) == expected, found
    assert (60 if SIMULATOR else 200) <= PARTS * IN_A_PART
