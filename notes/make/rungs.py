"""The generated regions of the pages on rungs: prediction, code, machine code, measurement."""

from __future__ import annotations

import ast
from pathlib import Path

from notes.make.evidence import SIZE
from notes.make.facts import ARCH, Facts, find
from notes.make.regions import table
from numba_gemm import ladder
from numba_gemm.analysis.code.machine_code import ARCHITECTURES
from numba_gemm.analysis.code.new_lines import new_lines
from numba_gemm.analysis.models.bounds import volume
from numba_gemm.analysis.models.explain import duration
from numba_gemm.ladder import Version

KERNELS = Path("numba_gemm/kernels")
#: Kinds of instructions that a row of the mix names; the rest is counted together.
SHOWN = 8


def reading_order(facts: Facts) -> str:
    """The rungs with links to their pages and files, and how far each is from the baseline."""
    rows = []
    for version in ladder.RUNGS:
        found = facts.measured(version.name)
        rows.append(
            [
                f"[{version.number}. `{version.name}`]({page_name(version)})",
                version.summary,
                f"[{source(version).name}](../{source(version)})",
                f"{found['seconds'] * 1e3:.2f}" if found else "not yet",
                f"{found['vs_baseline']:.2f}" if found else "not yet",
            ]
        )
    return table(["rung", "what it teaches", "file", f"ms at {SIZE}³", "× cuBLAS"], rows, left=3)


def page_name(version: Version) -> str:
    """The file of a rung's page in `notes/`."""
    return f"rung{version.number}_{version.name}.md"


def source(version: Version) -> Path:
    """The file of a version's kernel, from the repository."""
    return Path(version.module.__name__.replace(".", "/")).with_suffix(".py")


def prediction(facts: Facts, version: str) -> str:
    """What `explain` says before anything is run."""
    found = facts.explanation(version)
    limits, grid, expected = found.occupancy, found.waves, found.prediction
    rows = [
        ["tile", str(found.tile)],
        ["reads of A and B", f"{volume(found.logical_global_bytes)}, {found.global_intensity:.3g} FLOP a byte"],
        ["registers a thread, estimated", str(found.registers)],
        ["shared memory a block", f"{found.shared_bytes} bytes"],
        [
            "a multiprocessor has",
            f"{limits.blocks_per_sm} blocks, {limits.warps_per_sm} warps: occupancy {limits.occupancy:.1%}, "
            f"limited by {' and '.join(limits.limiters)}",
        ],
        [
            "the grid",
            f"{grid.blocks} blocks in {grid.waves:.3g} waves, {grid.wave_efficiency:.1%} of their slots taken",
        ],
        ["time if everything overlaps", duration(expected.optimistic_s)],
        ["time if nothing overlaps that the kernel does not overlap itself", duration(expected.pessimistic_s)],
        ["**predicted**, between the two", f"**{duration(expected.predicted_s)}**"],
    ]
    command = f"numba-gemm explain {version} {SIZE} {SIZE} {SIZE} --device {facts.device.name}"
    return f"`{command}`:\n\n" + table(["", f"at {SIZE}³ on {facts.device.name}"], rows, left=2)


def bottlenecks(facts: Facts, version: str) -> str:
    """The bounds, the largest first."""
    found = facts.explanation(version)
    rows = [[b.name, duration(b.least_s), duration(b.most_s), b.why] for b in found.bottlenecks]
    header = ["bound", "at best", "at worst", "from"]
    return table(header, rows, left=4) + f"\n{found.next}\n"


def code(root: Path, version: str) -> str:
    """Links to the new lines of a rung; the whole kernel of one that has none."""
    path = source(find(version))
    lines = new_lines(root / path)
    if not lines:
        return _kernel(root, path)
    items = [
        f"- [line {line.number}](../{path}#L{line.number}): `{line.code.rstrip(':')}`"
        + (f": {line.why}" if line.why else "")
        for line in lines
    ]
    return "\n".join(items)


