"""Functions of a user: two keys where the code differs, and copies that stay as they are."""

import math

import numpy as np
import pytest
from numba import cuda, float32, types
from support.functions import (
    FUNCTIONS,
    by_closure,
    by_functions,
    by_module_in_closure,
    for_gpu,
    gpu_times,
    made,
    module,
    times,
)

from numba_gemm.analysis.code import machine_code
from numba_gemm.compiler.compiling import pretended_device
from numba_gemm.compiler.user_function import copy_of, function_key, is_long, plain
from numba_gemm.device.epilogue import Epilogue, make_epilogue, snapshot

EACH = pytest.mark.parametrize("make", FUNCTIONS.values(), ids=FUNCTIONS)

# Keys ----------------------------------------------------------------------------------------------------------


@EACH
def test_other_code_has_another_key(make):
    assert function_key(make(2)) != function_key(make(3))


@EACH
def test_equal_code_has_an_equal_key(make):
    assert function_key(make(2)) == function_key(make(2))


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


@pytest.mark.machine_code  # Numba itself, not the simulator
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


def test_arguments_count():
    sources = ["def f(x, row, col): return x", "def f(x):\n  return x\n  row = col = 0", "def f(*x): return x"]
    assert len({function_key(made(source)) for source in [*sources, "def f(x): return x"]}) == 4


# Names ---------------------------------------------------------------------------------------------------------


class Unfit:
    """Of a type that no kernel can hold."""


#: Sources that use `math.log`, and `exp` of an array or a module, but no globals of these names.
ATTRIBUTES = [
    "def f(x): return math.log(x)",
    "def f(x): return math.log(math.exp(x))",
    "def f(x): return -(math.log(x) if x > 1 else math.exp(x))",
    "def f(x):\n  g = lambda y: math.log(y)\n  return g(x) * math.exp(x)",
]


@pytest.mark.parametrize("source", ATTRIBUTES)
def test_names_of_attributes_are_not_globals(source):
    keys = {function_key(made(source, math=math, **names)) for names in ({}, {"log": 1, "exp": 2}, {"log": Unfit()})}
    assert len(keys) == 1
    copy = copy_of(made(source, math=math, log=Unfit(), exp=2))
    assert set(copy.__globals__) - {"__builtins__"} == {"math"}
    assert copy(2.0) == pytest.approx(made(source, math=math)(2.0))


def test_names_of_attributes_are_not_in_the_closure():
    def by_log(log, settings):
        def f(x):
            return settings.log * x if log else x

        return f

    assert function_key(by_log(1, module(log=2))) != function_key(by_log(1, module(log=3)))
    assert function_key(by_log(1, module(log=2))) != function_key(by_log(0, module(log=2)))


def test_what_one_module_is_asked_for_is_not_taken_from_another():
    source = "def f(x): return one.scale * two.offset + x"
    one, two = module(scale=2, offset=Unfit()), module(scale=Unfit(), offset=5)
    function = made(source, one=one, two=two)
    before, copy = function_key(function), copy_of(function)
    one.offset, two.scale = 1, 2
    assert function_key(function) == before
    assert not hasattr(copy.__globals__["one"], "offset")
    two.offset = 6
    assert function_key(function) != before
    assert copy(1) == 11


#: Ways to an attribute of a module that do not name it right after the module.
ROUNDABOUT = [
    "def f(x):\n  m = settings\n  return x * m.S",
    "def f(x): return x * (settings if x > 0 else other).S",
    "def f(x, m=settings): return x * m.S",
    "def f(x): return x * (settings, other)[0].S",
    "def f(x): return x * [m.S for m in (settings,)][0]",
    "def f(x):\n  m = other.settings\n  return x * m.S",
]


@pytest.mark.parametrize("source", ROUNDABOUT)
def test_an_attribute_counts_whichever_way_code_comes_to_it(source):
    settings = module(S=2, T=Unfit())
    function = made(source, settings=settings, other=module(S=3, settings=settings))
    before, copy = function_key(function), copy_of(function)
    settings.S = 7
    assert function_key(function) != before
    assert (function(1), copy(1)) == (7, 2)


def test_a_name_of_more_than_256_is_found():
    names = {f"name{index}": index for index in range(300)}
    source = f"def f(x): return x + {' + '.join(names)} + settings.S"
    function = made(source, settings=module(S=2), S=Unfit(), **names)
    before, copy = function_key(function), copy_of(function)
    function.__globals__["settings"].S = 3
    assert function_key(function) != before
    assert function(0) - copy(0) == 1


def test_a_module_in_itself():
    settings = module(S=2)
    settings.settings = settings
    function = made("def f(x):\n  m = settings\n  return x * m.settings.S", settings=settings)
    before, copy = function_key(function), copy_of(function)
    settings.S = 3
    assert function_key(function) != before
    assert copy(1) == 2


# What is refused -----------------------------------------------------------------------------------------------


def with_empty_cell():
    def f(x):
        return x * scale

    if f is None:
        scale = 2.0
    return f


