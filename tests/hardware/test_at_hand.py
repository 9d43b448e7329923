"""The device at hand as the driver describes it: with a stand-in for the driver, and on a real GPU."""

from types import SimpleNamespace

import pytest
from cuda import bindings

from numba_gemm.hardware import at_hand as module
from numba_gemm.hardware.at_hand import at_hand, described
from numba_gemm.hardware.devices import A100, H100, H200, RTX_4090

#: What the driver says of an H200.
ATTRIBUTES = {
    "COMPUTE_CAPABILITY_MAJOR": 9,
    "COMPUTE_CAPABILITY_MINOR": 0,
    "MULTIPROCESSOR_COUNT": 132,
    "CLOCK_RATE": 1_980_000,
    "MEMORY_CLOCK_RATE": 3_201_000,
    "GLOBAL_MEMORY_BUS_WIDTH": 6144,
    "L2_CACHE_SIZE": 60 * 2**20,
    "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 228 * 1024,
    "MAX_THREADS_PER_MULTIPROCESSOR": 2048,
    "MAX_BLOCKS_PER_MULTIPROCESSOR": 32,
    "MAX_REGISTERS_PER_MULTIPROCESSOR": 65536,
}


class Driver:
    """The functions of `cuda.bindings.driver` that are used, for devices with these attributes."""

    CUdevice_attribute = SimpleNamespace(**{f"CU_DEVICE_ATTRIBUTE_{name}": name for name in ATTRIBUTES})

    def __init__(self, *devices, current=None, started=0, broken=0):
        self.devices, self.current, self.started, self.broken = devices, current, started, broken

    def cuInit(self, _flags):  # noqa: N802
        return (self.started,)

    def cuCtxGetDevice(self):  # noqa: N802
        return (201, None) if self.current is None else (0, self.current)

    def cuDeviceGetCount(self):  # noqa: N802
        return 0, len(self.devices)

    def cuDeviceGet(self, ordinal):  # noqa: N802
        return 0, ordinal

    def cuDeviceGetName(self, _length, device):  # noqa: N802
        return 0, f"GPU {device}".encode() + b"\0" * 8

    def cuDeviceGetAttribute(self, name, device):  # noqa: N802
        return self.broken, self.devices[device][name]


@pytest.fixture
def use(monkeypatch):
    def install(driver):
        monkeypatch.setattr(module, "_started_driver", lambda: driver)

    return install


def test_all_figures_are_the_drivers(use):
    use(Driver(ATTRIBUTES))
    found = at_hand()
    assert found.name == "GPU 0"
    for field in ("compute_capability", "multiprocessors", "clock_hz", "l2_bytes", "shared_bytes", "registers"):
        assert getattr(found, field) == getattr(H200, field), field
    assert (found.max_threads, found.max_blocks, found.fp32_lanes) == (2048, 32, 128)
    assert found.memory_bandwidth == 3.201e9 * 2 * 6144 / 8
    assert found.memory_bandwidth == pytest.approx(H200.memory_bandwidth, rel=0.03)
    assert found.fp32_peak == H200.fp32_peak


def test_the_current_device_is_the_one_at_hand(use):
    smaller = ATTRIBUTES | {"MULTIPROCESSOR_COUNT": 7}
    use(Driver(ATTRIBUTES, smaller, current=1))
    assert (at_hand().name, at_hand().multiprocessors) == ("GPU 1", 7)
    use(Driver(ATTRIBUTES, smaller))
    assert (at_hand().name, at_hand().multiprocessors) == ("GPU 0", 132)


@pytest.mark.parametrize(
    ("capability", "sibling"), [((8, 0), A100), ((8, 7), None), ((8, 9), RTX_4090), ((9, 0), H100), ((10, 0), H100)]
)
def test_lanes_are_those_of_the_capability(capability, sibling):
    attributes = ATTRIBUTES | dict(
        zip(("COMPUTE_CAPABILITY_MAJOR", "COMPUTE_CAPABILITY_MINOR"), capability, strict=True)
    )
    found = described("any", attributes.__getitem__)
    expected = (128, 1024) if sibling is None else (sibling.fp32_lanes, sibling.bf16_flops_per_cycle)
    assert (found.fp32_lanes, found.bf16_flops_per_cycle) == expected
    assert found.compute_capability == capability


def test_no_driver_and_no_device_are_nothing(use):
    use(None)
    assert at_hand() is None
    use(Driver())
    assert at_hand() is None


@pytest.mark.parametrize("started", [100, 0])
def test_a_driver_that_does_not_start_is_none(monkeypatch, started):
    driver = Driver(started=started)
    monkeypatch.setattr(bindings, "driver", driver, raising=False)
    assert module._started_driver() is (None if started else driver)


def test_a_library_that_is_missing_is_no_driver(monkeypatch):

    def missing(_flags):
        raise RuntimeError("Failed to load libcuda.so.1")

    monkeypatch.setattr(bindings, "driver", SimpleNamespace(cuInit=missing), raising=False)
    assert module._started_driver() is None


def test_a_figure_that_the_driver_does_not_say_is_named(use):
    use(Driver(ATTRIBUTES | {"MEMORY_CLOCK_RATE": 0}))
    with pytest.raises(RuntimeError, match="0 for MEMORY_CLOCK_RATE of GPU 0; pass the name of a device"):
        at_hand()
    use(Driver(ATTRIBUTES, broken=999))
    with pytest.raises(RuntimeError, match="does not tell its COMPUTE_CAPABILITY_MAJOR: 999"):
        at_hand()


def test_a_device_that_the_models_do_not_know_is_named(use):
    use(Driver(ATTRIBUTES | {"COMPUTE_CAPABILITY_MAJOR": 7, "COMPUTE_CAPABILITY_MINOR": 5}))
    with pytest.raises(ValueError, match=r"GPU 0 has compute capability 7\.5; the models know 8\.0"):
        at_hand()


@pytest.mark.gpu
def test_the_real_device():
    found = at_hand()
    assert found.multiprocessors > 0
    assert 1e11 < found.memory_bandwidth < 2e13
    assert 5e8 < found.clock_hz < 5e9
    assert 1e12 < found.fp32_peak < 5e14
    assert found.l2_bytes >= 2**20
    assert found.shared_bytes >= found.shared_bytes_per_block
