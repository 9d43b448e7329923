"""The rules for those of the `claims` that a sweep decides, or counters of the hardware: what has to be seen in them.

Each says in its docstring when the claim holds; the groups are those of the benchmarks.
"""

from __future__ import annotations

from collections.abc import Callable

from notes.make.evidence import SIZE, Evidence, Row
from notes.make.verdict import UNKNOWN, Judge, Verdict, outcome

# Sweeps ----------------------------------------------------------------------------------------------------

#: A time that is longer by less than this counts as the same.
NEARLY = 0.05


def missing_group(name: str) -> Verdict:
    return Verdict(UNKNOWN, f"needs the benchmarks of the group `{name}`")


def a_quarter_of_the_warps(evidence: Evidence) -> Verdict:
    """With a quarter, kernels of independent FFMA are as fast as with any number of warps; one with a single sum not.

    Of 8×8 outputs a thread no more than a quarter fits into the registers, so what more warps would do is only known of
    the smaller thread tile.
    """
    by_outputs: dict[int, dict[float, float]] = {}
    for extra, seconds in evidence.rows("occupancy"):
        by_outputs.setdefault(extra["outputs"], {})[extra["occupancy"]] = seconds
    if not by_outputs or any(0.25 not in times for times in by_outputs.values()):
        return missing_group("occupancy")
    conditions, figures = [], []
    for outputs, times in sorted(by_outputs.items(), reverse=True):
        enough = times[0.25] <= (1 + NEARLY) * min(times.values())
        conditions.append(enough == (outputs > 1))
        warps = ", ".join(f"{share:.1%} {times[0.25] / seconds:.2f}" for share, seconds in sorted(times.items()))
        figures.append(f"{outputs} sums a thread: {warps}")
    beyond = [str(outputs) for outputs, times in by_outputs.items() if max(times) <= 0.25]
    untested = f"; with {', '.join(beyond)} sums more warps do not fit the registers" if beyond else ""
    return Verdict(outcome(conditions), f"rate by occupancy, 1 at 25 %: {'; '.join(figures)}{untested}")


def partial_wave(evidence: Evidence) -> Verdict:
    """At 4.74 waves, as the sources count at 4096³ on their GPU, half to twice of 5 % is lost against whole waves."""
    by_version: dict[str, list[Row]] = {}
    for row in evidence.rows("waves"):
        by_version.setdefault(row.extra["version"], []).append(row)
    if not by_version or any(len(rows) == 1 for rows in by_version.values()):
        return missing_group("waves")
    conditions, figures = [], []
    for version, rows in by_version.items():
        rows.sort(key=lambda row: float(row.extra["waves"]))
        whole = rows[0]  # the sweep begins with whole waves
        lost = {float(row.extra["waves"]): 1 - row.rate / whole.rate for row in rows[1:]}
        like_the_sources = min(lost, key=lambda waves: abs(waves - 4.74))
        conditions.append(0.025 <= lost[like_the_sources] <= 0.10)
        expected = {float(row.extra["waves"]): 1 - float(row.extra["wave_efficiency"]) for row in rows}
        steps = ", ".join(f"{waves:.2f} {share:.1%} ({expected[waves]:.1%})" for waves, share in lost.items())
        figures.append(f"`{version}` {steps}")
    return Verdict(
        outcome(conditions),
        "lost against 4 whole waves, by waves (by the model of equally long blocks): " + "; ".join(figures),
    )


def split_k_at_few_rows(evidence: Evidence) -> Verdict:
    """Both ways of adding up the parts are faster than a version that has no parts, with the same tile."""
    found = {row.extra["version"]: row for row in evidence.rows("split-k")}
    names = ("warp_tiled", "split_k", "split_k_atomic")
    if any(name not in found for name in names):
        return missing_group("split-k")
    plain, *split = (found[name].seconds for name in names)
    figures = ", ".join(f"`{name}` {1e6 * found[name].seconds:.3g} µs" for name in names)
    return Verdict(outcome(seconds < plain for seconds in split), f"{figures} at {found['split_k'].shape}")


