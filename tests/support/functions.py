"""Functions that a user might have compiled into a kernel."""

import types

import numpy as np
from numba import cuda


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
