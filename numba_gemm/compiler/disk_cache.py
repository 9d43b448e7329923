"""Compiled kernels on disk: what is launched is compiled once on a computer, and for each state of what decides it.

Numba has such a cache, too. Its key holds the kernel's bytecode and closure, but not the functions that it calls, nor
the settings that it was compiled with; and all kernels made by one function, of all tiles, share an index that is
written without a lock, so that processes that compile side by side get each other's. Here a kernel's machine code is
an entry of a `Store` under a key that says all that it depends on.

`NUMBA_GEMM_KERNEL_CACHE=0` in the environment turns it off, `NUMBA_GEMM_KERNEL_CACHE_BYTES` says how much may be kept.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from numba_gemm.compiler import sources
from numba_gemm.compiler.sources import fingerprint as fingerprint
from numba_gemm.compiler.sources import fingerprint_of as fingerprint_of
from numba_gemm.compiler.store import Store
from numba_gemm.compiler.target import SIMULATOR

if not SIMULATOR:
    from cuda.core import ObjectCode
    from numba.cuda import types
    from numba.cuda.codegen import CUDACodeLibrary
    from numba.cuda.core.caching import NullCache
    from numba.cuda.cudadrv import devices
    from numba.cuda.dispatcher import _Kernel

    from numba_gemm.compiler.compiling import COMPILING, current_compute_capability
    from numba_gemm.compiler.cubin import compile_cubin
    from numba_gemm.compiler.toolchain import settings, toolchain

KERNELS = Store("kernels", switch="NUMBA_GEMM_KERNEL_CACHE", limit="NUMBA_GEMM_KERNEL_CACHE_BYTES")

#: Options of `cuda.jit` for which Numba compiles otherwise, or that a launch heeds, and what they are if not given.
_PLAIN = {"debug": False, "link": (), "extensions": [], "shared_memory_carveout": None, "lto": True}


@dataclass(frozen=True)
class KernelCode:
    """Machine code of a kernel, and the kernel's name in it."""

    name: str
    cubin: bytes = field(repr=False)


def enable_disk_cache(kernel: Any, identity: str) -> None:
    """Let `kernel` take its machine code from disk, where it is known by `identity`, and leave it there.

    `identity` is what makes the kernel another one than those of the same sources: version, tile, variant, with the
    key of the epilogue. Does nothing in the simulator, nor for a kernel with options of Numba that this module does not
    know how to keep: one that is to be debugged, for example.
    """
    if SIMULATOR or any(kernel.targetoptions.get(name) not in (value, None) for name, value in _PLAIN.items()):
        return
    kernel._cache = _Cache(kernel, identity)


def code_of(kernel: Any, arguments: Sequence[Any], capability: tuple[int, int]) -> KernelCode:
    """Machine code for arguments of these types and a compute capability: from disk, or compiled and then kept.

    Needs neither a GPU nor a driver. `kernel` is one that `enable_disk_cache` was called for, with effect.
    """
    return kernel._cache.code(tuple(arguments), capability)


def key_of(kernel: Any, identity: str, arguments: Sequence[Any], capability: tuple[int, int]) -> str:
    """All that machine code depends on, as text."""
    return json.dumps(
        {
            "kernel": identity,
            "function": f"{kernel.py_func.__module__}.{kernel.py_func.__qualname__}",
            "arguments": [str(argument) for argument in arguments],
            "capability": capability,
            "options": {name: repr(value) for name, value in sorted(kernel.targetoptions.items())},
            "settings": settings(),
            "toolchain": toolchain(),
            "sources": sources.fingerprint(),
        },
        indent=0,
    )


if not SIMULATOR:

    class _Cache(NullCache):
        """What Numba asks for a kernel before it compiles one. It is never told that there is none."""

        def __init__(self, kernel: Any, identity: str) -> None:
            self._kernel, self._identity = kernel, identity

        @property
        def cache_path(self) -> str:
            return str(KERNELS.folder)

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            signature = types.void(*getattr(sig, "args", sig))
            library = _Library(self, signature.args)
            library.code(current_compute_capability())  # errors of the compiler are for who asked for it
            overload = _Kernel._rebuild(
                cooperative=False,
                name=self._kernel.py_func.__name__,
                signature=signature,
                codelibrary=library,
                debug=False,
                lineinfo=self._kernel.targetoptions.get("lineinfo", False),
                call_helper=None,
                extensions=[],
            )
            overload.objectmode = False  # which Numba forgets for kernels that it did not compile
            return overload

        def code(self, arguments: tuple[Any, ...], capability: tuple[int, int]) -> KernelCode:
            key = key_of(self._kernel, self._identity, arguments, capability)
            entry = KERNELS.load(key)
            if entry is not None:
                return KernelCode(entry.facts["name"], entry.data)
            compiled = compile_cubin(self._kernel, types.void(*arguments), capability)
            KERNELS.keep(key, {"name": compiled.name}, compiled.code)
            return KernelCode(compiled.name, compiled.code)

    class _Library(CUDACodeLibrary):
        """Machine code of one kernel for each compute capability that it is asked for, loaded once on each device."""

        def __init__(self, cache: _Cache, arguments: tuple[Any, ...]) -> None:
            super().__init__(codegen=None, name=cache._kernel.py_func.__name__)
            self._cache, self._arguments = cache, arguments
            self._code: dict[tuple[int, int], KernelCode] = {}

        def code(self, capability: tuple[int, int]) -> KernelCode:
            with COMPILING:
                if capability not in self._code:
                    self._code[capability] = self._cache.code(self._arguments, capability)
                return self._code[capability]

        def get_cubin(self, cc: Any = None) -> Any:
            major, minor, *_ = self._ensure_cc(cc)
            code = self.code((major, minor))
            return ObjectCode.from_cubin(code.cubin, name=code.name)

        def get_cufunc(self) -> Any:
            context = devices.get_context()
            device = context.device.id
            if device not in self._cufunc_cache:
                with COMPILING:
                    if device not in self._cufunc_cache:
                        code = self.code(tuple(context.device.compute_capability))
                        module = context.create_module_image(ObjectCode.from_cubin(code.cubin, name=code.name))
                        self._cufunc_cache[device] = module.get_function(code.name)
            return self._cufunc_cache[device]
