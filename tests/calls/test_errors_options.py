"""Options that `sgemm` refuses, alone or for a version, a tile or a device; nothing is launched or written."""

import numpy as np
import pytest
from support.cases import own_layout
from support.guarded import Guarded
from support.refusal import K, M, N, ones, refused

from numba_gemm import VERSIONS, Tile, ladder, plan, sgemm
from numba_gemm.auto import database
from numba_gemm.driver import cuda_api

pytestmark = [pytest.mark.device, pytest.mark.usefixtures("nothing_runs")]


@pytest.mark.parametrize("version", [0, -1, 99, 10**12, "nonsense", "", "1", "Naive"])
def test_unknown_versions(version):
    known = [version.number or repr(version.name) for version in VERSIONS]
    refused(ValueError, f"unknown version {version!r}", "'auto'", *known, version=version)


@pytest.mark.parametrize("version", [True, False, 1.0, 2.5, None, (1,), b"naive"])
def test_versions_of_the_wrong_type(version):
    refused(TypeError, f"version is {version!r}", type(version).__name__, "an int or a str", version=version)


@pytest.mark.parametrize("activation", ["tanh", "ReLU", "", 1, [], len])
def test_unknown_activations(activation):
    known = ["None", "'relu'", "'gelu'", "'gelu_tanh'", "'silu'"]
    refused(ValueError, f"unknown activation {activation!r}", *known, activation=activation)


@pytest.mark.parametrize("epilogue", [1.0, "relu", [len]])
def test_epilogues_that_cannot_be_called(epilogue):
    refused(TypeError, f"epilogue is {epilogue!r}", type(epilogue).__name__, "f(x, row, col)", epilogue=epilogue)


@pytest.mark.parametrize("name", ["alpha", "beta"])
@pytest.mark.parametrize("value", [1j, np.complex64(1), "1", None, [1.0], np.ones(1), np.ones(())])
def test_scalars(name, value):
    refused(TypeError, f"{name} is {value!r}", type(value).__name__, "real scalar", **{name: value})


@pytest.mark.parametrize("name", ["trans_a", "trans_b", "pad"])
@pytest.mark.parametrize("value", [1, 0, "T", None])
def test_flags(name, value):
    refused(TypeError, f"{name} is {value!r}", type(value).__name__, "True or False", **{name: value})


@pytest.mark.parametrize("beta", [1, -0.5, np.float32(2), float("nan")])
def test_beta_without_c(beta):
    with pytest.raises(ValueError, match=rf"beta is {beta}.*there is no c; pass one or beta=0"):
        sgemm(ones(M, K), ones(K, N), beta=beta)


@pytest.mark.parametrize("stream", [object(), "0", 1.5, True, False, -1, [0]])
def test_streams(stream):
    refused(TypeError, f"stream is {stream!r}", "stream", stream=stream)


@pytest.mark.parametrize("tile", ["128", (128, 128, 8), 128])
def test_tiles_of_the_wrong_type(tile):
    refused(TypeError, f"tile is {tile!r}", type(tile).__name__, "numba_gemm.Tile", tile=tile)


# What a version cannot do ---------------------------------------------------------------------------------

#: An argument for each thing that a version may lack. The matrices are square, so that transposing is possible.
ASKING = {
    "alpha": lambda: {"alpha": 2.0},
    "beta": lambda: {"beta": 0.5},
    "trans_a": lambda: {"trans_a": True},
    "trans_b": lambda: {"trans_b": True},
    "bias": lambda: {"bias": ones(4)},
    "activation": lambda: {"activation": "relu"},
    "epilogue": lambda: {"epilogue": abs},
    "3-D operands": lambda: {"a": ones(2, 4, 4), "c": ones(2, 4, 4)},
}
LACKING = [
    pytest.param(version, capability, argument, id=f"{version.name}-{argument}")
    for version in VERSIONS
    for capability, arguments in ladder.CAPABILITIES.items()
    for argument in arguments
    if capability not in version.capabilities
]


@pytest.mark.parametrize(("version", "capability", "argument"), LACKING)
def test_missing_capabilities(version, capability, argument):
    able = [version for version in VERSIONS if capability in version.capabilities]
    options = {"a": ones(4, 4), "b": ones(4, 4), "c": ones(4, 4), "version": version.name} | ASKING[argument]()
    remedy = [f"version {other}" for other in able] or ["no version has yet"]
    refused(ValueError, f"version {version} ", argument, f"capability {capability!r}", *remedy, **options)


@pytest.mark.parametrize("alpha", [0.0, np.float32(0.5), np.int64(2), float("nan")])
def test_any_other_alpha_is_a_scale(alpha):
    refused(ValueError, "alpha needs the capability 'scale'", alpha=alpha)


def test_all_missing_arguments_of_a_capability_are_named():
    refused(ValueError, "alpha, beta need the capability 'scale'", alpha=2.0, beta=1.0)