def few_rows(evidence: Evidence) -> Verdict:
    """One row reaches 80 % of the bandwidth of a copy; more, below the ridge, take at most a tenth longer."""
    best: dict[str, dict[int, Row]] = {}
    for group in ("batch growth", "batch growth, auto"):
        for row in evidence.rows(group):
            times = best.setdefault(row.extra["weights"], {})
            m = row.extra["m"]
            if m not in times or row.seconds < times[m].seconds:
                times[m] = row
    if not best or any(1 not in rows for rows in best.values()):
        return missing_group("batch growth")
    conditions, figures = [], []
    for weights, rows in best.items():
        one = rows[1]
        bandwidth, ridge = float(one.extra["of_copy"]), float(one.extra["ridge_rows"])
        growth = {m: row.seconds / one.seconds for m, row in sorted(rows.items()) if 1 < m <= ridge}
        if not growth:
            return missing_group("batch growth")
        conditions += [bandwidth >= 0.8, all(times <= 1.1 for times in growth.values())]
        steps = ", ".join(f"{m} rows {times:.2f}" for m, times in growth.items())
        figures.append(
            f"weights {weights}: {bandwidth:.0%} of the bandwidth of a copy at one row, and of its time {steps}; "
            f"the ridge is at {ridge:.0f}"
        )
    return Verdict(outcome(conditions), "; ".join(figures))


def clearing_the_l2(evidence: Evidence) -> Verdict:
    """A warm L2 makes a launch faster by more than 5 % at 1024³, by less at 4096³."""
    found = evidence.rows("L2")
    if {row.extra["m"] for row in found} != {1024, SIZE}:
        return missing_group("L2")
    gains = {
        (name, row.extra["m"]): float(row.extra["cold_seconds"][name]) / float(row.extra["warm_seconds"][name]) - 1
        for row in found
        for name in row.extra["cold_seconds"]
    }
    return Verdict(
        outcome((gain > NEARLY) == (size == 1024) for (_, size), gain in gains.items()),
        "longer with a cleared L2: "
        + ", ".join(f"{name} at {size}³ {gain:.1%}" for (name, size), gain in gains.items()),
    )


# Counters --------------------------------------------------------------------------------------------------


def counted(*versions: str) -> Callable[[Callable[..., Verdict]], Judge]:
    """A judge that gets the counters of these versions, and is not asked before all are stored."""

    def of_counters(judge: Callable[..., Verdict]) -> Judge:
        def asked(evidence: Evidence) -> Verdict:
            missing = [version for version in versions if version not in evidence.counters]
            if missing:
                names = ", ".join(f"`{name}`" for name in missing)
                return Verdict(UNKNOWN, f"needs the counters of {names}: `python benchmarks/stalls.py`")
            return judge({version: evidence.counters[version] for version in versions})

        return asked

    return of_counters


#: One that loads nothing ahead, for comparison; those that read memory ahead; and those that read fragments ahead, too.
NOT_AHEAD, PREFETCHING, IN_PAIRS = ("vectorized",), ("register_prefetch", "cp_async"), ("ex8", "ex9", "warp_tiled")


@counted(*NOT_AHEAD, *PREFETCHING, *IN_PAIRS)
def hidden_latencies(found: dict[str, dict[str, float]]) -> Verdict:
    """Of a warp's time, under 5 % is waiting for memory ("completely"), and under 10 % for shared memory."""
    memory = {name: each["long_scoreboard"] / each["warp_cycles"] for name, each in found.items()}
    shared = {name: each["short_scoreboard"] / each["warp_cycles"] for name, each in found.items()}
    barrier = {name: each["barrier"] / each["warp_cycles"] for name, each in found.items()}
    figures = ", ".join(
        f"`{name}` {memory[name]:.1%} / {shared[name]:.1%} / {barrier[name]:.1%}"
        for name in (*NOT_AHEAD, *PREFETCHING, *IN_PAIRS)
    )
    return Verdict(
        outcome(
            [
                *(memory[name] < 0.05 for name in (*PREFETCHING, *IN_PAIRS)),
                *(shared[name] < 0.10 for name in IN_PAIRS),
            ]
        ),
        f"waiting for memory / shared memory / a barrier, of a warp's cycles: {figures}; `{NOT_AHEAD[0]}` loads "
        "nothing ahead, and who waits at a barrier waits for what others wait for",
    )


@counted("naive")
def intensity_in_memory(found: dict[str, dict[str, float]]) -> Verdict:
    """At least ten times as high as without caches, where each FFMA moves 8 bytes."""
    naive = found["naive"]
    moved = naive["dram_bytes_read"] + naive["dram_bytes_written"]
    intensity = 2 * SIZE**3 / moved
    return Verdict(outcome([intensity >= 2.5]), f"{moved / 1e9:.3g} GB read and written, {intensity:.3g} FLOP/B")
