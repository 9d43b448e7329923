"""Arrays of PyTorch, CuPy and JAX, and of anything that speaks their protocols."""

import os
import threading
from functools import partial

import numpy as np
import pytest
from numba import cuda
from support.checks import assert_exact, assert_same, units, wide_integers
from support.foreign import DlpackOnly, K, M, N, numbers, on_device, on_host

from numba_gemm import VERSIONS, plan, sgemm

pytestmark = pytest.mark.gpu

VERSION = pytest.mark.parametrize("version", ["auto", "naive", *(v.name for v in VERSIONS if v.takes_everything)])


@pytest.fixture
def jax():
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # else it takes most of the memory
    found = pytest.importorskip("jax")
    if found.default_backend() != "gpu":
        pytest.skip("this JAX has no GPU")
    return found


@VERSION
@pytest.mark.parametrize("of_a", ["numba", "torch", "cupy"])
@pytest.mark.parametrize("of_c", ["numba", "torch", "cupy"])
def test_c_comes_back_as_it_was_passed(version, of_a, of_c, rng):
    a, b = numbers(rng)
    c = on_device(of_c, np.full((M, N), np.nan, np.float32))
    returned = sgemm(on_device(of_a, a), on_device(of_a, b), c, version=version)
    assert returned is c
    assert_exact(on_host(c), a, b)


@VERSION
@pytest.mark.parametrize("kind", ["torch", "cupy"])
def test_a_new_result_is_a_numba_array(version, kind, rng):
    a, b = numbers(rng)
    c = sgemm(on_device(kind, a), on_device(kind, b), version=version)
    assert cuda.is_cuda_array(c)
    assert type(c) is type(cuda.to_device(a))
    assert_exact(on_host(c), a, b)


@VERSION
def test_jax_arrays(version, jax, rng):
    a, b = numbers(rng)
    c = on_device("numba", np.full((M, N), np.nan, np.float32))
    sgemm(jax.numpy.asarray(a), jax.numpy.asarray(b), c, version=version)
    assert_exact(on_host(c), a, b)
    a, b = numbers(rng)
    c = sgemm(jax.numpy.asarray(a), cuda.to_device(b), version=version)
    assert_exact(on_host(c), a, b)


# PyTorch's tensors ---------------------------------------------------------------------------------------------


@pytest.fixture
def tensors(torch, rng):
    """A, B and C of PyTorch. They have been multiplied before, and C is full of NaN."""
    a, b = (torch.as_tensor(values, device="cuda") for values in numbers(rng))
    c = torch.empty((M, N), device="cuda")
    for _ in range(2):  # from then on by the shortest way
        sgemm(a, b, c)
    return a, b, c.fill_(float("nan"))


def refused(error, tensors, *fragments, **others):
    """A tensor of the same shape in the place of one that was accepted before is looked at anew."""
    arrays = dict(zip("abc", tensors, strict=True))
    result = arrays["c"]
    with pytest.raises(error) as caught:
        sgemm(**(arrays | others))
    missing = [fragment for fragment in fragments if fragment not in str(caught.value)]
    assert not missing, f"{missing} not in: {caught.value}"
    assert np.isnan(on_host(result)).all(), "C was written"


@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_tensors_that_require_grad(name, torch, tensors):
    for tensor in (tensors["abc".index(name)].clone().requires_grad_(), torch.nn.Parameter(tensors["abc".index(name)])):
        for context in (torch.enable_grad, torch.no_grad, torch.inference_mode):
            with context():
                refused(ValueError, tensors, f"{name} requires grad", f"{name}.detach()", **{name: tensor})
    a, b, c = tensors
    sgemm(a.clone().requires_grad_().detach(), b, c)
    assert_exact(on_host(c), on_host(a), on_host(b))


@pytest.mark.parametrize("name", ["a", "b", "c"])
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int32", "complex64", "bool"])
def test_other_dtypes(name, dtype, torch, tensors):
    other = tensors["abc".index(name)].nan_to_num().to(getattr(torch, dtype))
    refused(TypeError, tensors, f"{name} has dtype", dtype, "must be float32", **{name: other})


