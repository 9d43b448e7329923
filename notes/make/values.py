"""Single numbers within a line: from stored results, from stored machine code, and from the models."""

from __future__ import annotations

from collections.abc import Callable

from notes.make.evidence import SIZE
from notes.make.facts import Facts
from numba_gemm.analysis.models import gemv, roofline, shared_memory, traffic
from numba_gemm.analysis.models.explain import duration
from numba_gemm.analysis.models.occupancy import occupancy, registers_by_fragments, registers_by_overhead
from numba_gemm.analysis.models.waves import blocks_by_multiprocessor
from numba_gemm.hardware.devices import A100, H100, H200, RTX_5080

CUBE = (SIZE, SIZE, SIZE)


def time(facts: Facts, version: str) -> str:
    """The stored median of a version."""
    return duration(facts.seconds(version))


def faster(facts: Facts, version: str, other: str) -> str:
    """How much faster a version is than another, in per cent."""
    return f"{facts.seconds(other) / facts.seconds(version) - 1:.0%}".replace("%", " %")


def times(facts: Facts, version: str, other: str) -> str:
    """How many times as fast a version is as another."""
    return f"{facts.seconds(other) / facts.seconds(version):.1f}"


def registers(facts: Facts, version: str) -> str:
    """Registers of the machine code."""
    return str(facts.inspection(version)["registers"])


def ffma_share(facts: Facts, version: str) -> str:
    """Share of FFMA in the main loop."""
    return f"{facts.inspection(version)['loop']['ffma_share']:.0%}".replace("%", " %")


def loop_kilobytes(facts: Facts, version: str) -> str:
    """Size of the main loop, at 16 bytes an instruction."""
    return f"{facts.inspection(version)['loop']['instructions'] * 16 / 1024:.0f} KB"


def once(facts: Facts, key: str, name: str) -> str:
    """A figure of notes/measured_once.json."""
    return str(facts.measured_once[key][name])


def model(name: str) -> str:
    """A figure that a model computes; ValueError for a name that `MODELS` does not have."""
    if name not in MODELS:
        raise ValueError(f"no model is named {name!r}; there are {', '.join(MODELS)}")
    return MODELS[name]()


def _per_cent(fraction: float, digits: int = 0) -> str:
    return f"{fraction * 100:.{digits}f} %"


def _l2_seconds(bandwidth: float) -> float:
    return traffic.naive_sector_bytes(*CUBE) / bandwidth


def _memory_seconds() -> float:
    return traffic.read_seconds(traffic.naive_read_bytes(*CUBE), H200)


def _peak_at(clock_hz: float) -> float:
    return H100.multiprocessors * H100.fp32_lanes * 2 * clock_hz


#: What the models say where a source document says something else, by name.
MODELS: dict[str, Callable[[], str]] = {
    # Two scalar reads of shared memory for an FFMA, and one read in four merged.
    "shared bound A100": lambda: _per_cent(shared_memory.peak_fraction(2, A100)),
    "shared bound H100": lambda: _per_cent(shared_memory.peak_fraction(2, H100), 1),
    "shared bound merged": lambda: _per_cent(shared_memory.peak_fraction(1.25, A100)),
    "naive from memory": lambda: f"{_memory_seconds() / roofline.roofline(*CUBE, H200).compute_bound_s:.0f}",
    "A100 lanes": lambda: str(A100.fp32_lanes),
    "A100 FLOP a cycle": lambda: str(2 * A100.fp32_lanes),
    "naive sectors": lambda: f"{traffic.naive_sector_bytes(*CUBE) / 1e9:.1f} GB",
    "naive L2 ms": lambda: f"{_l2_seconds(6e12) * 1e3:.0f} to {_l2_seconds(4e12) * 1e3:.0f} ms",
    "naive L2 times": lambda: " to ".join(
        f"{_l2_seconds(rate) / roofline.roofline(*CUBE, A100).compute_bound_s:.0f}" for rate in (6e12, 4e12)
    ),
    # Rows m and m + 8 of As[m][8], the rows that two threads of a warp read.
    "rows of A": lambda: str(shared_memory.wavefronts([0, 8 * 8])),
    # B[n][8] read along k by eight lanes: neighbouring columns, and columns eight apart.
    "columns of B": lambda: str(shared_memory.wavefronts(8 * lane for lane in range(8))),
    "columns of B apart": lambda: str(shared_memory.wavefronts(64 * lane for lane in range(8))),
    # 8 outputs each way: 16 floats a lane and k, 32 lanes, 128 bytes a wavefront.
    "margin": lambda: f"{shared_memory.margin(8, 8, 16, A100):.0f}",
    "LDS fewer by vectors": lambda: f"{2 / (4 / 64):.0f}",
    "LDS fewer in v5": lambda: f"{2 / (10 / 64):.1f}",
    "batch of weights": lambda: f"{gemv.ridge_batch_of_weights(A100.bf16_ridge, 2):.0f}",
    "batch with all": lambda: f"{gemv.ridge_batch(A100.bf16_ridge, SIZE, SIZE, 2, 2):.0f}",
    "batch FP32": lambda: f"{gemv.ridge_batch(A100.ridge, SIZE, SIZE):.0f}",
    "registers by overhead": lambda: str(registers_by_overhead(8, 8)),
    "registers by fragments": lambda: str(registers_by_fragments(8, 8)),
    "occupancy Q9": lambda: _per_cent(occupancy(256, 80, 8 * 1024, A100).occupancy, 1),
    "occupancy Q9 5080": lambda: _per_cent(occupancy(256, 80, 8 * 1024, RTX_5080).occupancy),
    "block reuse": lambda: f"{traffic.reuse(128, 128):.0f}",
    "thread reuse": lambda: f"{traffic.reuse(8, 8):.0f}",
    "implied naive": lambda: " to ".join(
        f"{roofline.flops(*CUBE) / seconds / RTX_5080.fp32_peak * 100:.0f}" for seconds in (48e-3, 26e-3)
    ),
    "H100 clock for 67": lambda: f"{67e12 / _peak_at(1.0) / 1e9:.2f} GHz",
    "H100 at 1.83": lambda: f"{_peak_at(1.83e9) / 1e12:.1f}",
    "cuBLAS at 85": lambda: f"{roofline.roofline(*CUBE, A100).compute_bound_s / 0.85 * 1e3:.2f} ms",
    "v5 of cuBLAS": lambda: f"{0.70 / 0.95 * 100:.0f} to {0.80 / 0.85 * 100:.0f} %",
    # Per k and 16 outputs of a warp: A one sector a load and B four; with 4×4, A two and B eight.
    "4x4 sectors": lambda: _per_cent(1 - (4 * 2 + 4 * 8) / (16 * (2 + 2)), 1),
    "SMs with two": lambda: str(blocks_by_multiprocessor(128, A100.multiprocessors).count(2)),
    "useful rows": lambda: _per_cent(8 / 128, 1),
}
