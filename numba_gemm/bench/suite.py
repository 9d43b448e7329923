"""The shapes that count, as M, N, K: what `bench` measures and `tune` fills the database for; how they are written."""

from __future__ import annotations

Shape = tuple[int, int, int]

#: By what each group is hard on.
SUITE: dict[str, tuple[Shape, ...]] = {
    "squares": tuple((size, size, size) for size in (128, 256, 512, 1024, 2048, 4096, 8192)),
    "ragged": ((1000, 1000, 1000), (1023, 1025, 1021), (4095, 4097, 4093), (300, 200, 20)),
    # Products of Llama-3-8B, from one token at a time to a long prompt.
    "transformer": (
        (1, 4096, 4096),
        (8, 4096, 4096),
        (16, 4096, 14336),
        (64, 4096, 4096),
        (512, 14336, 4096),
        (2048, 14336, 4096),
        (2048, 4096, 14336),
        (2048, 6144, 4096),
    ),
    "long k": ((128, 128, 65536), (256, 256, 32768)),
    "short k": ((4096, 4096, 64), (8192, 8192, 32)),
    "tall": ((65536, 128, 128), (128, 65536, 128)),
}

SHAPES: tuple[Shape, ...] = tuple(shape for group in SUITE.values() for shape in group)


def written(shape: Shape) -> str:
    """A shape as people read it: 1×4096×4096."""
    return "×".join(map(str, shape))


def microseconds(seconds: float) -> str:
    """In three digits or more, without an exponent."""
    return f"{seconds * 1e6:.1f}" if seconds < 1e-3 else f"{seconds * 1e6:.0f}"


def parse_shapes(text: str) -> list[Shape]:
    """Shapes as "4096x4096x4096,1x4096x4096", or the whole suite as "suite"; both may be mixed.

    Raises:
        ValueError: for anything else, or an extent of 0.
    """
    shapes: list[Shape] = []
    for part in text.split(","):
        if part.strip() == "suite":
            shapes += SHAPES
        else:
            shapes.append(_parse_shape(part.strip()))
    return list(dict.fromkeys(shapes))


def _parse_shape(text: str) -> Shape:
    extents = text.lower().replace("×", "x").split("x")
    if len(extents) != 3 or not all(extent.isdecimal() and int(extent) > 0 for extent in extents):
        raise ValueError(f"{text!r} is not a shape; write MxNxK, such as 4096x4096x4096, or suite")
    m, n, k = map(int, extents)
    return m, n, k