@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_tensors_on_the_cpu(name, tensors):
    refused(
        TypeError, tensors, f"{name} is a torch.Tensor", f"{name}.cuda()", **{name: tensors["abc".index(name)].cpu()}
    )


def test_tensors_that_are_no_plain_arrays(torch, tensors):
    a = tensors[0]
    refused(TypeError, tensors, "a is ", a=a.to_sparse())
    negated = torch.complex(a, a).conj().imag
    assert negated.is_neg()
    refused(TypeError, tensors, "a is ", "negation", a=negated)
    for at, name in enumerate("abc"):
        # The same strides and all else but the flag, which only a kernel of PyTorch's own heeds.
        refused(TypeError, tensors, f"{name} is ", "negation", **{name: torch._neg_view(tensors[at].clone())})


@pytest.mark.parametrize("planned", [False, True], ids=["sgemm", "plan"])
def test_repeated_products_of_tensors_are_not_looked_at(planned, torch, looked_at, rng):
    """With this release of PyTorch, whose private parts that takes."""
    call = plan(M, N, K) if planned else sgemm
    for context in (torch.enable_grad, torch.no_grad, torch.inference_mode, torch.autocast):
        for pitch in (N, N + 3):
            for turn in range(4):
                a, b = numbers(rng)
                with context("cuda") if context is torch.autocast else context():
                    looked_at.clear()
                    device_a = torch.as_tensor(a, device="cuda")
                    device_b = torch.as_tensor(np.pad(b, ((0, 0), (0, pitch - N))), device="cuda")[:, :N]
                    c = torch.full((M, N), float("nan"), device="cuda")
                    call(device_a, device_b, c)
                assert_exact(on_host(c), a, b)
                assert not (turn > 1 and looked_at), f"{context}, pitch {pitch}"


def test_views_that_no_kernel_takes(torch, tensors):
    a = tensors[0]
    refused(ValueError, tensors, "make it contiguous", a=a[:1].expand(M, K))
    refused(ValueError, tensors, "make it contiguous", a=torch.zeros((M, 2 * K), device="cuda")[:, ::2])
    refused(ValueError, tensors, "overlaps a", a=torch.as_strided(tensors[2], (M, K), (K, 1)))
    refused(ValueError, tensors, "overlaps itself", c=torch.zeros(M * N, device="cuda").as_strided((M, N), (1, 1)))


@pytest.mark.parametrize("version", [v.name for v in VERSIONS])
def test_views_of_tensors(version, torch, rng):
    a, b = numbers(rng)
    whole = torch.full((60, 70), float("nan"), device="cuda")
    wide = torch.as_tensor(np.pad(a, ((1, 2), (3, 4))), device="cuda")
    c = whole[5 : 5 + M, 7 : 7 + N]
    sgemm(wide[1:-2, 3:-4], torch.as_tensor(b.T.copy(), device="cuda").T, c, version=version)
    assert_exact(on_host(c), a, b)
    c.fill_(float("nan"))
    assert torch.isnan(whole).all(), "something beside C was written"
    sgemm(wide[1:-2, 3:-4], torch.as_tensor(b, device="cuda"), whole.T[7 : 7 + M, 5 : 5 + N], version=version)
    assert_exact(on_host(whole.T[7 : 7 + M, 5 : 5 + N]), a, b)


@pytest.mark.parametrize("planned", [False, True], ids=["sgemm", "plan"])
def test_one_unaligned_tensor_after_the_other(planned, torch, rng):
    # A kernel that was right for one of them is wrong for the next.
    for version in (version for version in VERSIONS if version.takes_everything):
        call = plan(M, 32, 32, version=version.name) if planned else partial(sgemm, version=version.name)
        for unaligned in ("a", "b", "c", "none", "b", "a"):
            a, b = numbers(rng, M, 32, 32)
            tensors = {}
            for name, values in {"a": a, "b": b, "c": np.full((M, 32), np.nan, np.float32)}.items():
                flat = torch.zeros(values.size + 1, device="cuda")[int(name == unaligned) :][: values.size]
                tensors[name] = flat.copy_(torch.as_tensor(values).flatten()).view(values.shape)
            call(*tensors.values())
            assert_exact(on_host(tensors["c"]), a, b)


