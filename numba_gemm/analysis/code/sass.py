"""Read machine code: parse a disassembly, find the main loop, and say what limits it.

Pure text processing. The text comes from `machine_code.compile_kernel`, or from `nvdisasm` or
`cuobjdump -sass` by hand; nothing here needs Numba, a toolkit or a GPU.

A matrix multiplication lives in one loop, so a few figures of that loop tell most of the story: the share
of FFMA (FP32 multiply-add) among its instructions is an upper bound on the fraction of FP32 peak that
instruction issue allows, and the register fetches of those FFMAs show what the register file has to deliver.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypedDict

_INSTRUCTION = re.compile(r"^\s*/\*(?P<address>[0-9a-f]{4,})\*/\s+(?P<text>[^;]+?)\s*;")
_SOURCE = re.compile(r'^\s*//## File "(?P<file>[^"]+)", line (?P<line>\d+)')
_LABEL = re.compile(r"^\s*(?P<label>[.$\w]+):\s*$")
_PREDICATED = re.compile(r"^(?P<predicate>@!?U?P(?:\d+|T))\s+(?P<rest>.*)$")
_LABEL_OPERAND = re.compile(r"^`\((?P<label>[.$\w]+)\)$")
_ADDRESS_OPERAND = re.compile(r"^0x[0-9a-f]+$")
_REGISTER = re.compile(r"^[-|~]*R(?P<number>\d+)(?P<reuse>\.reuse)?")

# Other instructions carry labels too (a MOV of a return address), but only these go there.
_TAKE_TARGET = frozenset({"BRA", "JMP", "BSSY", "WARPSYNC", "CALL"})
_JUMPS = frozenset({"BRA", "JMP"})
# Control never falls through these, unless they are predicated.
_ENDS = frozenset({"BRA", "JMP", "BRX", "JMX", "EXIT", "RET"})

# An outer loop repeats an inner one plus copies that were peeled off it (prologue, drain) and an epilogue:
# three more copies at most. With less than this share in the inner loop, the outer body is the real work.
_INNER_SHARE = 0.25


class SourceLine(NamedTuple):
    """A line of a source file, counted from 1."""

    file: str
    line: int


@dataclass(frozen=True)
class Instruction:
    """One machine instruction.

    `address` is the byte offset in its function, `predicate` is "" or such as "@!P0", `opcode` keeps its
    modifiers ("LDG.E.128.CONSTANT"), and `target` is the address that a branch names, where it is known.
    """

    address: int
    predicate: str
    opcode: str
    operands: tuple[str, ...]
    target: int | None = None

    @property
    def base(self) -> str:
        """The opcode without modifiers: "LDG" of "LDG.E.128.CONSTANT"."""
        return self.opcode.partition(".")[0]

    @property
    def modifiers(self) -> tuple[str, ...]:
        """The modifiers of the opcode, in order: ("E", "128", "CONSTANT") of "LDG.E.128.CONSTANT"."""
        return tuple(self.opcode.split(".")[1:])

    @property
    def never_executes(self) -> bool:
        """Whether it is predicated off for good: padding that costs its issue slot and does nothing.

        The assembler puts `@!PT LDS RZ, [RZ]` in front of LDGSTS; nobody should count it as a load.
        """
        return self.predicate in ("@!PT", "@!UPT")

    @property
    def access_bytes(self) -> int:
        """Bytes a thread moves by this load or store, from its modifiers (4 where none says otherwise)."""
        widths = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16, "256": 32}
        return next((widths[modifier] for modifier in self.modifiers if modifier in widths), 4)

    def matches(self, opcode: str) -> bool:
        """Whether the base is that of `opcode` and every modifier of `opcode` is present, in any order.

        "LDG.128" matches "LDG.E.128.CONSTANT" and not "LDG.E.64"; "LDG" matches no LDGSTS.
        """
        base, *modifiers = opcode.split(".")
        return base == self.base and set(modifiers) <= set(self.modifiers)


class LoopStatistics(TypedDict):
    """What `Loop.to_dict` returns; the fields are described at the properties of `Loop`."""

    instructions: int
    ffma: int
    ffma_share: float
    operand_fetches_per_ffma: float
    bank_triples: int
    barriers: int
    mix: dict[str, int]


@dataclass(frozen=True)
class Loop:
    """The instructions of one loop, in address order.

    Figures count instructions as they stand: per warp and trip through the loop, where it has no inner loops.
    """

    body: tuple[Instruction, ...]

    @property
    def start(self) -> int:
        """Address of the first instruction."""
        return self.body[0].address

    @property
    def end(self) -> int:
        """Address of the last instruction, the branch back to `start`."""
        return self.body[-1].address

    @property
    def instructions(self) -> int:
        """Number of instructions: issue slots."""
        return len(self.body)

    @property
    def ffma(self) -> int:
        """Number of FFMA instructions (a packed FFMA2 is none: see `mix`)."""
        return _ffmas(self.body)

    @property
    def ffma_share(self) -> float:
        """FFMA / instructions: at most this fraction of FP32 peak can be issued."""
        return self.ffma / self.instructions

    @property
    def operand_fetches_per_ffma(self) -> float:
        """Registers read from the register file per FFMA: 3 less what the operand cache (`.reuse`) holds."""
        return sum(len(fetched) for fetched in _fetches(self.body)) / max(self.ffma, 1)

    @property
    def bank_triples(self) -> int:
        """FFMAs that fetch three registers of one parity: a register file with two banks stalls on them."""
        triples = (fetched for fetched in _fetches(self.body) if len(fetched) == 3)
        return sum(len({register % 2 for register in triple}) == 1 for triple in triples)

    @property
    def barriers(self) -> int:
        """Number of block-wide barriers (BAR)."""
        return len(select(self.body, "BAR"))

    @property
    def mix(self) -> dict[str, int]:
        """Instructions by opcode, most frequent first; padding that never executes as "@!PT LDS"."""
        names = (f"@!PT {i.opcode}" if i.never_executes else i.opcode for i in self.body)
        return dict(sorted(Counter(names).items(), key=lambda item: (-item[1], item[0])))

    def per_ffma(self, opcode: str) -> float:
        """Instructions that match `opcode` (as in `Instruction.matches`) per FFMA."""
        return len(select(self.body, opcode)) / max(self.ffma, 1)

    def to_dict(self) -> LoopStatistics:
        """The figures as plain data, ready for JSON."""
        return {
            "instructions": self.instructions,
            "ffma": self.ffma,
            "ffma_share": self.ffma_share,
            "operand_fetches_per_ffma": self.operand_fetches_per_ffma,
            "bank_triples": self.bank_triples,
            "barriers": self.barriers,
            "mix": self.mix,
        }


def parse(text: str) -> list[Instruction]:
    """Instructions of one function, in address order.

    Reads the output of `nvdisasm` (labels are resolved to addresses) and of `cuobjdump -sass`.

    Raises:
        ValueError: when the text holds no instruction, or more than one function (addresses start again).

    """
    labels: dict[str, int] = {}
    pending: list[str] = []
    lines: list[tuple[int, str]] = []
    for line in text.splitlines():
        if label := _LABEL.match(line):
            pending.append(label["label"])
        elif found := _INSTRUCTION.match(line):
            address = int(found["address"], 16)
            if lines and address <= lines[-1][0]:
                raise ValueError(
                    f"address {address:#x} follows {lines[-1][0]:#x}: the text holds more than one function"
                )
            labels.update(dict.fromkeys(pending, address))
            pending.clear()
            lines.append((address, found["text"]))
    if not lines:
        raise ValueError(f"no machine instruction in {len(text)} characters of text: is it a disassembly?")
    return [_instruction(address, code, labels) for address, code in lines]


def source_lines(text: str) -> dict[int, SourceLine]:
    """The source line of each address of one function, where the disassembly has line information.

    Reads the output of `nvdisasm --print-line-info`: a line of source holds until the next one is named. Numba gives
    what it inlines the line of the call.
    """
    lines: dict[int, SourceLine] = {}
    current: SourceLine | None = None
    for line in text.splitlines():
        if source := _SOURCE.match(line):
            current = SourceLine(source["file"], int(source["line"]))
        elif current and (found := _INSTRUCTION.match(line)):
            lines[int(found["address"], 16)] = current
    return lines


def select(instructions: Iterable[Instruction], opcode: str) -> list[Instruction]:
    """Instructions that match `opcode` ("STS.128", "BAR.SYNC") and can execute."""
    return [i for i in instructions if i.matches(opcode) and not i.never_executes]


def count(instructions: Iterable[Instruction], prefix_regex: str) -> int:
    """Number of instructions that can execute and whose opcode starts with a match of `prefix_regex`."""
    prefix = re.compile(prefix_regex)
    return sum(prefix.match(i.opcode) is not None and not i.never_executes for i in instructions)


def main_loop(instructions: Sequence[Instruction]) -> Loop:
    """The loop that does the arithmetic: of the innermost loops the one with the most FFMAs.

    Remainder loops lose by count, and an outer loop (over k tiles, over output tiles) yields to the loop
    inside it even where it holds peeled copies of the inner body as well. Where the work is spread over many
    inner loops, each with a small share, the loop around them is returned: a register tile that was not
    unrolled shows that way. Cold blocks that the compiler moved out of line are left out.

    Raises:
        ValueError: when no loop contains an FFMA.

    """
    loops = [Loop(body) for body in _loop_bodies(instructions) if _ffmas(body)]
    innermost = [loop for loop in loops if not any(_repeats(loop, inner) for inner in loops)]
    if not innermost:
        raise ValueError(
            f"no loop with an FFMA among {len(instructions)} instructions ({_ffmas(instructions)} FFMAs outside loops)"
        )
    return min(innermost, key=lambda loop: (-loop.ffma, loop.instructions, loop.start))


def _instruction(address: int, text: str, labels: dict[str, int]) -> Instruction:
    predicated = _PREDICATED.match(text)
    predicate, rest = (predicated["predicate"], predicated["rest"]) if predicated else ("", text)
    opcode, _, arguments = rest.partition(" ")
    operands = _split_operands(arguments)
    takes_target = opcode.partition(".")[0] in _TAKE_TARGET
    return Instruction(address, predicate, opcode, operands, _target(operands, labels) if takes_target else None)


def _split_operands(text: str) -> tuple[str, ...]:
    operands, depth, current = [], 0, ""
    for character in text:
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            operands.append(current.strip())
            current = ""
        else:
            current += character
    operands.append(current.strip())
    return tuple(operand for operand in operands if operand)


def _target(operands: tuple[str, ...], labels: dict[str, int]) -> int | None:
    """The address that the last operand names: nvdisasm writes a label there, cuobjdump the address."""
    if not operands:
        return None
    if label := _LABEL_OPERAND.match(operands[-1]):
        return labels.get(label["label"])
    return int(operands[-1], 16) if _ADDRESS_OPERAND.match(operands[-1]) else None


def _ffmas(instructions: Iterable[Instruction]) -> int:
    return len(select(instructions, "FFMA"))


def _repeats(outer: Loop, inner: Loop) -> bool:
    """Whether `outer` contains `inner` and little arithmetic of its own."""
    encloses = outer.start <= inner.start and inner.end <= outer.end and outer != inner
    return encloses and inner.ffma >= _INNER_SHARE * outer.ffma


def _fetches(body: Iterable[Instruction]) -> list[set[int]]:
    """Registers that each FFMA reads from the register file.

    A source slot keeps its register for the next instruction where `.reuse` says so. Only runs of FFMAs are
    modelled: anything between them is taken to clear the slots, which overstates the fetches a little.
    """
    fetches: list[set[int]] = []
    held: dict[int, int] = {}
    for instruction in body:
        kept: dict[int, int] = {}
        if instruction.base == "FFMA":
            fetched = set()
            for slot, operand in enumerate(instruction.operands[1:4]):
                if source := _REGISTER.match(operand):
                    register = int(source["number"])
                    if held.get(slot) != register:
                        fetched.add(register)
                    if source["reuse"]:
                        kept[slot] = register
            fetches.append(fetched)
        held = kept
    return fetches


@dataclass
class _Block:
    """A basic block: instructions [first, last] by index, and the blocks that may follow."""

    first: int
    last: int
    successors: list[int]


def _loop_bodies(code: Sequence[Instruction]) -> list[tuple[Instruction, ...]]:
    """Bodies of the natural loops, one for every branch back to a block that dominates it.

    A backward branch alone is no proof of a loop: code moved out of line to the end of the function
    branches back too, into the middle of whatever it came from.
    """
    blocks = _basic_blocks(code)
    dominators = _dominators(blocks)
    bodies = []
    for source, block in enumerate(blocks):
        jumps = code[block.last].base in _JUMPS
        for header in block.successors:
            if jumps and header <= source and header in dominators.get(source, ()):
                # Blocks beyond the branch back belong to the loop only as cold paths.
                members = [b for b in _reaching(blocks, source, header) if header <= b <= source]
                bodies.append(tuple(i for b in members for i in code[blocks[b].first : blocks[b].last + 1]))
    return bodies


def _basic_blocks(code: Sequence[Instruction]) -> list[_Block]:
    position = {instruction.address: index for index, instruction in enumerate(code)}
    # A CALL inside the function counts too: ptxas leaves a long loop by `@!P0 CALL.REL.NOINC exit`.
    edges = {index: position[i.target] for index, i in enumerate(code) if i.target in position}
    afters = {index + 1 for index, i in enumerate(code) if i.base in _ENDS or index in edges}
    leaders = {0, *edges.values(), *afters}
    firsts = sorted(leader for leader in leaders if leader < len(code))
    number = {first: b for b, first in enumerate(firsts)}
    blocks = []
    for b, first in enumerate(firsts):
        last = firsts[b + 1] - 1 if b + 1 < len(firsts) else len(code) - 1
        successors = [b + 1] if b + 1 < len(firsts) and _falls_through(code[last]) else []
        if last in edges:
            successors.append(number[edges[last]])
        blocks.append(_Block(first, last, successors))
    return blocks


def _falls_through(instruction: Instruction) -> bool:
    if instruction.base not in _ENDS or instruction.predicate:
        return True
    # `BRA.U UP0, target` and `BRA P0, target` carry their condition as an operand.
    return instruction.base in _JUMPS and len(instruction.operands) > 1


def _dominators(blocks: Sequence[_Block]) -> dict[int, set[int]]:
    """For every reachable block, the blocks on all paths to it from the entry (itself included)."""
    reachable = {0}
    frontier = [0]
    while frontier:
        new = set(blocks[frontier.pop()].successors) - reachable
        reachable |= new
        frontier.extend(new)
    predecessors = _predecessors(blocks)
    dominators = {b: set(reachable) for b in reachable}
    dominators[0] = {0}
    changed = True
    while changed:
        changed = False
        for b in sorted(reachable - {0}):
            common = set.intersection(*(dominators[p] for p in predecessors[b] & reachable)) | {b}
            if common != dominators[b]:
                dominators[b], changed = common, True
    return dominators


def _reaching(blocks: Sequence[_Block], source: int, header: int) -> list[int]:
    """The blocks that reach `source` without passing `header`, and `header`: a loop, in address order."""
    predecessors = _predecessors(blocks)
    members = {header, source}
    frontier = [source]
    while frontier:
        b = frontier.pop()
        new = predecessors[b] - members if b != header else set()
        members |= new
        frontier.extend(new)
    return sorted(members)


def _predecessors(blocks: Sequence[_Block]) -> list[set[int]]:
    predecessors: list[set[int]] = [set() for _ in blocks]
    for b, block in enumerate(blocks):
        for successor in block.successors:
            predecessors[successor].add(b)
    return predecessors
