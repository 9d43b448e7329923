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
from numba_gemm.kernels import reduce
from numba_gemm.kernels.variant import Variant
from numba_gemm.ladder import Version
from numba_gemm.tile import STATIC_SHARED_BYTES, Tile

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


_loaded: dict[tuple[int, int], LoadedKernel] = {}
_load_lock = threading.Lock()


def load(kernel: Any, signature: Any, dynamic_shared_bytes: int = 0) -> LoadedKernel:
    """Compile (or fetch from disk) and load a kernel on the current device, once.

    `dynamic_shared_bytes` is what launches will ask for; above 48 KB the kernel has to opt in.
    """
    device = current_device()
    key = (id(kernel), device)  # kernels are cached for the life of the process, so ids are unique
    found = _loaded.get(key)
    if found is not None:
        return found
    with _load_lock:
        if key not in _loaded:
            _loaded[key] = _load(kernel, signature, device, dynamic_shared_bytes)
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


_kernels: dict[tuple[str, Tile, Variant | None], Any] = {}
_reduce_kernels: dict[tuple[Tile, Variant], Any] = {}
_make_lock = threading.Lock()


def gemm_kernel(version: Version, tile: Tile, variant: Variant | None = None) -> Any:
    """The kernel of a version, tile and (for rungs with edges) variant, with its place on disk; made once."""
    key = (version.name, tile, variant)
    found = _kernels.get(key)
    if found is not None:
        return found
    with _make_lock:
        if key not in _kernels:
            if variant is not None and variant.epilogue.function is not None:
                require_compilable(variant.epilogue.function)
            kernel = version.make_kernel(tile, variant)
            if not version.foreign_files:  # Numba cannot cache a kernel with linked files
                enable_disk_cache(kernel, f"{version.name} {tile!r} {variant!r}")
            _kernels[key] = kernel
        return _kernels[key]


def reduce_kernel(tile: Tile, variant: Variant) -> Any:
    """The kernel that adds up the parts of the outputs, with its place on disk; made once."""
    variant = reduce.variant_of(variant)
    key = (tile, variant)
    with _make_lock:
        if key not in _reduce_kernels:
            kernel = reduce.make_kernel(tile, variant)
            enable_disk_cache(kernel, f"reduce {tile!r} {variant!r}")
            _reduce_kernels[key] = kernel
        return _reduce_kernels[key]