def test_batches_of_tensors(torch, rng):
    a = np.array([wide_integers(rng, 6, 5) for _ in range(4)])
    b = np.array([units(rng, 5, 7) for _ in range(4)])
    bias = units(rng, 1, 7)[0]
    for version in (version for version in VERSIONS if version.takes_everything):
        c = torch.zeros((6, 4, 7), device="cuda").transpose(0, 1)
        options = {"bias": torch.as_tensor(bias, device="cuda"), "version": version.name}
        stored = torch.as_tensor(np.ascontiguousarray(a.transpose(2, 0, 1)), device="cuda").permute(1, 2, 0)
        assert stored.stride() == (6, 1, 24)
        assert sgemm(stored, torch.as_tensor(b, device="cuda"), c, **options) is c
        assert_same(on_host(c), a @ b + bias)


@VERSION
def test_a_thread_that_has_no_context_yet(version, torch, rng):
    """Nothing in the repeated call of a plan asks for one."""
    planned = plan(M, N, K, version=version)
    a, b = numbers(rng)
    tensors = [torch.as_tensor(values, device="cuda") for values in (a, b, np.zeros((M, N), np.float32))]
    for _ in range(2):
        planned(*tensors)
    tensors[2].fill_(float("nan"))
    torch.cuda.synchronize()
    raised = []

    def call():
        try:
            planned(*tensors)
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert not raised
    assert_exact(on_host(tensors[2]), a, b)


# DLPack alone ---------------------------------------------------------------------------------------------------


@VERSION
def test_arrays_by_dlpack(version, torch, rng):
    a, b = numbers(rng)
    work = torch.cuda.Stream()
    for stream, expected in ((None, 1), (work, work.cuda_stream)):
        device = [DlpackOnly(torch.as_tensor(values, device="cuda")) for values in (a, b, np.zeros((M, N), np.float32))]
        torch.cuda.synchronize()
        assert sgemm(*device, version=version, stream=stream) is device[2]
        assert_exact(on_host(device[2].array), a, b)
        assert {handle for array in device for handle in array.streams} == {expected}


def test_dlpack_arrays_that_are_refused(torch, rng):
    a, b = (torch.as_tensor(values, device="cuda") for values in numbers(rng))
    for wrong, error in ((a.double(), TypeError), (a.cpu(), TypeError), (a.repeat(1, 2)[:, ::2], ValueError)):
        with pytest.raises(error, match=r"^a "):
            sgemm(DlpackOnly(wrong), b)


# Several GPUs --------------------------------------------------------------------------------------------------


@VERSION
def test_the_operands_decide_the_device(version, torch, rng):
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    for index in (1, 0, 1):
        a, b = numbers(rng)
        device_a, device_b = (torch.as_tensor(values, device=f"cuda:{index}") for values in (a, b))
        c = torch.full((M, N), float("nan"), device=f"cuda:{index}")
        sgemm(device_a, device_b, c, version=version)
        torch.cuda.synchronize(index)
        assert_exact(c.cpu().numpy(), a, b)
        assert cuda.current_context().device.id == torch.cuda.current_device() == 0
        with pytest.raises(ValueError, match=rf"different devices .*a on device {1 - index}"):
            sgemm(device_a.to(f"cuda:{1 - index}"), device_b, c, version=version)


@VERSION
def test_a_plan_stays_on_its_device(version, torch, rng):
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    a, b = numbers(rng)
    for index in (1, 0):
        tensors = [torch.as_tensor(values, device=f"cuda:{index}") for values in (a, b, np.zeros((M, N), np.float32))]
        with cuda.gpus[index]:
            planned = plan(M, N, K, version=version)
        for current in (0, 1, 1, 0, 0):
            tensors[2].fill_(float("nan"))
            torch.cuda.synchronize(index)
            with torch.cuda.device(current):
                planned(*tensors)
            torch.cuda.synchronize(index)
            assert_exact(on_host(tensors[2]), a, b)
        elsewhere = [tensor.to(f"cuda:{1 - index}") for tensor in tensors]
        with pytest.raises(ValueError, match=f"is on device {1 - index}; the plan is for device {index}"):
            planned(*elsewhere)
