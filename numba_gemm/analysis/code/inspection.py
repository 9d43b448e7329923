"""What a version was compiled to: registers, spills, shared memory, and the main loop. Needs no GPU."""

from __future__ import annotations

import linecache
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from numba_gemm import ladder
from numba_gemm.analysis.code import sass
from numba_gemm.analysis.code.machine_code import ARCHITECTURES, compile_version
from numba_gemm.kernels.interface import Variant
from numba_gemm.tile import Tile

if TYPE_CHECKING:
    from rich.console import RenderableType


class InspectionFigures(TypedDict):
    """What `Inspection.to_dict` returns; the fields are described at `Inspection`."""

    version: int | str
    arch: str
    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    local_bytes: int
    shared_bytes: int
    instructions: int
    loop: sass.LoopStatistics


@dataclass(frozen=True)
class Inspection:
    """Facts from the machine code of one version; `rich.print` shows them as tables.

    Attributes:
        version: the number of the rung, or the name of the detour.
        arch: the architecture that it was compiled for, such as "sm_90".
        tile: the tile that it was compiled for.
        registers: 32-bit registers per thread.
        spill_store_bytes: bytes per thread that register spills store to local memory.
        spill_load_bytes: bytes per thread that register spills load from local memory.
        local_bytes: bytes per thread of local memory: spills, and arrays that found no place in registers.
        shared_bytes: bytes of shared memory per block, static and dynamic.
        instructions: machine instructions of the kernel as they stand, with the padding at its end; functions
            that it calls are not included.
        loop: the loop that does the arithmetic.
        lines: the Python line that an instruction came from, by its address. What was inlined has the line of the
            call. Empty for a version that links a `.cu` file, which the compiler gives no line information for.

    """

    version: int | str
    arch: str
    tile: Tile
    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    local_bytes: int
    shared_bytes: int
    instructions: int
    loop: sass.Loop = field(repr=False)
    lines: Mapping[int, sass.SourceLine] = field(repr=False, default_factory=dict)

    def to_dict(self) -> InspectionFigures:
        """The figures as plain data, ready for JSON."""
        return {
            "version": self.version,
            "arch": self.arch,
            "registers": self.registers,
            "spill_store_bytes": self.spill_store_bytes,
            "spill_load_bytes": self.spill_load_bytes,
            "local_bytes": self.local_bytes,
            "shared_bytes": self.shared_bytes,
            "instructions": self.instructions,
            "loop": self.loop.to_dict(),
        }

    def loop_listing(self) -> str:
        """The main loop in SASS, an instruction per line behind its address; branches name addresses.

        Where the Python line is known that the instructions came from, it stands above them.
        """
        return "\n".join(self._listing())

    def _listing(self) -> Iterator[str]:
        above: sass.SourceLine | None = None
        for instruction in self.loop.body:
            source = self.lines.get(instruction.address)
            if source is not None and source != above:
                yield f"# {_place(source)}  {_python(source)}".rstrip()
            above = source or above
            yield _line(instruction)

    def __rich__(self) -> RenderableType:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        title = f"Version {ladder.find(self.version)} for {self.arch}, tile {self.tile}"
        facts = Table.grid(padding=(0, 3))
        facts.add_column()
        facts.add_column(justify="right")
        for fact in self._facts():
            facts.add_row(*fact)
        mix = Table("main loop", box=None, pad_edge=False, padding=(0, 3, 0, 0))
        mix.columns[0].no_wrap = True
        mix.add_column("instructions", justify="right")
        mix.add_column("share", justify="right")
        for opcode, count in self.loop.mix.items():
            mix.add_row(opcode, str(count), f"{count / self.loop.instructions:.1%}")
        mix.add_row("together", str(self.loop.instructions), "", style="bold")
        return Group(Text(title, style="bold"), "", facts, "", mix, *self._by_line())

    def _by_line(self) -> list[RenderableType]:
        """Instructions of the main loop by Python line, the line with most of them first."""
        from rich.table import Table
        from rich.text import Text

        counts = Counter(self.lines[i.address] for i in self.loop.body if i.address in self.lines)
        if not counts:
            return ["", Text("No Python lines: the compiler gives none where a .cu file is linked.")]
        table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
        table.add_column("line", no_wrap=True)
        table.add_column("main loop", overflow="fold")
        table.add_column("instructions", justify="right")
        for source, count in counts.most_common():
            table.add_row(_place(source), Text(_python(source)), str(count))
        return ["", table]

    def _facts(self) -> list[tuple[str, str]]:
        loop = self.loop
        return [
            ("registers a thread", str(self.registers)),
            ("spills a thread, bytes stored", str(self.spill_store_bytes)),
            ("spills a thread, bytes loaded", str(self.spill_load_bytes)),
            ("local memory a thread, bytes", str(self.local_bytes)),
            ("shared memory a block, bytes", str(self.shared_bytes)),
            ("instructions", str(self.instructions)),
            ("main loop: instructions", str(loop.instructions)),
            ("main loop: FFMA", str(loop.ffma)),
            ("main loop: share of FFMA", f"{loop.ffma_share:.1%}"),
            ("main loop: registers fetched an FFMA", f"{loop.operand_fetches_per_ffma:.2f}"),
            ("main loop: FFMAs that fetch three registers of one bank", str(loop.bank_triples)),
            ("main loop: barriers", str(loop.barriers)),
        ]


