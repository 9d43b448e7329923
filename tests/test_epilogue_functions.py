"""Functions of a user that are compiled into the kernel: never one for another, and never twice."""

import functools
import math
import types
from dataclasses import replace

import numpy as np
import pytest
from cases import GENERAL_TILES
from numba import cuda
from products import Product, column_major
from refusal import refused

from numba_gemm import VERSIONS, Version, sgemm
from numba_gemm.device.epilogue import function_key

pytestmark = pytest.mark.device

GENERAL = pytest.mark.parametrize(("version", "tile"), GENERAL_TILES)
SMALL = pytest.mark.parametrize("version", [v for v in VERSIONS if v.takes_everything], ids=lambda v: v.name)


def made(source, **names):
    """The function `f` of a source text that uses these globals."""
    exec(source, names)
    return names["f"]


def module(**attributes):
    found = types.ModuleType("settings")
    vars(found).update(attributes)
    return found


def times(factor):
    return made(f"def f(x): return x * {factor}.0")


def by_closure(value):
    def f(x):
        return x * value

    return f


def by_module_in_closure(settings):
    def f(x):
        return x * settings.SCALE

    return f


def by_functions(*functions):
    one, two, three = functions
    return lambda x: one(x) * two(x) * three(x) / (6 * x * x)


def for_gpu(source, **names):
    """A function that others may call in a kernel."""
    return cuda.jit(device=True)(made(source, **names))


def gpu_times(factor):
    return cuda.jit(device=True)(times(factor))


def by_two_of_a_kind(factor):
    two, three = gpu_times(2), gpu_times(3)
    # The key sees `one`, `three` and `two`, in this order: the last one is known by then.
    return by_functions(two, {2: two, 3: three}[factor], three)


def by_one_module_in_two_functions(factor):
    settings = module(ONE=1, SCALE=factor)
    helper = for_gpu("def f(x): return x * settings.SCALE", settings=settings)
    return made("def f(x): return settings.ONE * helper(x)", settings=settings, helper=helper)


#: From a factor to a function that multiplies by it; two of them differ in one thing only.
FUNCTIONS = {
    "constant": times,
    "closure": by_closure,
    "default": lambda n: made(f"def f(x, scale={n}.0): return x * scale"),
    "global": lambda n: made("def f(x): return x * SCALE", SCALE=n),
    "global tuple": lambda n: made("def f(x): return x * SCALES[1]", SCALES=(5, n)),
    "global array": lambda n: made("def f(x): return x * SCALES[1]", SCALES=np.array([5, n], np.float32)),
    "helper": lambda n: made("def f(x): return g(x)", g=gpu_times(n)),
    "helper of a helper": lambda n: made("def f(x): return g(x)", g=for_gpu("def f(x): return h(x)", h=gpu_times(n))),
    "global of a helper": lambda n: made("def f(x): return g(x)", g=for_gpu("def f(x): return x * S", S=n)),
    "helper in a closure": lambda n: by_functions(gpu_times(n), gpu_times(2), gpu_times(3)),
    "which helper": by_two_of_a_kind,
    "attribute of a module": lambda n: made("def f(x): return x * settings.S", settings=module(S=n)),
    "attribute of a module in a closure": lambda n: by_module_in_closure(module(SCALE=n)),
    "attribute of a module in a module": lambda n: made("def f(x): return x * a.b.S", a=module(b=module(S=n))),
    "another attribute in a helper": by_one_module_in_two_functions,
    "function of a module": lambda n: made("def f(x): return settings.g(x)", settings=module(g=gpu_times(n))),
    "function for the GPU": gpu_times,
    "arguments": lambda n: made(f"def f(x, row, col): return x + {['row', 'col'][n - 2]}"),
}
EACH = pytest.mark.parametrize("make", FUNCTIONS.values(), ids=FUNCTIONS)


def result(version, epilogue):
    """f at place (2, 3), where the sum of products is 6."""
    a, b = np.ones((3, 1), np.float32), np.full((1, 4), 6, np.float32)
    options = {"version": version.name, "tile": version.small_tile}
    return float(sgemm(cuda.to_device(a), cuda.to_device(b), epilogue=epilogue, **options).copy_to_host()[2, 3])


@EACH
def test_other_code_has_another_key(make):
    assert function_key(make(2)) != function_key(make(3))


@EACH
def test_equal_code_has_an_equal_key(make):
    assert function_key(make(2)) == function_key(make(2))


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
def test_equal_code_is_compiled_once(version, monkeypatch):
    kernels = []
    make_kernel = Version.make_kernel
    monkeypatch.setattr(Version, "make_kernel", lambda *a: kernels.append(make_kernel(*a)) or kernels[-1])
    assert result(version, times(5)) == 30
    before = len(kernels)
    assert result(version, times(5)) == 30
    assert len(kernels) == before
    assert result(version, times(7)) == 42
    assert len(kernels) == before + 1


@pytest.mark.parametrize("depth", [1, 2])
def test_plain_helpers_count(depth):
    # Numba does not compile these; the simulator runs them.
    keys = []
    for factor in (2, 3):
        helper = times(factor)
        for _ in range(depth):
            helper = made("def f(x): return g(x)", g=helper)
        keys.append(function_key(helper))
    assert keys[0] != keys[1]


@pytest.mark.gpu
def test_options_of_a_function_for_the_gpu_count():
    exact, fast = (cuda.jit(device=True, fastmath=fast)(times(2)) for fast in (False, True))
    assert function_key(exact) != function_key(fast)


def test_keyword_defaults_count():
    # Numba compiles no such function; the simulator would.
    keys = {function_key(made(f"def f(x, *, scale={factor}): return x * scale")) for factor in (2, 3)}
    assert len(keys) == 2


def test_keys_of_functions_that_call_themselves():
    source = "def f(x): return x if x < {0} else f(x - {0})"
    keys = [function_key(made(source.format(step))) for step in (1, 2, 1)]
    assert keys[0] == keys[2] != keys[1]


def test_the_name_and_the_place_of_a_function_do_not_count():
    assert function_key(made("\n\n\ndef f(x): return x * 2.0")) == function_key(times(2))


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
def test_the_result_is_rounded_once_at_the_end(version):
    # In float64 1 + 2⁻³⁰ survives; returned, it is the float32 number 1.
    assert result(version, lambda x: (np.float64(x) + 2.0**-30 - 6.0) * 2.0**30) == 1
    assert result(version, lambda x: np.float64(x) + 2.0**-30) == 6


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


UNFIT = [{"a": 1}, {1, 2}, object(), Callable(), Callable, iter(())]


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

    @pytest.mark.parametrize("function", [Callable(), by_method(), functools.partial(by_closure(1))])
    def test_callables_that_are_no_functions(self, version, function):
        refused(TypeError, "the epilogue uses", type(function).__name__, epilogue=function, version=version.name)
