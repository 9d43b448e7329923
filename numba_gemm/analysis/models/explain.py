"""What bounds a version on a shape and a device, in what order, and how long it should take. Needs no GPU.

Everything comes from the tile, the kernel's index expressions (`structure`) and the device (`hardware`); with machine
code, registers and instructions come from there. No constant is fitted to a measurement of a version, so where
prediction and measurement differ, something is at work that the model does not have: notes/predictions.md shows where.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

from numba_gemm import ladder
from numba_gemm.analysis.models import structure, traffic
from numba_gemm.analysis.models.bounds import Bound, Launch, Prediction, bounds, instructions_per_ffma, predict, volume
from numba_gemm.analysis.models.occupancy import Occupancy, occupancy, register_cap, registers_by_overhead
from numba_gemm.analysis.models.roofline import Roofline, intensity, roofline
from numba_gemm.analysis.models.waves import Waves, waves
from numba_gemm.hardware import devices
from numba_gemm.hardware.at_hand import at_hand
from numba_gemm.hardware.devices import Hardware
from numba_gemm.hardware.quantity import require
from numba_gemm.kernels.interface import Structure
from numba_gemm.ladder import Version
from numba_gemm.problem import rows_at_once
from numba_gemm.tile import FLOAT_BYTES, Tile

if TYPE_CHECKING:
    from rich.console import RenderableType

    from numba_gemm.analysis.code.inspection import Inspection

#: Registers per thread besides its outputs, where nothing passes through shared memory: fragments, pointers, strides.
#: Of such kernels the source documents report 39 for 16 outputs and 114 for 64, and the naive one here has 32.
OVERHEAD_WITHOUT_SHARED = 28

#: The idea of a rung, as what one should do next on the rung below it.
IDEAS = {
    "shared": "copy tiles of A and B into shared memory, so that a block reads each element from far away only once",
    "register": "compute 8×8 outputs per thread, so that each float read from shared memory serves eight multiply-adds",
    "vectorized": "move 16 bytes per instruction and turn A round on the way in, so that copies take fewer of them",
    "cp_async": "let cp.async copy the next tiles while this one is computed, so that nobody waits for memory",
    "boundary": "transpose A by 4-byte cp.async, and let the copies zero what lies outside, so that any shape is taken",
    "warp_tiled": "lay the lanes of a warp out as a tile of its own and read its fragments in pairs: fewer wavefronts, "
    "and under the arithmetic",
    "stream_k": "deal out steps of K instead of whole tiles, so that no multiprocessor idles in a last wave",
}


@dataclass(frozen=True)
class Explanation:
    """The model of one version on one shape and device; `rich.print` shows it as tables.

    Attributes:
        version: the number of the rung, or the name of the detour.
        device: what it runs on.
        m, n, k: C[m, n] = A[m, k]·B[k, n].
        tile: the tile that it runs with.
        roofline: the bounds of the product, whatever the kernel.
        logical_global_bytes: reads of A and B that the kernel issues.
        shared_wavefronts_per_ffma: least and most wavefronts of shared memory for an FFMA of a warp; None without.
        ffma_share: FFMA over instructions, as the tile needs them or, with machine code, as they are.
        registers: 32-bit registers per thread.
        shared_bytes: bytes of shared memory per block.
        source: "tile" or "machine code": where registers and instructions come from.
        occupancy: blocks and warps of a multiprocessor, and what limits them.
        waves: how the grid lies on the device.
        bottlenecks: the bounds, the largest first.
        prediction: the range of time.
        next: the sentence that names the next rung's idea.

    """

    version: int | str
    device: Hardware
    m: int
    n: int
    k: int
    tile: Tile
    roofline: Roofline
    logical_global_bytes: int
    shared_intensity: float | None
    shared_wavefronts_per_ffma: tuple[float, float] | None
    ffma_share: float
    registers: int
    shared_bytes: int
    source: str
    occupancy: Occupancy
    waves: Waves
    bottlenecks: tuple[Bound, ...]
    prediction: Prediction
    next: str

    @property
    def global_intensity(self) -> float:
        """FLOP per byte of A and B that the kernel reads."""
        return intensity(self.roofline.flops, self.logical_global_bytes)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON: SI base units (bytes, seconds, FLOP/s) under names that carry the quantity."""
        wavefronts = self.shared_wavefronts_per_ffma
        return {
            "version": self.version,
            "device": self.device.name,
            "m": self.m,
            "n": self.n,
            "k": self.k,
            "tile": asdict(self.tile),
            **self.roofline.to_dict(),
            "logical_global_bytes": self.logical_global_bytes,
            "global_intensity": self.global_intensity,
            "shared_intensity": self.shared_intensity,
            "shared_wavefronts_per_ffma": None if wavefronts is None else list(wavefronts),
            "ffma_share": self.ffma_share,
            "threads": self.tile.threads,
            "registers": self.registers,
            "shared_bytes": self.shared_bytes,
            "source": self.source,
            "blocks": self.waves.blocks,
            "blocks_per_sm": self.occupancy.blocks_per_sm,
            "warps_per_sm": self.occupancy.warps_per_sm,
            "occupancy": self.occupancy.occupancy,
            "occupancy_limiters": list(self.occupancy.limiters),
            "waves": self.waves.waves,
            "wave_efficiency": self.waves.wave_efficiency,
            "bottlenecks": [bound.to_dict() for bound in self.bottlenecks],
            **self.prediction.to_dict(),
            "next": self.next,
        }

    def __rich__(self) -> RenderableType:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        title = f"Version {ladder.find(self.version)}, {self.m}×{self.n}×{self.k} on {self.device.name}"
        facts = Table.grid(padding=(0, 3))
        facts.add_column()
        facts.add_column(overflow="fold")
        for fact in self._facts():
            facts.add_row(*fact)
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column("what bounds it", no_wrap=True)
        table.add_column("at best", justify="right", no_wrap=True)
        table.add_column("at worst", justify="right", no_wrap=True)
        table.add_column("from", overflow="fold")
        for bound in self.bottlenecks:
            table.add_row(bound.name, duration(bound.least_s), duration(bound.most_s), bound.why)
        found = self.prediction
        predicted = Text(
            f"Predicted {duration(found.predicted_s)}: {duration(found.optimistic_s)} if everything overlaps, "
            f"{duration(found.pessimistic_s)} if only what the kernel overlaps itself does.",
            style="bold",
        )
        return Group(Text(title, style="bold"), "", facts, "", table, "", predicted, Text(self.next))

    def _facts(self) -> list[tuple[str, str]]:
        limits, grid, work = self.occupancy, self.waves, self.roofline
        shared = "" if self.shared_intensity is None else f", {self.shared_intensity:.3g} of shared memory"
        return [
            ("tile", str(self.tile)),
            ("roofline", f"{duration(work.compute_bound_s)} arithmetic, {duration(work.memory_bound_s)} memory"),
            ("minimum bytes", f"{volume(work.minimum_bytes)}, {work.minimum_intensity:.3g} FLOP a byte"),
            ("reads of A and B", volume(self.logical_global_bytes)),
            ("FLOP a byte", f"{self.global_intensity:.3g} of these reads{shared}"),
            ("a thread", f"{self.registers} registers, by {'the machine code' if self._compiled else 'estimate'}"),
            ("a block", f"{self.tile.threads} threads, {self.shared_bytes} bytes of shared memory"),
            (
                "a multiprocessor",
                f"{limits.blocks_per_sm} blocks, {limits.warps_per_sm} warps, occupancy {limits.occupancy:.0%}, "
                f"limited by {' and '.join(limits.limiters)}",
            ),
            (
                "the grid",
                f"{grid.blocks} blocks, {grid.waves:.3g} waves, {grid.wave_efficiency:.0%} of their slots taken",
            ),
        ]

    @property
    def _compiled(self) -> bool:
        return self.source == "machine code"


