"""What the versions are compared with: cuBLAS always, PyTorch and Triton on large cubes where they are installed.

A peer computes C = A·B in strict float32 on the same memory. One that is missing, or fails, costs its own figures only.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from numba_gemm.bench.product import Product
from numba_gemm.bench.suite import Shape
from numba_gemm.driver.cublas import Cublas
from numba_gemm.driver.timing import GpuTimer, Launch

CUBLAS = "cuBLAS"
#: Where all peers run; elsewhere it is cuBLAS alone.
ALL_PEERS_AT: tuple[Shape, ...] = ((4096, 4096, 4096), (8192, 8192, 8192))


class UnavailableError(RuntimeError):
    """A peer cannot run here; the message says why, and what to do about it."""


@dataclass(frozen=True)
class Candidate:
    """Something that can be timed, and what there is to say about it."""

    launch: Launch
    version: str | None = None
    tile: str | None = None
    registers: int | None = None
    local_bytes: int | None = None


class Peer(Protocol):
    """Another implementation of the product."""

    name: str

    def prepare(self, product: Product, timer: GpuTimer) -> Candidate:
        """Everything done but the launch, on the default stream.

        Raises:
            Exception: whatever goes wrong in a library that is not ours; `UnavailableError` where it is not installed.
        """


class CublasPeer:
    """`cublasSgemm` with its math mode set to plain FP32."""

    name = CUBLAS

    def prepare(self, product: Product, timer: GpuTimer) -> Candidate:
        del timer
        a, b, c = product.a, product.b, product.c
        cublas = self._handle
        return Candidate(lambda: cublas.sgemm(a, b, c), version=self._version)

    @cached_property
    def _handle(self) -> Cublas:
        return Cublas()

    @cached_property
    def _version(self) -> str:
        return self._handle.version()


class TorchPeer:
    """`torch.mm`, which calls cuBLAS: its difference from cuBLAS is what PyTorch adds."""

    name = "PyTorch"

    def prepare(self, product: Product, timer: GpuTimer) -> Candidate:
        del timer
        torch = _module("torch")
        a, b, c = torch_tensors(torch, product)
        torch.set_float32_matmul_precision("highest")  # TF32 off
        return Candidate(lambda: torch.mm(a, b, out=c), version=str(torch.__version__))


class TritonPeer:
    """The strict FP32 product in Triton, `triton_peer`."""

    name = "Triton"

    def prepare(self, product: Product, timer: GpuTimer) -> Candidate:
        torch, triton = _module("torch"), _module("triton")
        triton_peer = importlib.import_module("numba_gemm.bench.triton_peer")
        chosen = triton_peer.fastest(*torch_tensors(torch, product), timer)
        return Candidate(chosen.launch, version=str(triton.__version__), tile=str(chosen.tile))


def peers_at(shape: Shape) -> list[Peer]:
    """Whom to compare with at a shape, cuBLAS first."""
    if shape not in ALL_PEERS_AT:
        return [CublasPeer()]
    return [CublasPeer(), TritonPeer(), TorchPeer()]


def torch_tensors(torch: Any, product: Product) -> tuple[Any, ...]:
    """The product's own memory as PyTorch's tensors.

    Raises:
        UnavailableError: if PyTorch cannot use the GPU.
    """
    if not torch.cuda.is_available():
        raise UnavailableError("this PyTorch cannot use the GPU; install one that is built for CUDA")
    tensors = tuple(torch.as_tensor(array, device="cuda") for array in product.arrays)
    for tensor, operand in zip(tensors, (product.a, product.b, product.c), strict=True):
        if tensor.data_ptr() != operand.pointer:
            raise UnavailableError("PyTorch made a copy of the operands, and would write its result elsewhere")
    return tensors


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UnavailableError(f"{name} is not installed; pip install {name}") from error