def _kernel(root: Path, path: Path) -> str:
    """The source of the innermost function of a file that is made by `cuda.jit`."""
    text = (root / path).read_text(encoding="utf-8")
    found = next(
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and any("jit" in ast.unparse(mark) for mark in node.decorator_list)
    )
    lines = text.splitlines()[found.lineno - 1 : found.end_lineno]
    indent = len(lines[0]) - len(lines[0].lstrip())
    body = "\n".join(line[indent:] for line in lines)
    place = f"[{path.name}, lines {found.lineno} to {found.end_lineno}](../{path}#L{found.lineno})"
    return f"{place}:\n\n```python\n{body}\n```"


def machine_code(facts: Facts, version: str) -> str:
    """Registers, spills and the main loop on the architecture of the results, and in short on all others."""
    found = facts.inspection(version)
    loop = found["loop"]
    spilled = found["spill_store_bytes"] + found["spill_load_bytes"]
    mix = list(loop["mix"].items())
    named = ", ".join(f"{count} {opcode}" for opcode, count in mix[:SHOWN])
    others = sum(count for _, count in mix[SHOWN:])
    rows = [
        ["registers a thread", str(found["registers"])],
        ["bytes spilled a thread (stored and loaded)", str(spilled)],
        ["main loop", f"{loop['instructions']} instructions, {loop['ffma']} of them FFMA ({loop['ffma_share']:.1%})"],
        ["its instructions", named + (f", {others} others" if others else "")],
        ["barriers in it", str(loop["barriers"])],
        ["registers fetched for each FFMA", f"{loop['operand_fetches_per_ffma']:.2f}"],
        ["FFMAs that want three registers of one bank", str(loop["bank_triples"])],
    ]
    command = f"numba-gemm inspect {version} --arch {ARCH} --loop"
    toolkit = facts.machine_code["toolkit"]
    return f"`{command}`, toolkit {toolkit}:\n\n{table(['', ARCH], rows, left=2)}\n{_architectures(facts, version)}"


def _architectures(facts: Facts, version: str) -> str:
    possible = [arch for arch in ARCHITECTURES if _capability(arch) >= find(version).min_cc]
    found = [facts.inspection(version, arch) for arch in possible]
    rows = [
        ["registers", *(str(entry["registers"]) for entry in found)],
        ["bytes spilled", *(str(entry["spill_store_bytes"] + entry["spill_load_bytes"]) for entry in found)],
        ["share of FFMA in the main loop", *(f"{entry['loop']['ffma_share']:.1%}" for entry in found)],
    ]
    return table(["", *possible], rows)


def _capability(arch: str) -> tuple[int, int]:
    return divmod(int(arch.removeprefix("sm_")), 10)


def measurement(facts: Facts, version: str) -> str:
    """The stored times of a rung, next to the baseline, the rung before and the prediction."""
    rung = find(version)
    rows = [_measured(facts, rung, size) for size in facts.sizes if facts.measured(version, size)]
    if not rows:
        return "Nothing is stored for this rung yet: `make bench` on a machine with a GPU, then `python -m notes.make`."
    header = ["M = N = K", "time", "TFLOP/s", "× cuBLAS", "× the rung before", "predicted range", ""]
    machine, date = facts.results["machine_info"], facts.results["datetime"][:10]
    return f"{machine['gpu']}, {date}, medians with a cold L2:\n\n{table(header, rows)}"


def _measured(facts: Facts, rung: Version, size: int) -> list[str]:
    found, expected = facts.measured(rung.name, size), facts.explanation(rung.name, size).prediction
    assert found is not None
    before = next((v for v in ladder.RUNGS if rung.number is not None and v.number == rung.number - 1), None)
    compared = facts.measured(before.name, size) if before else None
    inside = expected.optimistic_s <= found["seconds"] <= expected.pessimistic_s
    return [
        str(size),
        duration(found["seconds"]),
        f"{found['tflops']:.1f}",
        f"{found['vs_baseline']:.2f}",
        f"{compared['seconds'] / found['seconds']:.2f}" if compared else "",
        f"{duration(expected.optimistic_s)} … {duration(expected.pessimistic_s)}",
        "inside" if inside else "outside",
    ]