def inspect(
    version: int | str, *, arch: str = "sm_90", tile: Tile | None = None, variant: Variant | None = None
) -> Inspection:
    """What a version is compiled to for a GPU architecture: registers, spills, shared memory, the main loop.

    Nothing is launched and no GPU is needed, but nvdisasm is: `pip install 'numba-gemm[inspect]'`. Versions that
    take any shape and layout are compiled for whole row-major matrices at aligned addresses.

    Args:
        version: a number or a name of `VERSIONS`.
        arch: "sm_80", "sm_86", "sm_89", "sm_90", "sm_100" or "sm_120".
        tile: the tile to compile for instead of the version's default.
        variant: for a version that takes any shape and layout, what to compile it for instead.

    Returns:
        An `Inspection`: figures as attributes, `.to_dict()` for machines, tables by `rich.print`.

    Raises:
        TypeError: for a version or a tile of another type.
        ValueError: for an unknown version or architecture, or a tile or variant that the version or the architecture
            cannot use.
        RuntimeError: in Numba's simulator, or without nvdisasm.

    """
    if version == "auto":
        raise ValueError("version 'auto' chooses by shape and device; inspect takes a number or a name of the ladder")
    found = ladder.find(version)
    if tile is None:
        tile = found.default_tile
    elif not isinstance(tile, Tile):
        raise TypeError(f"tile is {tile!r}, of type {type(tile).__name__}; it must be a numba_gemm.Tile")
    found.check(tile)
    if variant is not None and not found.traits.takes_variants:
        raise ValueError(f"version {found} has no variants: it is for whole row-major matrices")
    if found.traits.dynamic_shared and arch in ARCHITECTURES:  # any other is refused below
        tile.require_dynamic_shared(divmod(int(arch.removeprefix("sm_")), 10))
    code = compile_version(found, arch, tile, variant)
    instructions = sass.parse(code.sass)
    return Inspection(
        version=found.name if found.number is None else found.number,
        arch=arch,
        tile=tile,
        registers=code.registers,
        spill_store_bytes=code.spill_store_bytes,
        spill_load_bytes=code.spill_load_bytes,
        local_bytes=code.local_bytes,
        shared_bytes=code.shared_bytes + found.shared_bytes(tile, variant or Variant()),
        instructions=len(instructions),
        loop=sass.main_loop(instructions),
        lines=sass.source_lines(code.sass),
    )


def _line(instruction: sass.Instruction) -> str:
    operands = list(instruction.operands)
    if instruction.target is not None:
        operands[-1] = f"{instruction.target:#06x}"
    text = f"{instruction.address:#06x}  {instruction.predicate:5} {instruction.opcode} {', '.join(operands)}"
    return text.rstrip()


def _place(source: sass.SourceLine) -> str:
    return f"{Path(source.file).name}:{source.line}"


def _python(source: sass.SourceLine) -> str:
    """The text of the line, without its comment; empty where the file is not at hand."""
    return linecache.getline(source.file, source.line).partition("  # ")[0].strip()