@pytest.mark.parametrize(
    ("version", "tile", "constraint"),
    [
        ("naive", Tile(8, 32, 8), "bk = tm = tn = stages = 1"),
        ("shared", Tile(16, 32, 16), "bm = bn = bk"),
        ("register", Tile(16, 16, 4, 4, 4, 2), "stages = 2"),
        ("register", Tile(128, 128, 64, 8, 8), "65536 bytes of static shared memory"),
        ("register", Tile(16, 32, 8, 4, 8), "16 threads do not copy whole rows of bn = 32"),
        ("vectorized", Tile(16, 16, 6, 4, 4), "bk = 6 is not a multiple of 4"),
        ("vectorized", Tile(16, 16, 4, 4, 2), "tn = 2 is not a multiple of 4"),
        ("cp_async", Tile(16, 16, 4, 4, 4), "stages = 1"),
        ("cp_async", Tile(16, 16, 4, 4, 4, 7), "stages = 7; this kernel takes 2 … 6"),
    ],
)
def test_tiles_that_a_version_cannot_use(version, tile, constraint):
    refused(ValueError, tile, constraint, version=version, tile=tile)


TOO_OLD = [
    pytest.param(version, older, id=f"{version.name}-{older[0]}.{older[1]}")
    for version in VERSIONS
    for older in ((version.min_cc[0] - 1, 9), (3, 5))
]


@pytest.mark.parametrize(("version", "older"), TOO_OLD)
def test_devices_below_the_least_compute_capability(version, older, monkeypatch):
    monkeypatch.setattr(cuda_api, "compute_capability", lambda _: older)
    needed, found = (f"{major}.{minor}" for major, minor in (version.min_cc, older))
    refused(RuntimeError, f"version {version} needs compute capability {needed}", found, version=version.name)


def test_devices_below_every_version(monkeypatch):
    monkeypatch.setenv(database.OPT_OUT, "0")  # the tuned tiles are for the device that is here
    monkeypatch.setattr(cuda_api, "compute_capability", lambda _: (3, 5))
    refused(RuntimeError, "needs compute capability 5.0", "3.5", version="auto")


@pytest.mark.parametrize("capability", [(8, 6), (8, 9), (12, 0)])
def test_tiles_beyond_the_devices_shared_memory(capability, monkeypatch):
    monkeypatch.setattr(cuda_api, "compute_capability", lambda _: capability)
    tile = Tile(128, 128, 32, 8, 8, 4)
    cc = f"{capability[0]}.{capability[1]}"
    refused(ValueError, tile, "131072 bytes", f"compute capability {cc}", 99 * 1024, version=5, tile=tile)


# pad=False -------------------------------------------------------------------------------------------------

TILED = [version for version in VERSIONS if version.needs_whole_tiles]


@pytest.mark.parametrize("version", TILED, ids=lambda version: version.name)
@pytest.mark.parametrize("which", ["m", "n", "k"])
def test_ragged_shapes_without_padding(version, which):
    tile = version.default_tile
    size = {"m": tile.bm, "n": tile.bn, "k": tile.bk}
    size[which] += 1
    a = Guarded(np.ones((size["m"], size["k"])), own_layout(version, "a")).view
    b, c = ones(size["k"], size["n"]), ones(size["m"], size["n"])
    shape = b.shape if which == "n" else a.shape
    multiples = f"M, N, K multiples of {tile.bm}, {tile.bn}, {tile.bk}"
    refused(ValueError, version, multiples, tuple(shape), "pad=True", a=a, b=b, c=c, version=version.name, pad=False)


PLAIN = [version for version in VERSIONS if not version.traits.takes_variants]


@pytest.mark.parametrize("version", PLAIN, ids=lambda version: version.name)
@pytest.mark.parametrize("name", ["a", "b", "c"])
@pytest.mark.parametrize("layout", ["pitched", "column-major", "unaligned"])
def test_layouts_without_padding(version, name, layout):
    if layout == "unaligned" and version.traits.alignment == 4:
        layout = "every second row"
    if layout == own_layout(version, name):
        layout = "contiguous"
    tile = version.default_tile
    shapes = {"a": (tile.bm, 2 * tile.bk), "b": (2 * tile.bk, tile.bn), "c": (tile.bm, tile.bn)}
    arrays = {
        key: Guarded.poisoned(*shape, layout if key == name else own_layout(version, key))
        for key, shape in shapes.items()
    }
    expected = ["row-major contiguous", f"{name} has shape {shapes[name]}", "pad=True"]
    views = {key: array.view for key, array in arrays.items()}
    refused(ValueError, *expected, **views, version=version.name, pad=False)
    for key, array in arrays.items():
        array.assert_untouched(key)


# Numbers that no kernel has ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["m", "n", "k", "batch"])
def test_extents_beyond_32_bits_are_refused(name):
    sizes = {"m": 4, "n": 4, "k": 4, "batch": 4} | {name: 2**70}
    with pytest.raises(ValueError, match=rf"{name} is {2**70}; it must be at most {2**32 - 2**16}"):
        plan(**sizes)
