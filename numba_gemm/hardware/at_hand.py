"""The device at hand, as the driver describes it: the same facts as those of `hardware`, if there is a GPU.

The driver does not say how many multiply-adds a multiprocessor starts per cycle, nor what its tensor cores do. Both go
with the compute capability, and are taken from the device in `hardware.DEVICES` with the same one, or the nearest
older.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba_gemm.hardware.devices import DEVICES, Hardware


def at_hand() -> Hardware | None:
    """The current device of this thread, or the first one; None without a driver or a device.

    Clocks are the highest, and the bandwidth is two transfers per cycle of the memory's clock times the width of its
    bus.

    Raises:
        RuntimeError: if the driver fails, or does not say one of the figures.
        ValueError: if the device is older than all in `hardware.DEVICES`.

    """
    driver = _started_driver()
    if driver is None:
        return None
    device = _current_device(driver)
    if device is None:
        return None

    def attribute(name: str) -> int:
        value = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(_checked(driver.cuDeviceGetAttribute(value, device), name))

    name = bytes(_checked(driver.cuDeviceGetName(100, device), "name")).split(b"\0")[0].decode()
    return described(name, attribute)


def described(name: str, attribute: Callable[[str], int]) -> Hardware:
    """The device of that name, by its attributes: the names of `CUdevice_attribute` without their prefix.

    Raises:
        RuntimeError: for a figure that is not known.
        ValueError: if it is older than all in `hardware.DEVICES`.

    """

    def known(figure: str) -> int:
        value = attribute(figure)
        if value <= 0:
            raise RuntimeError(f"the driver says {value} for {figure} of {name}; pass the name of a device instead")
        return value

    capability = known("COMPUTE_CAPABILITY_MAJOR"), attribute("COMPUTE_CAPABILITY_MINOR")
    sibling = _sibling(name, capability)
    clock_hz = known("CLOCK_RATE") * 1e3  # the driver has kHz
    return Hardware(
        name,
        capability,
        multiprocessors=known("MULTIPROCESSOR_COUNT"),
        fp32_lanes=sibling.fp32_lanes,
        clock_hz=clock_hz,
        memory_bandwidth=known("MEMORY_CLOCK_RATE") * 1e3 * 2 * known("GLOBAL_MEMORY_BUS_WIDTH") / 8,
        l2_bytes=known("L2_CACHE_SIZE"),
        shared_bytes=known("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
        max_threads=known("MAX_THREADS_PER_MULTIPROCESSOR"),
        max_blocks=known("MAX_BLOCKS_PER_MULTIPROCESSOR"),
        bf16_flops_per_cycle=sibling.bf16_flops_per_cycle,
        tensor_clock_hz=clock_hz,
        registers=known("MAX_REGISTERS_PER_MULTIPROCESSOR"),
    )


def _sibling(name: str, capability: tuple[int, int]) -> Hardware:
    """The device of the table that has the same compute capability, or the nearest older one."""
    older = [device for device in DEVICES if device.compute_capability <= capability]
    if not older:
        least = min(device.compute_capability for device in DEVICES)
        raise ValueError(
            f"{name} has compute capability {capability[0]}.{capability[1]}; the models know {least[0]}.{least[1]} and "
            "above: pass the name of a device"
        )
    return max(older, key=lambda device: device.compute_capability)


def _started_driver() -> Any:
    """The module of the driver's functions; None where there is no driver that starts."""
    try:
        from cuda.bindings import driver

        status, *_ = driver.cuInit(0)
    except (ImportError, RuntimeError, OSError):  # without libcuda the bindings raise RuntimeError
        return None
    return driver if int(status) == 0 else None


def _current_device(driver: Any) -> Any:
    status, device = driver.cuCtxGetDevice()
    if int(status) == 0:
        return device
    count = int(_checked(driver.cuDeviceGetCount(), "number of devices"))
    return _checked(driver.cuDeviceGet(0), "first device") if count else None


def _checked(result: tuple[Any, ...], what: str) -> Any:
    status, value = result
    if int(status):
        raise RuntimeError(f"the driver does not tell its {what}: {status}")
    return value
