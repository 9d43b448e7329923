"""What a function of a user raises is NaN, and its thread goes on to the kernel's end."""

import math

import numpy as np
import pytest
from numba import cuda, float32, types, uint32
from support.functions import for_gpu, made, times

from numba_gemm.analysis.code import machine_code, sass
from numba_gemm.compiler.compiling import pretended_device
from numba_gemm.compiler.no_exceptions import nan_if_raised
from numba_gemm.compiler.target import SIMULATOR, device_function
from numba_gemm.device.epilogue import Epilogue, make_epilogue, make_epilogue4, require_compilable, snapshot
from numba_gemm.kernels.interface import Variant
from numba_gemm.ladder import VERSIONS

CHECK = "def f(x):\n  assert x >= 0\n"
RAISING = {
    "assert": CHECK + "  return x",
    "assert with a message": "def f(x):\n  assert x >= 0, 'negative'\n  return x",
    "raise": "def f(x):\n  if x < 0:\n    raise ValueError('negative')\n  return x",
    "in a loop": "def f(x):\n  for i in range(3):\n    assert x >= i - 2\n  return x",
    "long": CHECK + "  return math.sqrt(x) * math.sqrt(x)",
    "by place": "def f(x, row, col):\n  assert x >= row - col\n  return x",
    "an int": CHECK + "  return 7",
    "in a helper": "def f(x): return helper(x)",
}
EACH = pytest.mark.parametrize("source", RAISING.values(), ids=RAISING)


def function_of(source):
    return snapshot(made(source, math=math, helper=for_gpu(CHECK + "  return x")))


def kernel_of(finish, finish4):
    """Threads that meet again after one of them has raised something, and then leave their mark."""
    alpha, beta = np.float32(1), np.float32(0)

    @cuda.jit
    def one(x):
        row = uint32(cuda.threadIdx.x)
        x[row, 0] = finish(x[row, 0], x[row, 0], row, uint32(0), x, alpha, beta)
        cuda.syncthreads()
        x[row, 4] = float32(1)

    @cuda.jit
    def four(x):
        row = uint32(cuda.threadIdx.x)
        sums = (x[row, 0], x[row, 1], x[row, 2], x[row, 3])
        columns = (uint32(0), uint32(1), uint32(2), uint32(3))
        x[row, 0], x[row, 1], x[row, 2], x[row, 3] = finish4(sums, sums, row, columns, x, alpha, beta)
        cuda.syncthreads()
        x[row, 4] = float32(1)

    return one, four


def kernels(source, transposed=False):
    key, function = function_of(source)
    epilogue = Epilogue(key=key, function=function, transposed=transposed)
    return kernel_of(make_epilogue(epilogue), make_epilogue4(epilogue))


@EACH
@pytest.mark.device
@pytest.mark.parametrize("kernel", [0, 1], ids=["one", "four"])
def test_an_exception_is_nan_and_the_thread_goes_on(source, kernel):
    x = np.full((2, 5), 9, np.float32)
    x[1, 0] = -9
    at_device = cuda.to_device(x)
    kernels(source)[kernel][1, 2](at_device)
    found = at_device.copy_to_host()
    value = 7 if "return 7" in source else 9
    assert (found[0, 0], found[0, 4]) == (value, 1)
    assert np.isnan(found[1, 0])
    assert found[1, 4] == 1
    if kernel:
        assert (found[:, 1:4] == value).all(), "the other three of the thread"


def exits(kernel):
    code = machine_code.compile_kernel(kernel, types.void(float32[:, ::1]), "sm_90")
    instructions = sass.parse(code.sass)
    return sass.count(instructions, "EXIT"), sass.count(instructions, "CALL")


@EACH
@pytest.mark.machine_code
@pytest.mark.parametrize("transposed", [False, True], ids=["by rows", "by columns"])
def test_a_thread_ends_where_the_kernel_does(source, transposed):
    is_long = "math" in source or "helper" in source or "range" in source
    for kernel, calls in zip(kernels(source, transposed), (0, is_long), strict=True):
        count, called = exits(kernel)
        assert count == 1
        assert called >= calls


@pytest.mark.machine_code
@pytest.mark.parametrize("version", [v for v in VERSIONS if v.takes_everything], ids=lambda v: v.name)
def test_every_kernel_ends_where_it_does_without_a_check(version):
    ends = []
    for source in (CHECK + "  return x * 2", "def f(x): return x * 2"):
        key, function = function_of(source)
        variant = Variant(epilogue=Epilogue(key=key, function=function), whole=not version.traits.few_rows)
        kernel = version.make_kernel(version.small_tile, variant)
        code = machine_code.compile_kernel(kernel, version.signature, "sm_90")
        ends.append(sass.count(sass.parse(code.sass), "EXIT"))
    assert ends[0] == ends[1]


@pytest.mark.machine_code
@pytest.mark.parametrize(
    "source", ["def f(x): return x * 2", "def f(x): return max(x, 0.0)", "def f(x, row, col): return x + (row > col)"]
)
def test_of_a_function_that_raises_nothing_nothing_is_left(monkeypatch, source):
    """Its instructions are those that it has without a look at how it ended."""

    def instructions():
        codes = (machine_code.compile_kernel(k, types.void(float32[:, ::1]), "sm_90") for k in kernels(source))
        return [[(i.opcode, i.operands) for i in sass.parse(code.sass)] for code in codes]

    guarded = instructions()
    monkeypatch.setattr("numba_gemm.device.epilogue.nan_if_raised", lambda function: function)
    assert instructions() == guarded


@pytest.mark.simulator
def test_what_the_compiler_would_refuse_is_an_error_in_the_simulator():
    assert SIMULATOR
    for source, error in (("def f(x): return y", NameError), ("def f(x): return x.y", AttributeError)):
        function = device_function(made(source.replace("(x)", "(x, row, column)")))
        with pytest.raises(error):
            nan_if_raised(function)(np.float32(1), 0, 0)


@pytest.mark.machine_code
@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("return g(x)", "'g'"),
        ("return x + 'a'", "add"),
        ("return None", "none to float32"),
        ("return 1j", "complex128"),
    ],
)
def test_what_cannot_be_compiled_is_said_as_if_nothing_were_around_it(source, reason):
    _, function = snapshot(made(f"def f(x): {source}", g=times(2)))
    with pretended_device((9, 0)), pytest.raises(TypeError, match="epilogue f cannot be compiled") as error:
        require_compilable(function)
    assert reason in str(error.value)
    assert "no_exceptions.py" not in str(error.value)