def explain(
    version: int | str,
    m: int,
    n: int,
    k: int,
    device: str | Hardware | None = None,
    tile: Tile | None = None,
    *,
    detail: bool = False,
) -> Explanation:
    """What bounds a version on a shape, in what order, how long it should take, and what the next rung does about it.

    A model: bytes, intensity, occupancy, waves, wavefronts of shared memory, and from them a range of time. Nothing is
    launched and no GPU is needed. How far it is from what was measured is in notes/predictions.md.

    Args:
        version: a number or a name of `VERSIONS`.
        m, n, k: C[m, n] = A[m, k]·B[k, n], row-major; each at least 0.
        device: "A100", "H100", "H200", "RTX A6000", "RTX 4090", "RTX 5080" in any case, or a `Hardware`. By default
            the GPU at hand, and an H200, which the stored results are from, where there is none.
        tile: the tile to explain instead of the version's default.
        detail: compile the version, which takes seconds, and take registers and instructions from its machine code;
            otherwise they are what the tile needs. Needs what `inspect` needs.

    Returns:
        An `Explanation`: figures as attributes, `.to_dict()` for machines, tables by `rich.print`.

    Raises:
        TypeError: for an argument of another type.
        ValueError: for an unknown version or device, a negative size, a tile that the version cannot use, or a version
            that the device cannot run.
        RuntimeError: with `detail`, in Numba's simulator or without nvdisasm.

    """
    found, tile = _version_and_tile(version, tile)
    for name, size in (("m", m), ("n", n), ("k", k)):
        if not isinstance(size, int) or isinstance(size, bool):
            raise TypeError(f"{name} is {size!r}, of type {type(size).__name__}; it must be an int")
        require(0, **{name: size})
    chosen = _device(device)
    if chosen.compute_capability < found.min_cc:
        needed, has = (".".join(map(str, cc)) for cc in (found.min_cc, chosen.compute_capability))
        raise ValueError(f"version {found} needs compute capability {needed}; {chosen.name} has {has}")
    if found.traits.dynamic_shared:
        tile.require_dynamic_shared(chosen.compute_capability)
    compiled = _machine_code(found, tile, chosen) if detail else None
    if found.traits.few_rows:  # the smaller of M and N are its rows, and a block has as many as there are
        m, n = sorted((m, n))
        rows = min(tile.bm, rows_at_once(m))
        tile = replace(tile, bm=rows, tm=rows)
    return _explanation(found, tile, m, n, k, chosen, compiled)


