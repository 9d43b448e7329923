"""Write the tables of the README and of `benchmarks/README.md` from stored benchmark results.

`python -m benchmarks.report [--check]` in a checkout. Tables stand between markers such as
`<!-- ladder: generated -->` and `<!-- end -->`; with `--check` nothing is written and the exit status is 1 if
a page does not show the stored results. A section that nothing was measured for says so.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import choices
from notes.make.evidence import read_json, stored_benchmarks
from notes.make.generated import write_or_check
from numba_gemm import ladder
from numba_gemm.bench.suite import Shape, microseconds, written
from numba_gemm.bench.summary import Summary, summarise
from numba_gemm.plots.results import BENCHMARKS

README, DETAILS = Path("README.md"), Path("benchmarks/README.md")

#: The shapes of the suite that the README shows, by what each is hard on.
TELLING: dict[Shape, str] = {
    (1, 4096, 4096): "one row: bound by memory",
    (1024, 1024, 1024): "few tiles for the multiprocessors",
    (1023, 1025, 1021): "ragged, no row aligned",
    (4096, 4096, 4096): "large and even",
    (2048, 14336, 4096): "a layer of Llama-3-8B",
    (128, 128, 65536): "a long K",
}

Result = dict[str, Any]


def main(arguments: list[str]) -> int:
    stored = load(Path())
    statuses = [
        write_or_check(
            page,
            render(page, page.read_text(encoding="utf-8"), stored),
            arguments,
            f"{page} does not show {BENCHMARKS}: run python -m benchmarks.report",
        )
        for page in PAGES
    ]
    return max(statuses)


def load(root: Path) -> dict[str, Any]:
    """What pytest-benchmark stored in a checkout, and under "candidates" what `benchmarks/candidates.py` did."""
    return {**stored_benchmarks(root), "candidates": read_json(root / choices.RESULTS)}


def render(page: Path, text: str, stored: dict[str, Any]) -> str:
    """The text of a page with every generated section filled in from the results.

    Raises:
        ValueError: if it lacks the markers of a section, or has those of a section that is not its own.
    """
    for name, table in PAGES[page].items():
        pattern = re.compile(rf"(<!-- {name}: generated -->\n).*?(<!-- end -->)", re.DOTALL)
        if not pattern.search(text):
            raise ValueError(f"{page} has no section between <!-- {name}: generated --> and <!-- end -->")
        text = pattern.sub(lambda match, table=table: match[1] + table(stored) + match[2], text)  # type: ignore[misc]
    for name in re.findall(r"<!-- ([^>]*): generated -->", text):
        if name not in PAGES[page]:
            raise ValueError(f"{page}: nothing generates {name!r}; there are {', '.join(PAGES[page])}")
    return text


def _results(stored: dict[str, Any], group: str) -> list[Result]:
    """Results of a group, with the median time in seconds among them."""
    return [
        {**benchmark["extra_info"], "seconds": benchmark["stats"]["median"], "rounds": benchmark["stats"]["rounds"]}
        for benchmark in stored["benchmarks"]
        if benchmark["group"] == group
    ]


def _table(header: list[str], rows: list[list[str]], texts: int = 2) -> str:
    """The first columns are texts, the rest is numbers."""
    alignments = ["---"] * texts + ["---:"] * (len(header) - texts)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (header, alignments, *rows))


def _headline(stored: dict[str, Any]) -> str:
    """In one sentence each, how far the fastest rung is from cuBLAS, and how far `"auto"`."""
    results = _results(stored, "ladder")
    largest = max(result["m"] for result in results)
    rungs = [result for result in results if result["m"] == largest and ladder.find(result["version"]).number]
    best = max(rungs, key=lambda result: result["vs_baseline"])
    text = (
        f"On an {stored['machine_info']['gpu']}, rung {ladder.find(best['version']).number} takes "
        f"{best['seconds'] * 1e3:.2f} ms for a product of {largest}³, {best['vs_baseline']:.2f} times as fast as "
        "cuBLAS in plain FP32"
    )
    over = _over_the_suite(_results(stored, "suite"), "cold")
    if over:
        text += (
            f';\n`version="auto"` is {over.geometric_mean:.2f} times as fast in the geometric mean of {over.shapes} '
            f"shapes, and {over.worst:.2f} times at worst ({written(over.worst_at)}),\n"
            "all with a cold L2"
        )
    return f"{text}.\n"


def _ladder(stored: dict[str, Any]) -> str:
    results = _results(stored, "ladder")
    sizes = sorted({result["m"] for result in results})
    largest = sizes[-1]
    by = {(result["version"], result["m"]): result for result in results}
    header = ["rung", "what it teaches", f"ms at {largest}³", "TFLOP/s"]
    header += [f"× cuBLAS at {size}³" for size in sizes] + ["registers", "spilled bytes"]
    rows = []
    for version in ladder.VERSIONS:
        if any((version.name, size) not in by for size in sizes):
            continue
        result = by[version.name, largest]
        kernel = version.module.__name__.replace(".", "/")
        label = f"[`{version.name}`]({kernel}.py)"
        rows.append(
            [
                label if version.number is None else f"**{version.number}** {label}",
                version.summary,
                f"{result['seconds'] * 1e3:.2f}",
                f"{result['tflops']:.1f}",
                *[f"{by[version.name, size]['vs_baseline']:.2f}" for size in sizes],
                str(result["registers"]),
                str(result["local_bytes"]),
            ]
        )
    baseline = sorted(result["baseline_seconds"] for result in results if result["m"] == largest)
    median = baseline[len(baseline) // 2]
    rows.append(["cuBLAS", "the baseline, TF32 off", f"{median * 1e3:.2f}", f"{2 * largest**3 / median / 1e12:.1f}"])
    rows[-1] += ["1.00"] * len(sizes) + ["", ""]
    return _table(header, rows) + f"\n{_provenance(stored, results)}\n"


def _detours(stored: dict[str, Any]) -> str:
    """Those of the group of the ladder that were measured at its largest size only."""
    results = _results(stored, "ladder")
    sizes = {result["m"] for result in results}
    by = {(result["version"], result["m"]): result for result in results}
    rows = []
    for version in ladder.VERSIONS:
        result = by.get((version.name, max(sizes)))
        if version.number is not None or result is None or all((version.name, size) in by for size in sizes):
            continue
        rows.append(
            [
                f"`{version.name}`",
                version.summary,
                f"{result['seconds'] * 1e3:.2f}",
                f"{result['tflops']:.1f}",
                f"{result['vs_baseline']:.2f}",
                str(result["registers"]),
                str(result["local_bytes"]),
            ]
        )
    if not rows:
        return NOT_MEASURED
    header = ["detour", "what it changes", f"ms at {max(sizes)}³", "TFLOP/s", "× cuBLAS", "registers", "spilled bytes"]
    return _table(header, rows)


def _suite(stored: dict[str, Any]) -> str:
    results = _results(stored, "suite")
    if not results:
        return NOT_MEASURED
    header = ["M×N×K", "`auto` takes", "µs", "TFLOP/s", "% of FFMA", "GB/s", "× cuBLAS, cold L2", "warm L2"]
    rows = [
        [
            written(_shape(result)),
            f"{result['version']}, {', '.join(result['tile'].split(', ')[:2])}",
            microseconds(result["seconds"]),
            f"{result['tflops']:.1f}",
            f"{result['share_of_ffma_limit']:.0%}",
            f"{result['gigabytes_per_second']:.0f}",
            _ratio(result["vs_cublas_cold"]),
            _ratio(result["vs_cublas_warm"]),
        ]
        for result in results
    ]
    means, worsts = _summary_cells(results)
    shapes = f"of {len(results)} shapes"
    rows += [["geometric mean", shapes, *[""] * 4, *means], ["worst", shapes, *[""] * 4, *worsts]]
    return _table(header, rows) + _rates(stored) + _peers(results) + f"\n{_provenance(stored, results)}\n"


def _rates(stored: dict[str, Any]) -> str:
    """What to hold the GB/s against, where it was measured."""
    copied = [result["copy_bandwidth"] for result in _results(stored, "few rows")]
    return (
        "\nProducts with few rows are bound by memory: GB/s counts A, B and C once, where a copy on this card reaches "
        f"{max(copied) / 1e9:.0f} GB/s.\n"
        if copied
        else ""
    )


def _shapes(stored: dict[str, Any]) -> str:
    """Six shapes of the suite, and what came out over all of them."""
    results = _results(stored, "suite")
    if not results:
        return NOT_MEASURED
    by = {_shape(result): result for result in results}
    rows = [
        [
            why,
            written(shape),
            result["version"],
            microseconds(result["seconds"]),
            f"{result['tflops']:.1f}",
            _ratio(result["vs_cublas_cold"]),
            _ratio(result["vs_cublas_warm"]),
        ]
        for shape, why in TELLING.items()
        if (result := by.get(shape))
    ]
    means, worsts = _summary_cells(results)
    rows += [[f"all {len(results)} shapes", "geometric mean", *[""] * 3, *means], ["", "worst", *[""] * 3, *worsts]]
    header = ["", "M×N×K", "`auto` takes", "µs", "TFLOP/s", "× cuBLAS, cold L2", "warm L2"]
    return _table(header, rows, texts=3)


def _over_the_suite(results: list[Result], cache: str) -> Summary[Shape] | None:
    """The mean and the worst of the ratios to cuBLAS, with a "cold" or a "warm" L2."""
    ratio = f"vs_cublas_{cache}"
    return summarise({_shape(result): result[ratio] for result in results if result[ratio]})


def _summary_cells(results: list[Result]) -> tuple[list[str], list[str]]:
    """The mean with a cold and a warm L2, and the worst."""
    means, worsts = [], []
    for cache in ("cold", "warm"):
        summary = _over_the_suite(results, cache)
        means.append(f"**{summary.geometric_mean:.2f}**" if summary else "")
        worsts.append(f"**{summary.worst:.2f}** at {written(summary.worst_at)}" if summary else "")
    return means, worsts


def _choices(stored: dict[str, Any]) -> str:
    names = {"fitted": "that the model is fitted to", "held-out": "others"}
    rows = []
    for name, measured in stored["candidates"].items():
        judged = choices.judge(measured)
        pytorch = summarise({one.key: one.vs_pytorch for one in judged})
        fastest = summarise({one.key: one.vs_fastest for one in judged})
        if pytorch and fastest:
            rows.append(
                [
                    f"{pytorch.shapes} {names[name]}",
                    f"{pytorch.geometric_mean:.2f}",
                    f"{pytorch.worst:.2f} at {pytorch.worst_at}",
                    f"{1 / fastest.geometric_mean:.2f}",
                    f"{1 / fastest.worst:.2f} at {fastest.worst_at}",
                ]
            )
    header = ["products", "× PyTorch, mean", "worst", "time over the fastest candidate's, mean", "worst"]
    return _table(header, rows, texts=1)


def _peers(results: list[Result]) -> str:
    """Those besides cuBLAS, and versions besides "auto", where they were measured."""
    rows = []
    for result in results:
        for other in result["others"]:
            if other["name"] == result["baseline"] or other["cold"] is None:
                continue
            cells = [f"{other['cold'] * 1e3:.2f}", f"{other['tflops']:.1f}", _ratio(other["vs_cublas_cold"])]
            label = f"{other['name']} {other['version']}" if other["peer"] else f"version {other['name']}"
            rows.append([label, written(_shape(result)), *cells])
    return "\n" + _table(["besides", "M×N×K", "ms", "TFLOP/s", "× cuBLAS"], rows) if rows else ""


def _shape(result: Result) -> Shape:
    return result["m"], result["n"], result["k"]


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _epilogues(stored: dict[str, Any]) -> str:
    results = _results(stored, "epilogues")
    if not results:
        return NOT_MEASURED
    rows = [
        [
            result["epilogue"],
            written(_shape(result)),
            f"{result['baseline_seconds'] * 1e3:.3g}",
            f"{result['seconds'] * 1e3:.3g}",
            f"{result['seconds'] / result['baseline_seconds'] - 1:+.1%}",
        ]
        for result in results
    ]
    return _table(["epilogue", "M×N×K", "ms without", "ms with", "cost"], rows)


def _pipeline(stored: dict[str, Any]) -> str:
    results = _results(stored, "pipeline")
    by = {result["tile"]: result for result in results}
    tile = ladder.find("cp_async").default_tile
    depths = sorted({(result["bk"], result["stages"]) for result in results})
    stages = sorted({stage for _, stage in depths})
    rows = []
    for bk in sorted({bk for bk, _ in depths}):
        row = [f"BK = {bk}", f"{(tile.bm + tile.bn) * bk * 4 // 1024} KB a stage"]
        for stage in stages:
            result = next(r for r in by.values() if (r["bk"], r["stages"]) == (bk, stage))
            row.append(f"{result['vs_baseline']:.2f}")
        rows.append(row)
    return _table(["", "shared memory", *[f"S = {stage}" for stage in stages]], rows)


def _boundary(stored: dict[str, Any]) -> str:
    rows = []
    for group in ("ragged", "edges", "fusion"):
        for result in _results(stored, group):
            candidate = result.get("candidate", "rung 6")
            rows.append(
                [
                    f"{result['m']}×{result['n']}×{result['k']}",
                    f"{candidate} against {result['baseline']}",
                    f"{result['seconds'] * 1e3:.3g}",
                    f"{result['baseline_seconds'] * 1e3:.3g}",
                    f"{result['vs_baseline']:.2f}",
                ]
            )
    return _table(["M×N×K", "what", "ms", "baseline ms", "times as fast"], rows)


def _host_time(stored: dict[str, Any]) -> str:
    results = _results(stored, "host time")
    names = {
        "launch": "the kernel's launch alone, prepared",
        "plan": "`p = plan(…)`, then `p(a, b, c)`",
        "sgemm": "`sgemm(a, b, c)`",
        "sgemm, bias": "`sgemm(a, b, c, bias=bias)`",
        "sgemm, no c": "`sgemm(a, b)`",
        "torch.mm": "`torch.mm(a, b, out=c)`",
    }
    rows = [
        [names[result["call"]], f"{result['seconds_per_call'] * 1e6:.1f}", f"{result['vs_baseline']:.2f}"]
        for result in results
    ]
    return _table(["call with PyTorch tensors", "µs of host time", "times as fast as `torch.mm`"], rows, texts=1)


def _provenance(stored: dict[str, Any], results: list[Result]) -> str:
    machine = stored["machine_info"]
    packages = machine["packages"]
    named = ["numba", "numba-cuda", "nvidia-nvjitlink", "nvidia-cuda-nvrtc", "nvidia-cublas"]
    versions = ", ".join(f"{name} {packages[name]}" for name in named if name in packages)
    return (
        f"{machine['gpu']}, driver for CUDA {machine['cuda_driver']}, {stored['datetime'][:10]}; {versions}. "
        f"Medians of {results[0]['rounds']} rounds with a cold L2; each round runs a version and cuBLAS in turn, and "
        "the ratio is of their medians in the same rounds."
    )


NOT_MEASURED = "Not measured yet.\n"
Section = Callable[[dict[str, Any]], str]
#: What is generated on each page: sections by the name in their marker.
PAGES: dict[Path, dict[str, Section]] = {
    README: {
        "headline": _headline,
        "ladder": _ladder,
        "shapes": _shapes,
    },
    DETAILS: {
        "suite": _suite,
        "detours": _detours,
        "pipeline": _pipeline,
        "boundary": _boundary,
        "epilogues": _epilogues,
        "host time": _host_time,
        "choices": _choices,
    },
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
