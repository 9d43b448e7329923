"""The shortest way of `sgemm` and `plan` to a launch, for PyTorch's tensors: what may take it, and what may not.

In the simulator, with stand-ins for tensors, since there are none in host memory that a kernel may have.
"""

import sys
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from support.checks import assert_same, small_integers

from numba_gemm import VERSIONS, gemv, plan, sgemm
from numba_gemm.calls import gemv as gemv_module
from numba_gemm.calls import sgemm as sgemm_module
from numba_gemm.driver import cuda_api, launch, workspace
from numba_gemm.driver.product import ThreadProducts, clearance
from numba_gemm.driver.workspace import Workspaces
from numba_gemm.kernels.skinny import SMALL_TILE

pytestmark = pytest.mark.simulator

GENERAL = [version for version in VERSIONS if version.takes_everything]
M, N, K = 8, 12, 4


def small_tile(name):
    return next(version.small_tile for version in GENERAL if version.name == name)


class Tensor:
    """A matrix in the simulator's device memory, and what is asked of a tensor."""

    def __init__(self, array, **different):
        self.array = array
        self.dtype, self.layout = torch.float32, torch.strided
        self.is_cuda, self.requires_grad = True, False
        self.negated, self.index, self.address = False, 0, array.ctypes.data
        vars(self).update(different)

    @property
    def shape(self):
        return self.array.shape

    def stride(self):
        return tuple(stride // 4 for stride in self.array.strides)

    def get_device(self):
        return self.index

    def is_neg(self):
        return self.negated

    def data_ptr(self):
        return self.address


class Interface:
    """An array that is no tensor, and has no shape of its own."""

    def __init__(self, array):
        self.array = array

    @property
    def __cuda_array_interface__(self):
        address = (self.array.ctypes.data, False)
        return {"shape": self.array.shape, "typestr": "<f4", "data": address, "strides": None, "version": 3}


class TensorGuards:
    """Whether tensors have in common with some others what PyTorch's own class compares."""

    def __init__(self, *tensors, dynamic_dims_sizes, dynamic_dims_strides):
        assert dynamic_dims_sizes is dynamic_dims_strides is None
        self.expected = [self.kind(tensor) for tensor in tensors]

    @staticmethod
    def kind(tensor):
        facts = ("shape", "dtype", "is_cuda", "layout", "negated", "index", "requires_grad")
        return current.mode, type(tensor), tensor.stride(), [getattr(tensor, fact) for fact in facts]

    def check(self, *tensors):
        return all(type(tensor) is Tensor for tensor in tensors) and [*map(self.kind, tensors)] == self.expected


#: PyTorch's current stream, device and mode; with two devices, which one that is has to be asked.
current = SimpleNamespace(stream=0, device=0, mode="eager")
torch = SimpleNamespace(
    float32="float32",
    strided="strided",
    Tensor=Tensor,
    cuda=SimpleNamespace(device_count=lambda: 2),
    _C=SimpleNamespace(
        _cuda_getCurrentRawStream=lambda _: current.stream,
        _cuda_getDevice=lambda: current.device,
        _dynamo=SimpleNamespace(guards=SimpleNamespace(TensorGuards=TensorGuards)),
    ),
)


@pytest.fixture(autouse=True)
def pytorch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(sgemm_module, "_products", ThreadProducts())


def aligned(array, shift=0):
    """The same numbers at a multiple of 16 bytes, or so many floats after one."""
    memory = np.empty(array.size + 8, np.float32)
    start = -memory.ctypes.data % 16 // 4 + shift
    found = memory[start : start + array.size].reshape(array.shape)
    found[...] = array
    return found


def operands(rng):
    return [aligned(small_integers(rng, *shape)) for shape in ((M, K), (K, N), (M, N))]


@pytest.fixture(params=["sgemm", "plan"])
def call(request):
    """`sgemm` or a plan, which has multiplied tensors often enough."""
    options = {"version": "boundary", "tile": small_tile("boundary")}
    found = partial(sgemm, **options) if request.param == "sgemm" else plan(M, N, K, **options)
    warm_up(found)
    return found


def warm_up(call, **options):
    call(*map(Tensor, operands(np.random.default_rng(1))), **options)


def test_shapes_in_turn(looked_at, rng):
    shapes = ((4, 4, 4), (4, 4, 8), (4, 8, 4))
    for turn in range(3):
        for m, n, k in shapes:
            a, b, c = (aligned(small_integers(rng, *shape)) for shape in ((m, k), (k, n), (m, n)))
            looked_at.clear()
            sgemm(Tensor(a), Tensor(b), Tensor(c), version="boundary", tile=small_tile("boundary"))
            assert_same(c, a @ b)
            assert bool(looked_at) == (turn < 1)


@pytest.mark.parametrize(
    ("planned", "version"),
    [(False, "auto"), *((planned, version.name) for planned in (False, True) for version in GENERAL)],
)
def test_the_second_call_looks_at_nothing_closely(planned, version, looked_at, rng):
    options = {"version": version} | ({} if version == "auto" else {"tile": small_tile(version)})
    call = plan(M, N, K, **options) if planned else partial(sgemm, **options)
    warm_up(call)
    looked_at.clear()
    for _ in range(2):
        a, b, c = map(Tensor, operands(rng))
        assert call(a, b, c) is c
        assert_same(c.array, a.array @ b.array)
    assert not looked_at


class OlderGuards(TensorGuards):
    def __init__(self, *tensors, dynamic_shapes):
        super().__init__(*tensors, dynamic_dims_sizes=dynamic_shapes, dynamic_dims_strides=dynamic_shapes)


@pytest.mark.parametrize("guards", [{}, {"TensorGuards": OlderGuards}], ids=["is not there", "takes other arguments"])
def test_a_pytorch_whose_guard(guards, looked_at, monkeypatch, rng):
    """It takes the long way each time, and is right."""
    monkeypatch.setattr(torch._C._dynamo, "guards", SimpleNamespace(**guards))
    call = partial(sgemm, version="boundary", tile=small_tile("boundary"))
    warm_up(call)
    looked_at.clear()
    a, b, c = operands(rng)
    call(Tensor(a), Tensor(b), Tensor(c))
    assert_same(c, a @ b)
    assert looked_at


def test_a_call_with_other_scalars_is_another_call(call, looked_at, rng):
    looked_at.clear()
    for alpha, beta, close in (
        *((1.0, 0.0, False), (2.0, 0.0, True), (2.0, 0.0, False), (1.0, 0.0, True), (1.0, 0.0, False)),
        *((1.0, 1.0, True), (1.0, 1.0, False), (0.0, 1.0, True), (0.0, 3.0, True), (0.0, 3.0, False)),
    ):
        a, b, c = operands(rng)
        expected = alpha * (a @ b) + beta * c
        call(Tensor(a), Tensor(b), Tensor(c), alpha=alpha, beta=beta)
        assert_same(c, expected)
        assert bool(looked_at) == close, f"alpha {alpha}, beta {beta}"
        looked_at.clear()


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize(
    ("different", "error"),
    [
        ({"dtype": "torch.float64"}, TypeError),
        ({"requires_grad": True}, ValueError),
        ({"negated": True}, TypeError),
        ({"index": 1}, ValueError),
        ({"is_cuda": False, "index": -1, "device": "cpu"}, TypeError),
        ({"address": 4098}, ValueError),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_other_tensors_are_refused(call, which, different, error, rng):
    tensors = [Tensor(array, **(different if at == which else {})) for at, array in enumerate(operands(rng))]
    before = tensors[2].array.copy()
    with pytest.raises(error):
        call(*tensors)
    assert_same(tensors[2].array, before)


@pytest.mark.parametrize("which", [0, 1])
def test_overlaps_are_refused(call, which, rng):
    tensors = [*map(Tensor, operands(rng))]
    tensors[which].address = tensors[2].address + 16
    with pytest.raises(ValueError, match="overlaps"):
        call(*tensors)


@pytest.mark.parametrize("first_c", [-8, 0, 4])
def test_apart_is_without_a_common_byte(first_c):
    """For spans that start before, at and behind their address, at every distance."""
    span, span_c = (-4, 12), (first_c, first_c + 20)
    below, above = clearance(span, span_c)
    for distance in range(-48, 49):
        bytes_c = set(range(100 + span_c[0], 100 + span_c[1]))
        common = bytes_c & set(range(100 + distance + span[0], 100 + distance + span[1]))
        assert (below < distance < above) == bool(common), distance


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("behind", [False, True])
def test_neighbours_take_the_short_way(call, which, behind, looked_at, rng):
    arrays = operands(rng)
    operand, c = arrays[which], arrays[2]
    memory = aligned(np.zeros(operand.size + c.size, np.float32))
    first, second = (c, operand) if behind else (operand, c)
    places = memory[: first.size].reshape(first.shape), memory[first.size :].reshape(second.shape)
    arrays[2], arrays[which] = places if behind else reversed(places)
    arrays[which][...] = operand
    expected = arrays[0] @ arrays[1]
    looked_at.clear()
    call(*map(Tensor, arrays))
    assert_same(arrays[2], expected)
    assert not looked_at


def by_columns(array):
    return aligned(array.T).T


def pitched(array):
    wide = aligned(np.pad(array, ((0, 0), (0, 3))))
    return wide[:, : array.shape[1]]


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("place", [by_columns, pitched, partial(aligned, shift=1)], ids=["columns", "pitch", "shift"])
def test_other_layouts_are_looked_at(which, place, looked_at, rng):
    call = partial(sgemm, version="boundary", tile=small_tile("boundary"))
    warm_up(call)
    for _ in range(2):
        looked_at.clear()
        arrays = operands(rng)
        arrays[which] = place(arrays[which])
        a, b, c = arrays
        call(*map(Tensor, arrays))
        assert_same(c, a @ b)
        assert looked_at
        warm_up(call)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_what_is_not_contiguous_takes_the_short_way_too(which, looked_at, rng):
    planned = plan(M, N, K, version="boundary", tile=small_tile("boundary"))
    for turn, place in enumerate((pitched, pitched, pitched, aligned)):
        arrays = operands(rng)
        arrays[which] = place(arrays[which])
        looked_at.clear()
        planned(*map(Tensor, arrays))
        assert_same(arrays[2], arrays[0] @ arrays[1])
        assert bool(looked_at) == (turn == 0 or place is aligned)


def test_other_streams_are_looked_at(call, looked_at, monkeypatch, rng):
    looked_at.clear()
    call(*map(Tensor, operands(rng)), stream=5)  # while PyTorch works on another one
    assert looked_at
    monkeypatch.setattr(current, "stream", 5)
    looked_at.clear()
    call(*map(Tensor, operands(rng)))
    assert looked_at
    looked_at.clear()
    call(*map(Tensor, operands(rng)), stream=5)
    assert not looked_at


@pytest.mark.parametrize("name", [version.name for version in GENERAL if version.has_workspace])
def test_a_workspace_for_each_stream_and_none_that_lasts_for_a_graph(name, looked_at, monkeypatch, rng):
    monkeypatch.setattr(cuda_api, "multiprocessors", lambda _device: 4)
    taken, of_graphs, long = [], [], 64
    get, in_stream_order = Workspaces.get, workspace.in_stream_order
    monkeypatch.setattr(Workspaces, "get", lambda *given: taken.append(get(*given)) or taken[-1])
    monkeypatch.setattr(workspace, "in_stream_order", lambda *given: of_graphs.append(1) or in_stream_order(*given))
    call, seen = plan(M, N, long, version=name, tile=small_tile(name)), {}
    for stream, captured in ((0, False), (4096, False), (8192, False), (4096, True), (0, True), (4096, False)):
        monkeypatch.setattr(current, "stream", stream)
        monkeypatch.setattr(cuda_api, "is_capturing", lambda _, captured=captured: captured)
        for _ in range(3):
            looked_at.clear(), taken.clear(), of_graphs.clear()
            a, b, c = (aligned(small_integers(rng, *shape)) for shape in ((M, long), (long, N), (M, N)))
            call(*map(Tensor, (a, b, c)), stream=stream)
            assert_same(c, a @ b)
        assert not looked_at
        lasting = {place.plain for place in taken if place is not None}
        if captured and stream:  # the default stream is never captured
            assert lasting == set()
            assert of_graphs
        else:
            assert len(lasting) == 1
            assert not of_graphs
        seen.setdefault(stream, set()).update(lasting)
    assert not any(seen[one] & seen[other] for one, other in ((0, 4096), (0, 8192), (4096, 8192)))
    assert all(len(places) <= 1 for places in seen.values())


def test_the_first_product_in_another_mode_is_looked_at(call, looked_at, monkeypatch, rng):
    """As in inference: PyTorch's guard then takes no tensor for one of those it was made for."""
    for mode in ("inference", "eager"):
        monkeypatch.setattr(current, "mode", mode)
        for turn in range(3):
            looked_at.clear()
            a, b, c = operands(rng)
            call(Tensor(a), Tensor(b), Tensor(c))
            assert_same(c, a @ b)
            assert bool(looked_at) == (turn == 0)


def test_another_current_device_is_looked_at(call, looked_at, monkeypatch, rng):
    monkeypatch.setattr(current, "device", 1)
    looked_at.clear()
    call(*map(Tensor, operands(rng)))
    assert looked_at


@pytest.mark.parametrize(
    "options",
    [
        {"trans_a": True},
        {"trans_b": True},
        {"activation": "relu"},
        {"epilogue": abs},
        {"version": "warp_tiled", "tile": small_tile("warp_tiled")},
        {"version": "boundary", "tile": small_tile("boundary"), "bias": Tensor(aligned(np.ones((1, 4)))[0])},
    ],
    ids=lambda options: ", ".join(options),
)
def test_other_options_are_another_call(options, looked_at, rng):
    plain, square = {"version": "boundary", "tile": small_tile("boundary")}, (4, 4)
    for _ in range(2):
        sgemm(*(Tensor(aligned(small_integers(rng, *square))) for _ in range(3)), **plain)
    looked_at.clear()
    a, b, c = (aligned(small_integers(rng, *square)) for _ in range(3))
    sgemm(Tensor(a), Tensor(b), Tensor(c), **(plain | options))
    assert looked_at
    x = (a.T if "trans_a" in options else a) @ (b.T if "trans_b" in options else b)
    x = np.maximum(x, 0) if "activation" in options else np.abs(x) if "epilogue" in options else x
    assert_same(c, x + 1 if "bias" in options else x)
    # And the plain call still is what it was.
    sgemm(Tensor(a), Tensor(b), Tensor(c), **plain)
    assert_same(c, a @ b)


def test_arrays_without_a_shape_between_tensors(call, looked_at, rng):
    """They have nothing but a protocol, in the layout of tensors that were multiplied before."""
    for kind in (Interface, Tensor, Interface):
        arrays = operands(rng)
        looked_at.clear()
        call(*map(kind, arrays))
        assert_same(arrays[2], arrays[0] @ arrays[1])
        assert bool(looked_at) == (kind is Interface)


def test_wrong_options_are_refused_as_before(call, rng):
    tensors = [*map(Tensor, operands(rng))]
    for options in ({"alpha": 1 + 0j}, {"beta": "0"}, {"stream": "1"}):
        with pytest.raises(TypeError):
            call(*tensors, **options)
    if call.__class__ is partial:
        for options in ({"trans_a": 0}, {"version": 6.0}, {"tile": 16}, {"pad": 1}):
            with pytest.raises(TypeError):
                call(*tensors, **options)


def test_a_call_after_one_that_failed(call, rng, monkeypatch):
    # Its scalars were on their way to the kernel when the launch failed.
    def fail(_):
        raise RuntimeError("no launch")

    arrays = operands(rng)
    with monkeypatch.context() as broken:
        broken.setattr("numba_gemm.driver.launch.SimulatedLaunch.__call__", fail)
        with pytest.raises(RuntimeError, match="no launch"):
            call(*map(Tensor, arrays), alpha=3.0)
    for alpha in (1.0, 3.0):
        a, b, c = operands(rng)
        call(Tensor(a), Tensor(b), Tensor(c), alpha=alpha)
        assert_same(c, alpha * (a @ b))


# What has the short way besides -------------------------------------------------------------------------------


ALL = pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)


@ALL
@pytest.mark.parametrize("ragged", [0, 1])
def test_every_version_is_short_from_the_second_call_on(version, ragged, looked_at, rng):
    tile = version.small_tile
    m, n, k = tile.bm - ragged, tile.bn - ragged, max(1, tile.bk - ragged)
    planned = plan(m, n, k, version=version.name, tile=tile)
    for call in (partial(sgemm, version=version.name, tile=tile), planned):
        for turn in range(2):
            looked_at.clear()
            a, b, c = (aligned(small_integers(rng, *shape)) for shape in ((m, k), (k, n), (m, n)))
            call(Tensor(a), Tensor(b), Tensor(c))
            assert_same(c, a @ b)
            assert bool(looked_at) == (turn == 0)


@ALL
def test_a_warm_product_still_refuses_scalars_that_the_version_cannot(version):
    if "scale" in version.capabilities:
        return
    options = {"version": version.name, "tile": version.small_tile}
    tensors = [Tensor(array) for array in operands(np.random.default_rng(1))]
    for _ in range(2):
        sgemm(*tensors, **options)
    planned = plan(M, N, K, **options)
    for scalars in ({"alpha": 2.0}, {"beta": 1.0}):
        before = tensors[2].array.copy()
        with pytest.raises(ValueError, match="needs the capability 'scale'"):
            sgemm(*tensors, **options, **scalars)
        assert_same(tensors[2].array, before)
    assert planned is not None


def test_new_arrays_are_made_the_short_way(looked_at, rng):
    options = {"version": "boundary", "tile": small_tile("boundary")}
    made = []
    for turn in range(3):
        looked_at.clear()
        a, b, _ = operands(rng)
        made.append((sgemm(Tensor(a), Tensor(b), **options), a @ b))
        assert bool(looked_at) == (turn == 0)
    for c, expected in made:
        assert_same(c.copy_to_host(), expected)
    assert len({c._ary.ctypes.data for c, _ in made}) == 3


def test_a_new_array_has_the_dimensions_that_the_operands_ask_for(rng):
    options = {"version": "boundary", "tile": small_tile("boundary")}
    a, b, _ = operands(rng)
    for _ in range(3):
        assert sgemm(Tensor(a), Tensor(b), **options).shape == (M, N)
        assert sgemm(Tensor(a[np.newaxis]), Tensor(b), **options).shape == (1, M, N)


def test_beta_without_c_is_refused_however_warm(rng):
    options = {"version": "boundary", "tile": small_tile("boundary")}
    tensors = [Tensor(array) for array in operands(rng)]
    for _ in range(3):
        sgemm(*tensors[:2], **options)
        sgemm(*tensors, beta=1.0, **options)
    with pytest.raises(ValueError, match="there is no c"):
        sgemm(*tensors[:2], beta=1.0, **options)


@pytest.mark.parametrize("planned", [False, True])
@pytest.mark.parametrize("version", ["boundary", "split_k", "skinny"])
def test_a_bias_has_the_short_way(planned, version, looked_at, rng):
    options = {"version": version, "tile": small_tile(version)}
    call = plan(M, N, K, bias=True, **options) if planned else partial(sgemm, **options)
    for turn in range(3):
        looked_at.clear()
        (a, b, c), bias = operands(rng), aligned(small_integers(rng, 1, N))[0]
        alpha = turn + 1.0
        call(Tensor(a), Tensor(b), Tensor(c), bias=Tensor(bias), alpha=alpha if planned else 1.0)
        assert_same(c, (alpha if planned else 1.0) * (a @ b) + bias)
        assert bool(looked_at) == (turn == 0 or planned), "another alpha is looked at"


@pytest.mark.parametrize("planned", [False, True])
def test_a_warm_bias_is_still_refused(planned, rng):
    options = {"version": "boundary", "tile": small_tile("boundary")}
    call = plan(M, N, K, bias=True, **options) if planned else partial(sgemm, **options)
    a, b, c = (Tensor(array) for array in operands(rng))
    bias = aligned(small_integers(rng, 1, N))[0]
    for _ in range(3):
        call(a, b, c, bias=Tensor(bias))
    before = c.array.copy()
    with pytest.raises(ValueError, match="overlaps bias"):
        call(a, b, c, bias=Tensor(c.array[1]))
    with pytest.raises(ValueError, match="bias requires grad"):
        call(a, b, c, bias=Tensor(bias, requires_grad=True))
    with pytest.raises(ValueError, match="bias has shape"):
        call(a, b, c, bias=Tensor(bias[:-1]))
    assert_same(c.array, before)


def test_gemv_has_the_short_way(looked_at, rng, monkeypatch):
    monkeypatch.setattr(gemv_module, "GEMV_TILE", SMALL_TILE)
    monkeypatch.setattr(gemv_module, "_products", ThreadProducts())
    for turn in range(3):
        a, x, y = aligned(small_integers(rng, M, K)), *(aligned(small_integers(rng, 1, size))[0] for size in (K, M))
        looked_at.clear()
        gemv(Tensor(a), Tensor(x), Tensor(y))
        assert_same(y, a @ x)
        assert_same(gemv(Tensor(a), Tensor(x)).copy_to_host(), a @ x)
        assert bool(looked_at) == (turn == 0)
    with pytest.raises(ValueError, match="overlaps x"):
        gemv(Tensor(a[:K]), Tensor(x), Tensor(x))


def test_an_interrupt_between_scalars_leaves_nothing_wrong(rng, monkeypatch):
    """Ctrl-C while alpha is being written: the next call writes it again."""
    p = plan(M, N, K, version="boundary", tile=small_tile("boundary"))
    a, b, c = (Tensor(array) for array in operands(rng))
    p(a, b, c)
    set_scalar = launch.SimulatedLaunch.set_scalar

    def interrupted(self, name, value):
        set_scalar(self, name, value)
        raise KeyboardInterrupt

    monkeypatch.setattr(launch.SimulatedLaunch, "set_scalar", interrupted)
    with pytest.raises(KeyboardInterrupt):
        p(a, b, c, alpha=3.0)
    monkeypatch.setattr(launch.SimulatedLaunch, "set_scalar", set_scalar)
    p(a, b, c)
    assert_same(c.array, a.array @ b.array)