def _explanation(
    version: Version, tile: Tile, m: int, n: int, k: int, device: Hardware, compiled: Inspection | None
) -> Explanation:
    parts = version.structure
    registers = compiled.registers if compiled else _registers(version, parts, tile, device)
    shared_bytes = compiled.shared_bytes if compiled else structure.shared_bytes(version, tile)
    resident = occupancy(tile.threads, registers, shared_bytes, device)
    blocks = prod(structure.launch_of(version, tile, m, n, k, device.multiprocessors).grid) if m and n else 0
    grid = waves(blocks, device.multiprocessors, resident.blocks_per_sm)
    loop = compiled.loop if compiled else None
    launch = Launch(
        parts,
        tile,
        m,
        n,
        k,
        device,
        resident.blocks_per_sm,
        grid,
        loop.instructions / loop.ffma if loop else None,
        loop.bank_triples / loop.ffma if loop else None,
    )
    found = bounds(launch)
    whole = tile.padded(m, n, k) if version.needs_whole_tiles else (m, n, k)
    per_block = (tile.bm, tile.bn) if parts.shared else (tile.tm, tile.tn)
    wavefronts = structure.shared_wavefronts(parts, tile) if parts.shared else None
    outputs = tile.tm * tile.tn
    return Explanation(
        version=version.name if version.number is None else version.number,
        device=device,
        m=m,
        n=n,
        k=k,
        tile=tile,
        roofline=roofline(m, n, k, device),
        logical_global_bytes=traffic.block_read_bytes(*whole, *per_block),
        shared_intensity=traffic.tile_intensity(tile.tm, tile.tn) if parts.shared else None,
        shared_wavefronts_per_ffma=(wavefronts.least / outputs, wavefronts.served / outputs) if wavefronts else None,
        ffma_share=loop.ffma_share if loop else 1 / instructions_per_ffma(parts, tile),
        registers=registers,
        shared_bytes=shared_bytes,
        source="machine code" if compiled else "tile",
        occupancy=resident,
        waves=grid,
        bottlenecks=found,
        prediction=predict(launch, found, _padding_seconds((m, n, k), whole, device)),
        next=_next(version, device, grid),
    )


