"""Functions of a user that are compiled into the kernel: never one for another, and never twice."""

import functools
import math
from dataclasses import replace

import numpy as np
import pytest
from numba import cuda
from support.cases import GENERAL_TILES
from support.functions import FUNCTIONS, by_closure, by_module_in_closure, made, module, times
from support.products import Product, column_major
from support.refusal import refused

from numba_gemm import VERSIONS, plan, sgemm
from numba_gemm.driver import loading

pytestmark = pytest.mark.device

GENERAL = pytest.mark.parametrize(("version", "tile"), GENERAL_TILES)
SMALL = pytest.mark.parametrize("version", [v for v in VERSIONS if v.takes_everything], ids=lambda v: v.name)


EACH = pytest.mark.parametrize("make", FUNCTIONS.values(), ids=FUNCTIONS)


def result(version, epilogue):
    """f at place (2, 3), where the sum of products is 6."""
    a, b = np.ones((3, 1), np.float32), np.full((1, 4), 6, np.float32)
    options = {"version": version.name, "tile": version.small_tile}
    return float(sgemm(cuda.to_device(a), cuda.to_device(b), epilogue=epilogue, **options).copy_to_host()[2, 3])


@SMALL
@EACH
def test_the_old_kernel_is_never_served(version, make):
    expected = {2: 8, 3: 9} if make is FUNCTIONS["arguments"] else {2: 12, 3: 18}
    for factor in (2, 3, 2):
        assert result(version, make(factor)) == expected[factor], f"with the factor {factor}"


@SMALL
def test_what_a_function_uses_changes_under_it(version):
    settings = module(SCALE=2)
    by_global, by_attribute = made("def f(x): return x * SCALE", SCALE=2), by_module_in_closure(settings)
    assert [result(version, f) for f in (by_global, by_attribute)] == [12, 12]
    by_global.__globals__["SCALE"] = settings.SCALE = 3
    assert [result(version, f) for f in (by_global, by_attribute)] == [18, 18]
    by_global.__code__ = times(4).__code__
    assert result(version, by_global) == 24


@SMALL
def test_a_kernel_stays_as_it_was_when_its_function_changes(version):
    # The kernel of the first function is that of the second, too.
    first, second = (made("def f(x): return x * SCALE", SCALE=13) for _ in range(2))
    planned = plan(3, 4, 1, epilogue=first, version=version.name, tile=version.small_tile)
    assert result(version, first) == 78
    first.__globals__["SCALE"] = 14
    assert [result(version, f) for f in (first, second)] == [84, 78]
    c = cuda.to_device(np.zeros((3, 4), np.float32))
    planned(cuda.to_device(np.ones((3, 1), np.float32)), cuda.to_device(np.full((1, 4), 6, np.float32)), c)
    assert (c.copy_to_host() == 78).all()


@SMALL
def test_equal_code_is_compiled_once(version):
    assert result(version, times(5)) == 30
    before = len(loading._made)
    assert result(version, times(5)) == 30
    assert len(loading._made) == before
    assert result(version, times(7)) == 42
    assert len(loading._made) == before + 1


# What a function gets ----------------------------------------------------------------------------------------


def mask(x, row, col):
    return x if row >= col else 0.0


def distance(x, row, col):
    return x * (row - col)  # negative above the diagonal


def root(x):
    return math.sqrt(abs(x) * abs(x))


@GENERAL
@pytest.mark.parametrize("by_columns", ["", "c", "abc"], ids=lambda names: f"by columns {names or 'none'}")
@pytest.mark.parametrize("batch", [None, 2])
def test_rows_and_columns_are_the_callers(version, tile, by_columns, batch, rng):
    product = Product(tile.bm + 1, tile.bn - 1, 5, batch=batch, epilogue=distance)
    column_major(product, by_columns).check(version, tile, rng)


@GENERAL
@pytest.mark.parametrize("by_columns", ["", "c"], ids=["by rows", "by columns"])
def test_functions_that_decide_or_call(version, tile, by_columns, rng):
    product = column_major(Product(tile.bm, tile.bn, 5), by_columns)
    replace(product, epilogue=mask, twin=lambda x, row, col: np.where(row >= col, x, 0)).check(version, tile, rng)
    replace(product, epilogue=root, twin=np.abs).check(version, tile, rng)


@SMALL
@pytest.mark.parametrize("function", [abs, math.fabs])
def test_functions_of_python(version, function):
    assert result(version, function) == 6