@pytest.mark.parametrize("use", [function_key, copy_of])
def test_a_closure_without_a_value(use):
    with pytest.raises(TypeError, match="the epilogue uses 'scale' from its closure, which has no value yet"):
        use(with_empty_cell())


def in_itself():
    items = [1, 2]
    items.append(items)
    return items


@pytest.mark.parametrize(
    "value",
    [in_itself(), (in_itself(),), [[in_itself()]], [in_itself(), 1]],
    ids=["list", "in a tuple", "in lists", "first of two"],
)
def test_a_list_in_itself(value):
    for function in (
        made("def f(x): return x * V[0]", V=value),
        made("def f(x): return x * s.V[0]", s=module(V=value)),
    ):
        with pytest.raises(TypeError, match=r"the epilogue uses '(s\.)?V', a list that contains itself"):
            function_key(function)


def test_a_list_in_two_places_is_not_in_itself():
    pair = [1, 2]
    keys = {function_key(made("def f(x): return x * V[0][0]", V=value)) for value in ([pair, pair], [[1, 2], [1, 2]])}
    assert len(keys) == 1


def test_lists_in_lists_without_end():
    value = 1
    for _ in range(100_000):
        value = [value]
    with pytest.raises(TypeError, match=r"the epilogue .* values or functions in each other"):
        function_key(made("def f(x): return x * V[0]", V=value))


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (made("def f(x): return x * V", V=Unfit()), "V"),
        (made("def f(x): return x * s.V", s=module(V=Unfit())), "s.V"),
        (made("def f(x): return x * V[1]", V=(1, Unfit())), "V"),
        (by_closure(Unfit()), "value"),
        (made("def f(x): return g(x)", g=for_gpu("def f(x): return x * V", V=Unfit())), "V"),
    ],
)
def test_what_a_kernel_cannot_hold_is_named(function, name):
    with pytest.raises(TypeError, match=f"the epilogue uses .*, of type Unfit, as '{name}'; a kernel can hold"):
        function_key(function)


# Copies --------------------------------------------------------------------------------------------------------


@EACH
def test_a_copy_has_the_key_of_the_original(make):
    function = make(2)
    assert function_key(copy_of(function)) == function_key(function)


@pytest.mark.parametrize("function", [abs, math.fabs, np.exp])
def test_what_has_no_python_code_is_its_own_copy(function):
    assert copy_of(function) is function


def other_code(function):
    function.__code__ = times(3).__code__


def other_code_of_a_gpu_function(function):
    other_code(plain(function))


def other_default(function):
    function.__defaults__ = (3.0,)


def other_keyword_default(function):
    function.__kwdefaults__["scale"] = 3.0


def other_value_in_closure(function):
    function.__closure__[0].cell_contents = 3


def other_attribute_in_closure(function):
    function.__closure__[0].cell_contents.SCALE = 3


def other_code_in_closure(function):
    plain(function.__closure__[0].cell_contents).__code__ = times(3).__code__


def other_global(function):
    function.__globals__["S"] = 3


def other_element(function):
    function.__globals__["S"][1] = 3


def other_attribute(function):
    function.__globals__["settings"].S = 3


def other_inner_attribute(function):
    function.__globals__["a"].b.S = 3


def other_helper(function):
    function.__globals__["g"] = gpu_times(3)


def other_global_of_a_helper(function):
    other_global(plain(function.__globals__["g"]))


def other_global_of_the_helpers_helper(function):
    other_global_of_a_helper(plain(function.__globals__["g"]))


def other_global_of_the_first_helper(function):
    other_global(plain(function.__globals__["g"][0]))


BY_S = "def f(x): return x * S"
CALLS_G = "def f(x): return g(x)"
#: Functions that multiply by 2, and what can happen to them, after which they multiply by 3.
CHANGES = [
    (lambda: times(2), other_code),
    (lambda: gpu_times(2), other_code_of_a_gpu_function),
    (lambda: made("def f(x, scale=2.0): return x * scale"), other_default),
    (lambda: by_closure(2), other_value_in_closure),
    (lambda: by_module_in_closure(module(SCALE=2)), other_attribute_in_closure),
    (lambda: by_functions(gpu_times(2), gpu_times(2), gpu_times(3)), other_code_in_closure),
    (lambda: made(BY_S, S=2), other_global),
    (lambda: made("def f(x): return x * S[1]", S=np.array([5, 2], np.float32)), other_element),
    (lambda: made("def f(x): return x * settings.S", settings=module(S=2)), other_attribute),
    (lambda: made("def f(x): return x * a.b.S", a=module(b=module(S=2))), other_inner_attribute),
    (lambda: made(CALLS_G, g=gpu_times(2)), other_helper),
    (lambda: made(CALLS_G, g=for_gpu(BY_S, S=2)), other_global_of_a_helper),
    (lambda: made(CALLS_G, g=for_gpu(CALLS_G, g=for_gpu(BY_S, S=2))), other_global_of_the_helpers_helper),
    (lambda: made("def f(x): return g[0](x)", g=(for_gpu(BY_S, S=2), abs)), other_global_of_the_first_helper),
]
#: Numba compiles none of these; the simulator runs them.
CHANGES_OF_PYTHON = [
    (lambda: made("def f(x, *, scale=2.0): return x * scale"), other_keyword_default),
    (lambda: made("def f(x): return x * S[1]", S=[5, 2]), other_element),
    (lambda: made(CALLS_G, g=made(BY_S, S=2)), other_global_of_a_helper),
]