def _version_and_tile(version: int | str, tile: Tile | None) -> tuple[Version, Tile]:
    if version == "auto":
        raise ValueError("version 'auto' chooses by shape and device; explain takes a number or a name of the ladder")
    found = ladder.find(version)
    if tile is None:
        return found, found.default_tile
    if not isinstance(tile, Tile):
        raise TypeError(f"tile is {tile!r}, of type {type(tile).__name__}; it must be a numba_gemm.Tile")
    found.check(tile)
    return found, tile


def _device(device: str | Hardware | None) -> Hardware:
    if isinstance(device, Hardware):
        return device
    if isinstance(device, str):
        return devices.find(device)
    if device is not None:
        raise TypeError(f"device is {device!r}, of type {type(device).__name__}; it must be a name, a Hardware or None")
    return at_hand() or devices.H200


def _machine_code(version: Version, tile: Tile, device: Hardware) -> Inspection:
    from numba_gemm.analysis.code.inspection import inspect

    arch = "sm_{}{}".format(*device.compute_capability)
    return inspect(version.name, arch=arch, tile=tile)


def _registers(version: Version, parts: Structure, tile: Tile, device: Hardware) -> int:
    """An estimate. Kernels with shared memory have launch bounds, and so no more than these leave."""
    if not parts.shared:
        return registers_by_overhead(tile.tm, tile.tn, OVERHEAD_WITHOUT_SHARED)
    asked = version.traits.resident_blocks(tile)
    return min(registers_by_overhead(tile.tm, tile.tn), register_cap(tile.threads, asked, device))


def _padding_seconds(shape: tuple[int, int, int], whole: tuple[int, int, int], device: Hardware) -> float:
    """Seconds at the bandwidth of memory to copy what is not whole tiles into scratch, and to crop the result."""

    def elements(sizes: tuple[int, int, int], index: tuple[int, int]) -> int:
        return sizes[index[0]] * sizes[index[1]]

    if not (shape[0] and shape[1]):
        return 0.0
    moved = sum(
        elements(shape, index) + elements(whole, index)
        for index in ((0, 2), (2, 1), (0, 1))
        if elements(shape, index) != elements(whole, index)
    )
    return moved * FLOAT_BYTES / device.memory_bandwidth


def _next(version: Version, device: Hardware, grid: Waves) -> str:
    """The sentence that names the next idea; on a grid that does not fill the device, that comes first."""
    idle = ""
    if 0 < grid.blocks < 0.9 * device.multiprocessors:
        idle = f"Only {grid.blocks} of {device.multiprocessors} multiprocessors have a block: a smaller tile has more. "
    if version.number is None:
        return f"{idle}Not a rung: {version.summary}."
    above = next((rung for rung in ladder.RUNGS if rung.number == version.number + 1), None)
    if above is None:
        return idle + "The last rung: its own file says what may still limit it."
    return f"{idle}Next, {above}: {IDEAS.get(above.name, above.summary)}."


def duration(seconds: float) -> str:
    """Three digits in the unit that suits."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns" if seconds else "0"