@SMALL
def test_functions_of_cuda(version):
    for factor in (2, 3):  # two functions: the simulator has to find `cuda` in the globals of each
        function = made(f"def f(x): return cuda.fma(x, {factor}.0, 1.0) + cuda.blockDim.z", cuda=cuda)
        assert result(version, function) == 6 * factor + 2


@SMALL
def test_the_result_is_rounded_once_at_the_end(version):
    # In float64 1 + 2⁻³⁰ survives; returned, it is the float32 number 1.
    assert result(version, lambda x: (np.float64(x) + 2.0**-30 - 6.0) * 2.0**30) == 1
    assert result(version, lambda x: np.float64(x) + 2.0**-30) == 6


# What a function raises --------------------------------------------------------------------------------------


# Texts, since pytest rewrites the assertions of a test's own functions.
CHECKED = {
    "short": made("def f(x):\n  assert x >= 0\n  return x"),
    "long": made("def f(x):\n  assert x >= 0\n  return math.sqrt(x * x)", math=math),
    "by place": made("def f(x, row, col):\n  if row > col and x < 0:\n    raise ValueError('below')\n  return x"),
}


@GENERAL
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", CHECKED)
def test_what_a_function_raises_is_nan(version, tile, order, kind, rng):
    """Half of the sums are negative. The next product, which shares flags and workspaces, is as it should be."""
    m, n, k = tile.bm + 1, tile.bn - 1, 4 * tile.bk + 1
    a, b = (rng.integers(-8, 9, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    sums = a @ b
    rows, columns = np.indices((m, n))
    raised = (sums < 0) & ((rows > columns) if kind == "by place" else True)
    assert 0 < raised.sum() < m * n
    a, b, c = cuda.to_device(a), cuda.to_device(b), cuda.to_device(np.zeros((m, n), np.float32, order))
    for _ in range(2):
        sgemm(a, b, c, version=version.name, tile=tile, epilogue=CHECKED[kind])
        np.testing.assert_array_equal(c.copy_to_host(), np.where(raised, np.float32(np.nan), sums))
        sgemm(a, b, c, version=version.name, tile=tile)
        np.testing.assert_array_equal(c.copy_to_host(), sums)


# What is refused -------------------------------------------------------------------------------------------


@pytest.mark.gpu
@SMALL
@pytest.mark.usefixtures("nothing_runs")
def test_what_numba_cannot_compile(version):
    # In the simulator functions are not compiled, and may do anything.
    helper = made("def f(x): return g(x)", g=times(2))
    remedy = "given to numba.cuda.jit(device=True)"
    options = {"version": version.name, "tile": version.small_tile}
    refused(TypeError, "epilogue f cannot be compiled", "'g'", remedy, epilogue=helper, **options)
    refused(TypeError, "epilogue f cannot be compiled", epilogue=made("def f(x): return x + 'a'"), **options)


class Callable:
    def __call__(self, x):
        return x


def by_method():
    return Callable().__call__


def by_global_list(value):
    return made("def f(x): return x * V[0]", V=value)


def by_nothing():
    def f(x):
        return x * scale

    if f is None:
        scale = 2.0
    return f


@pytest.mark.usefixtures("nothing_runs")
@SMALL
class TestRefusals:
    @pytest.mark.parametrize("source", ["def f():", "def f(x, row):", "def f(x, row, col, z):", "def f(*, x):"])
    def test_other_arguments(self, version, source):
        function = made(source + " return 1.0")
        arguments = source[len("def f") : -1]
        refused(TypeError, f"epilogue f{arguments}", "(x) or (x, row, col)", epilogue=function, version=version.name)

    @pytest.mark.parametrize(
        "value", [{"a": 1}, {1, 2}, object(), Callable(), Callable, iter(())], ids=lambda value: type(value).__name__
    )
    @pytest.mark.parametrize("make", [by_closure, lambda value: made("def f(x): return x * V", V=value)])
    def test_what_a_kernel_cannot_hold(self, version, make, value):
        expected = ["the epilogue uses", repr(value), type(value).__name__, "numbers, strings, tuples, arrays"]
        refused(TypeError, *expected, epilogue=make(value), version=version.name)

    def test_what_has_no_value_or_no_end(self, version):
        endless = [1.0]
        endless.append(endless)
        refused(TypeError, "'V', a list that contains itself", epilogue=by_global_list(endless), version=version.name)
        refused(TypeError, "'scale'", "no value yet", epilogue=by_nothing(), version=version.name)

    @pytest.mark.parametrize("function", [Callable(), by_method(), functools.partial(by_closure(1))])
    def test_callables_that_are_no_functions(self, version, function):
        refused(TypeError, "the epilogue uses", type(function).__name__, epilogue=function, version=version.name)