@pytest.mark.parametrize(("make", "change"), CHANGES, ids=[change.__name__ for _, change in CHANGES])
def test_a_change_of_the_original_does_not_reach_the_copy(make, change):
    function = make()
    before, copy = function_key(function), copy_of(function)
    change(function)
    assert function_key(function) != before
    assert function_key(copy) == before


@pytest.mark.simulator
@pytest.mark.parametrize(("make", "change"), CHANGES + CHANGES_OF_PYTHON)
def test_the_copy_computes_what_the_original_did(make, change):
    function = make()
    copy = copy_of(function)
    change(function)
    assert (plain(function)(5.0), plain(copy)(5.0)) == (15, 10)


def test_a_copy_calls_itself_where_the_original_did():
    function = made("def f(x): return x if x < S else f(x - S)", S=2)
    copy = copy_of(function)
    assert copy.__globals__["f"] is copy is not function
    jitted = function.__globals__["f"] = cuda.jit(device=True)(function)
    copy = copy_of(jitted)
    assert plain(plain(copy).__globals__["f"]) is plain(copy) is not function
    assert function_key(copy) == function_key(jitted)


def summed(x):
    total = x
    for i in range(3):
        total += x * i
    return total


def halved(x):
    while x > 1:
        x = x / 2
    return x


@pytest.mark.parametrize(
    ("function", "long"),
    [
        (times(2), False),
        (lambda x: x if x > 0 else 0.01 * x, False),
        (lambda x: max(0.0, min(abs(x), 6.0)), False),
        (abs, False),
        (math.exp, False),
        (gpu_times(2), False),
        (lambda x: x * math.tanh(x), True),
        (made(CALLS_G, g=gpu_times(2)), True),
        (by_functions(abs, abs, abs), True),
        (summed, True),
        (halved, True),
    ],
)
def test_what_is_long(function, long):
    assert is_long(function) == long


def test_one_copy_for_a_key():
    first, second, other = (snapshot(times(factor)) for factor in (11, 11, 12))
    assert first[1] is second[1] is not other[1]
    assert first[0] == second[0] != other[0]


# In machine code -------------------------------------------------------------------------------------------------


def instructions(function):
    """Those of a kernel that applies the function to an element."""
    finish = make_epilogue(Epilogue(False, None, "", function))
    alpha, beta = np.float32(1), np.float32(0)

    @cuda.jit
    def kernel(x):
        x[0, 0] = finish(x[0, 0], x[0, 0], np.uint32(0), np.uint32(0), x, alpha, beta)

    compiled = machine_code.compile_kernel(kernel, types.void(float32[:, ::1]), "sm_90")
    return [line.split("*/", 1)[1].split(";")[0].strip() for line in compiled.sass.splitlines() if ";" in line]


@pytest.mark.machine_code
@pytest.mark.parametrize(
    ("make", "change"),
    [
        (lambda: times(2), other_code),
        (lambda: made(BY_S, S=2), other_global),
        (lambda: made("def f(x): return x * settings.S", settings=module(S=2)), other_attribute),
        (lambda: made(CALLS_G, g=for_gpu(BY_S, S=2)), other_global_of_a_helper),
    ],
)
def test_what_is_compiled_is_what_the_key_says(make, change):
    function = make()
    _, before = snapshot(function)
    change(function)
    by_2 = instructions(make())
    assert instructions(before) == by_2
    _, after = snapshot(function)
    assert instructions(after) != by_2


@pytest.mark.machine_code
def test_numba_knows_the_functions_of_a_copy():
    from numba.cuda import libdevice
    from numba.cuda.extending import register_jitable

    source = "def f(x): return abs(helper(libdevice.fast_expf(x)) + fast_sinf(x) + types.float32(S[1]))"
    helper = register_jitable(made("def f(x): return x * 3"))
    names = {
        "libdevice": libdevice,
        "fast_sinf": libdevice.fast_sinf,
        "types": types,
        "S": np.array([1, 7]),
        "helper": helper,
    }
    _, copy = snapshot(made(source, **names))
    assert {"MUFU.EX2", "MUFU.SIN"} <= {line.split()[0] for line in instructions(copy)}


@pytest.mark.machine_code
def test_signatures_of_a_function_for_the_gpu():
    # A function that takes an int gets an int, in a copy, too.
    with pretended_device((9, 0)):
        of_int, of_float = (cuda.jit([f"float32({name})"], device=True)(times(2)) for name in ("int32", "float32"))
        assert function_key(of_int) != function_key(of_float)
        _, copy = snapshot(of_int)
    assert function_key(copy) == function_key(of_int)
    assert any(line.startswith("F2I") for line in instructions(copy))
