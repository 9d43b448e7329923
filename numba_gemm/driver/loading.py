"""Kernels on the device: made and compiled once, loaded once on each device."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from numba_gemm.compiler.disk_cache import enable_disk_cache
from numba_gemm.compiler.target import SIMULATOR
from numba_gemm.device.epilogue import require_compilable
from numba_gemm.driver import arguments
from numba_gemm.driver.cuda_api import checked, current_device
from numba_gemm.kernels.interface import Kernel, Variant
from numba_gemm.tile import STATIC_SHARED_BYTES

if not SIMULATOR:
    from cuda.bindings import driver as cu


@dataclass(frozen=True, slots=True)
class LoadedKernel:
    """Machine code on one device, ready to launch."""

    name: str
    #: The kernel, for all devices, and the function that it is on this one. Launching the kernel would have the driver
    #: look the function up each time.
    handle: int
    function: int
    device: int
    #: The arguments as the machine code takes them: for each, the characters of `struct` for its fields.
    parameters: tuple[str, ...]
    #: Registers a thread, and bytes of local memory (spills) a thread.
    registers: int
    local_bytes: int
    #: Static shared memory of a block, in bytes.
    shared_bytes: int


_made: dict[Kernel, Any] = {}
_loaded: dict[tuple[Kernel, int], LoadedKernel] = {}
#: Reentrant, because to compile may call what loads, and a signal handler may come in between.
_lock = threading.RLock()


def made(kernel: Kernel) -> Any:
    """The kernel as `cuda.jit` makes it, with its place on disk; made once, whoever asks for it first."""
    found = _made.get(kernel)
    if found is not None:
        return found
    with _lock:
        if kernel not in _made:
            for part in kernel.made_for:
                if isinstance(part, Variant) and part.epilogue.function is not None:
                    require_compilable(part.epilogue.function)
            compiled = kernel.make(*kernel.made_for)
            if kernel.cacheable:
                enable_disk_cache(compiled, kernel.identity)
            _made[kernel] = compiled
        return _made[kernel]


def load(kernel: Kernel, dynamic_shared_bytes: int = 0) -> LoadedKernel:
    """Compile (or fetch from disk) and load a kernel on the current device, once.

    `dynamic_shared_bytes` is what launches will ask for; above 48 KB the kernel has to opt in.
    """
    device = current_device()
    key = (kernel, device)
    found = _loaded.get(key)
    if found is not None:
        return found
    with _lock:
        if key not in _loaded:
            _loaded[key] = _load(made(kernel), kernel.signature, device, dynamic_shared_bytes)
        return _loaded[key]


def _load(kernel: Any, signature: Any, device: int, dynamic_shared_bytes: int) -> LoadedKernel:
    overload = kernel.compile(signature.args)
    function = overload._codelibrary.get_cufunc()
    overload.bind()
    if dynamic_shared_bytes > STATIC_SHARED_BYTES:
        attribute = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        checked(
            "cuKernelSetAttribute",
            cu.cuKernelSetAttribute(attribute, dynamic_shared_bytes, function.handle, device),
        )
    return LoadedKernel(
        name=kernel.py_func.__name__,
        handle=int(function.handle),
        function=int(checked("cuKernelGetFunction", cu.cuKernelGetFunction(function.handle))),
        device=device,
        parameters=tuple(arguments.fields(kind) for kind in signature.args),
        registers=function.attrs.regs,
        local_bytes=function.attrs.local,
        shared_bytes=function.attrs.shared,
    )
