"""The generated regions of the pages on one topic: bank conflicts, occupancy, waves, linking PTX, tuning."""

from __future__ import annotations

from pathlib import Path

from notes.make.evidence import SIZE
from notes.make.facts import ARCH, NOTES, Facts, find
from notes.make.regions import table
from numba_gemm import ladder
from numba_gemm.analysis.models.occupancy import occupancy
from numba_gemm.analysis.models.waves import waves
from numba_gemm.hardware.devices import DEVICES, Hardware
from numba_gemm.ladder import Version
from numba_gemm.plots import catalogue


def picture(root: Path, name: str) -> str:
    """A picture with its caption, if it is there: some wait for measurements."""
    found = catalogue.find(name)
    file = NOTES / "pictures" / f"{found.name}.svg"
    if not (root / file).is_file():
        return f"({found.caption}: drawn by `numba-gemm plot {found.name}` when there are measurements for it.)"
    return f"![{found.caption}]({file.relative_to(NOTES)})"


def wavefronts(facts: Facts) -> str:
    """Wavefronts of shared memory for a tile of K, of rungs and of the detours that change a layout."""
    rows = []
    for found in facts.machine_code["banks"]:
        version = ladder.find(found["name"])
        written = found["store_wavefronts_per_tile"] + found["copy_wavefronts_per_tile"]
        written_at_best = found["store_ideal_per_tile"] + found["copy_ideal_per_tile"]
        ffma = found["ffma_per_tile"]
        rows.append(
            [
                _label(version),
                version.summary,
                f"{found['load_ideal_per_tile'] / ffma:.3f}",
                f"{found['load_wavefronts_per_ffma']:.3f}",
                f"{written_at_best / ffma:.4f}",
                f"{written / ffma:.4f}",
            ]
        )
    header = ["version", "", "reads at best", "reads", "writes at best", "writes"]
    return f"Wavefronts for each FFMA of a warp, {ARCH}:\n\n{table(header, rows, left=2)}"


def occupancies(facts: Facts) -> str:
    """What each rung takes of a multiprocessor, with the registers of its machine code."""
    rows = []
    for version in ladder.RUNGS:
        found = facts.inspection(version.name)
        threads = version.default_tile.threads
        resident = occupancy(threads, found["registers"], found["shared_bytes"], facts.device)
        measured = facts.measured(version.name)
        rows.append(
            [
                _label(version),
                str(threads),
                str(found["registers"]),
                str(found["shared_bytes"]),
                str(resident.blocks_per_sm),
                f"{resident.occupancy:.1%}",
                ", ".join(resident.limiters),
                f"{measured['vs_baseline']:.2f}" if measured else "not yet",
            ]
        )
    header = ["rung", "threads", "registers", "shared bytes", "blocks", "occupancy", "limited by", "× cuBLAS"]
    return f"{facts.device.name}, at {SIZE}³:\n\n{table(header, rows)}"


def waves_by_size(facts: Facts, *versions: str) -> str:
    """The waves of some versions, at the sizes that were measured."""
    rows = []
    for version in map(find, versions):
        for size in facts.sizes:
            found, measured = facts.explanation(version.name, size), facts.measured(version.name, size)
            grid = found.waves
            rows.append(
                [
                    _label(version),
                    str(size),
                    str(grid.blocks),
                    str(grid.slots),
                    f"{grid.waves:.2f}",
                    f"{grid.wave_efficiency:.1%}",
                    f"{measured['vs_baseline']:.2f}" if measured else "not yet",
                ]
            )
    header = ["rung", "M = N = K", "blocks", "slots", "waves", "slots taken", "× cuBLAS"]
    return f"On {facts.device.name}:\n\n{table(header, rows)}"


def waves_by_device(facts: Facts, version: str) -> str:
    """The same grid on other devices."""
    tile = ladder.find(int(version)).default_tile
    blocks_n, blocks_m = tile.grid(SIZE, SIZE)
    found = facts.inspection(version)

    def row(device: Hardware) -> list[str]:
        resident = occupancy(tile.threads, found["registers"], found["shared_bytes"], device)
        grid = waves(blocks_m * blocks_n, device.multiprocessors, resident.blocks_per_sm)
        cells = [device.name, str(device.multiprocessors), str(resident.blocks_per_sm), f"{grid.waves:.2f}"]
        return [*cells, str(grid.last_wave), f"{grid.wave_efficiency:.1%}"]

    header = ["device", "multiprocessors", "blocks on each", "waves", "blocks in the last", "slots taken"]
    return f"Rung {version} at {SIZE}³, {blocks_m * blocks_n} blocks:\n\n" + table(header, [row(d) for d in DEVICES])


def ways_to_cp_async(facts: Facts) -> str:
    """The three versions of rung 5 that differ in how the instruction gets into the kernel."""
    rows = []
    for name in ("cp_async", "cp_async_ptx", "cp_async_intrinsic"):
        found, measured = facts.inspection(name), facts.measured(name)
        loop = found["loop"]
        rows.append(
            [
                f"`{name}`",
                ladder.find(name).summary,
                str(found["registers"]),
                f"{found['spill_store_bytes']} + {found['spill_load_bytes']}",
                str(loop["instructions"]),
                f"{loop['ffma_share']:.1%}",
                f"{measured['seconds'] * 1e3:.2f}" if measured else "not yet",
            ]
        )
    header = ["version", "", "registers", "bytes spilled + loaded", "instructions a tile", "FFMA", f"ms at {SIZE}³"]
    return table(header, rows, left=2)


def tuning_choices(facts: Facts) -> str:
    """What was tried on rung 7, with its time against cuBLAS."""
    start = facts.measured_once["rung7_start"]
    rows = [
        [choice["choice"], option, f"{ratio:.3f}", f"{(ratio - start) * 100:+.1f}"]
        for choice in facts.measured_once["rung7_choices"]
        for option, ratio in choice["options"].items()
    ]
    header = ["what was changed", "to", "× cuBLAS", f"points from {start:.3f}"]
    return table(header, rows, left=2)


def tuning_counters(facts: Facts) -> str:
    """Hardware counters of cuBLAS and of rung 7."""
    rows = [
        [entry["counter"], *(f"{entry[who]:.{entry['digits']}f}" for who in ("cublas", "rung7"))]
        for entry in facts.measured_once["rung7_counters"]
    ]
    return table(["counter", "cuBLAS", "rung 7"], rows)


def _label(version: Version) -> str:
    return f"`{version.name}`" if version.number is None else f"**{version.number}** `{version.name}`"
