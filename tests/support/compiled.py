"""A version's machine code as tests read it: its instructions, its main loop, and what to say where they are wrong."""

from collections import Counter
from functools import cache, cached_property

from numba_gemm.analysis.code import machine_code, sass
from numba_gemm.ladder import find


class Compiled:
    """Compiled for one architecture, which needs no GPU."""

    def __init__(self, name, arch, tile, variant):
        version = find(name)
        self.tile = tile or version.default_tile
        self.title = f"{version} for {arch}, {self.tile}" + (f", {variant}" if variant else "")
        self.code = machine_code.compile_version(version, arch, self.tile, variant)
        self.instructions = sass.parse(self.code.sass)

    @cached_property
    def loop(self):
        return sass.main_loop(self.instructions)

    @property
    def called(self):
        """The functions that are called; a CALL inside the kernel is how ptxas writes a long jump."""
        return {i.operands[-1] for i in sass.select(self.instructions, "CALL") if i.target is None}

    @property
    def spilled(self):
        """Bytes per thread: the most of what spills store and load, and of the stack: arrays not in registers."""
        return max(self.code.spill_store_bytes, self.code.spill_load_bytes, self.code.local_bytes)

    @property
    def report(self):
        """What was found, for the message of an assertion."""
        code, loop = self.code, self.loop
        return (
            f"{self.title}: {code.registers} registers, spills {code.spill_store_bytes} bytes stored and "
            f"{code.spill_load_bytes} loaded, {code.local_bytes} bytes local, calls of {self.called or 'nothing'}; "
            f"main loop {loop.to_dict()}"
        )

    def loop_count(self, opcode):
        return len(sass.select(self.loop.body, opcode))

    def widths(self, opcode, *, everywhere=False):
        """How many accesses of each number of bytes, in the main loop or in the whole kernel."""
        found = sass.select(self.instructions if everywhere else self.loop.body, opcode)
        return dict(Counter(instruction.access_bytes for instruction in found))

    def places(self, opcode):
        """Where instructions stand in the main loop."""
        return [place for place, instruction in enumerate(self.loop.body) if instruction.base == opcode]

    def outside_the_loop(self):
        return [i for i in self.instructions if not self.loop.start <= i.address <= self.loop.end]


@cache
def _compiled(name, arch, tile, variant):
    return Compiled(name, arch, tile, variant)


def compiled(name, arch="sm_90", tile=None, variant=None):
    """Once a session; for the default tile, and for whole row-major matrices, if nothing else is said."""
    return _compiled(name, arch, tile, variant)
