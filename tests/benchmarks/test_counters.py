"""The GPU tools that count: arithmetic anywhere, comparisons where a GPU lets its counters be read."""

import json
import os
import re
import stat
import sys

import pytest

from benchmarks import counters, probes, profiler, stalls
from notes.make.claims import CLAIMS
from notes.make.evidence import Evidence
from notes.make.verdict import FAILS, HOLDS, PARTLY, UNKNOWN

HEADER = ["ID", "Process ID", "Kernel Name", "Grid Size", *counters.METRICS]
UNITS = ["", "", "", "", *["wavefront"] * len(counters.METRICS)]
NAMES, SHAPE = ["vectorized", "boundary"], (512, 512, 512)


def log_of(rows):
    """What ncu writes, with launches that are not ours between."""
    lines = [HEADER, UNITS, *rows]
    text = "\n".join(",".join(f'"{field}"' for field in line) for line in lines)
    return f"==PROF== Connected to process 1\n{text}\n==PROF== Disconnected\n"


def right_rows():
    """Counters that agree with the models."""
    rows = []
    for index, line in enumerate(counters.pattern_lines([{}] * 2 * len(list(probes.patterns())))):
        kind = "pattern_load" if "load" in line.what else "pattern_store"
        rows.append([str(index), "1", f"__main__::{kind}", "(1,1,1)", *[f"{line.predicted:,}"] * len(counters.METRICS)])
    stores = f"{probes.CROWD_BLOCKS * probes.CROWD_TURNS * probes.CROWD_THREADS // 32:,}"
    rows += [["7", "1", "__main__::crowd_store", "(264,1,1)", *[stores] * len(counters.METRICS)]] * 2
    for name in NAMES:
        lines = counters.version_lines(name, SHAPE, None, {})[: len(counters.METRICS)]  # in the same order
        values = [line.predicted for line in lines]
        rows.append(["9", "1", f"_ZN_sgemm_{name}", "(4,4,1)", *[f"{value:,}" for value in values]])
    return rows


def test_parse_leaves_out_units_and_launches_of_others():
    rows = [["0", "1", "pattern_load", "(1,1,1)", *["1,234"] * 7], ["1", "1", "memset", "(1,1,1)", *["7"] * 7]]
    (row,) = profiler.parse(log_of(rows))
    assert profiler.counted(row, counters.SHARED_LOADS) == 1234
    assert profiler.counted(row, counters.COPY_REQUESTS) is None
    assert profiler.counted({counters.SHARED_LOADS: "n/a"}, counters.SHARED_LOADS) is None


def test_patterns_fit_the_kernels():
    for pattern in probes.patterns():
        assert all(start % pattern.width == 0 for start in pattern.starts), pattern
        assert max(pattern.starts) + pattern.width <= probes.SHARED_FLOATS, pattern


def test_rules_tell_each_other_apart():
    lines = counters.pattern_lines([{}] * 2 * len(list(probes.patterns())))
    for index in range(len(counters.OTHER_RULES)):
        assert any(line.others[index] != line.predicted for line in lines)


def test_a_line_is_wrong_beyond_its_tolerance():
    assert not counters.Line("", 1000, 1010).wrong
    assert counters.Line("", 1000, 1011).wrong
    assert counters.Line("", 0, 1).wrong
    assert counters.Line("", 1, None).wrong
    assert not counters.Line("", 1, 5, (), False).wrong
    assert counters.Line("", 1000, 980).wrong
    assert "+40.0%" in str(counters.Line("", 10, 14, (), False))


@pytest.fixture
def ncu(tmp_path, monkeypatch):
    """Puts a stand-in for ncu on the path that writes a given log."""

    def install(text, status=0):
        answer = tmp_path / "answer"
        answer.write_text(text, encoding="utf-8")
        program = tmp_path / "ncu"
        program.write_text(
            f"#!{sys.executable}\nimport pathlib, shutil, sys\n"
            "if '--query-metrics' in sys.argv: sys.exit()\n"
            f"shutil.copy({str(answer)!r}, sys.argv[sys.argv.index('--log-file') + 1])\nsys.exit({status})\n",
            encoding="utf-8",
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    return install


def test_counters_that_agree(ncu):
    ncu(log_of(right_rows()))
    of_patterns, of_crowds, of_versions = counters.compare(NAMES, SHAPE, None)
    assert [line.what for line in (*of_patterns, *of_crowds, *of_versions) if line.wrong] == []
    assert len(of_crowds) == 3
    assert len(of_versions) == 7 + 10  # rung 6 copies by cp.async, which is not checked


def test_a_counter_that_does_not_agree(ncu):
    rows = right_rows()
    rows[-1][HEADER.index(counters.SHARED_LOADS)] = "1"
    ncu(log_of(rows))
    lines = [line for table in counters.compare(NAMES, SHAPE, None) for line in table]
    (wrong,) = (line for line in lines if line.wrong)
    assert "6 (boundary): wavefronts of shared loads" in wrong.what
    assert "WRONG" in str(wrong)


def test_what_ncu_may_say_instead(ncu, monkeypatch):
    ncu("==ERROR== ERR_NVGPUCTRPERM - no permission\n", status=1)
    with pytest.raises(profiler.NoCountersError, match="administrator"):
        counters.measure(NAMES, SHAPE)
    ncu("==ERROR== Failed to find metric\n", status=1)
    with pytest.raises(RuntimeError, match="exit status 1\n==ERROR== Failed to find metric"):
        counters.measure(NAMES, SHAPE)
    ncu(log_of(right_rows()[1:]))
    with pytest.raises(RuntimeError, match="launches instead of"):
        counters.measure(NAMES, SHAPE)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(profiler.NoCountersError, match="no ncu"):
        counters.measure(NAMES, SHAPE)


# Stalls ---------------------------------------------------------------------------------------------------

METRICS, LAUNCHES = list(stalls.METRICS.values()), len(stalls.VERSIONS)
#: As ncu writes them in base units: a quarter of a warp's cycles is waiting for memory.
STALLS = ["8.40", "2.10", "0.85", "0.42", "1,073,741,824", "67,108,864"]


def stalls_log(metrics=METRICS, launches=LAUNCHES, **changed):
    """A log of as many launches as there are versions, with the values above, or others for a metric."""
    values = dict(zip(METRICS, STALLS, strict=True)) | {stalls.METRICS[name]: value for name, value in changed.items()}
    lines = [
        ["ID", "Process ID", "Kernel Name", *metrics],
        ["", "", "", *(["inst"] * 4 + ["byte"] * 2)[: len(metrics)]],
        *(
            [str(index), "1", "cudapy::sgemm_v4(Array<float, 2>)", *(values[name] for name in metrics)]
            for index in range(launches)
        ),
    ]
    text = "\n".join(",".join(f'"{field}"' for field in line) for line in lines)
    return f"==PROF== Connected to process 1\n{text}\n==PROF== Disconnected from process 1\n"


@pytest.fixture
def stored(ncu, monkeypatch, tmp_path):
    """What `stalls` stores of a log, as if there were a GPU; and its exit status."""
    monkeypatch.setattr(profiler, "architecture", lambda: None)
    monkeypatch.setattr(stalls, "describe", lambda: {"gpu": "NVIDIA H200"})

    def run(log, status=0):
        ncu(log, status)
        file = tmp_path / "counters.json"
        code = stalls.main([str(file)])
        return code, json.loads(file.read_text(encoding="utf-8")) if file.exists() else None

    return run


def verdict(number, found):
    benchmarks = {"machine_info": {"gpu": "NVIDIA H200"}, "datetime": "2031-02-03", "benchmarks": []}
    return CLAIMS[number - 1].judge(Evidence(benchmarks, found))


def test_stalls_are_stored_for_the_claims(stored, capsys):
    status, found = stored(stalls_log())
    assert status == 0
    assert list(found["versions"]) == list(stalls.VERSIONS)
    assert found["versions"]["naive"] == {
        "warp_cycles": 8.4,
        "long_scoreboard": 2.1,
        "short_scoreboard": 0.85,
        "barrier": 0.42,
        "dram_bytes_read": 2**30,
        "dram_bytes_written": 2**26,
    }
    assert "1,073,741,824" in capsys.readouterr().out
    assert verdict(14, found).outcome == FAILS
    assert "`ex8` 25.0% / 10.1% / 5.0%" in verdict(14, found).why
    assert verdict(32, found).outcome == HOLDS
    assert "1.14 GB read and written, 120 FLOP/B" in verdict(32, found).why


@pytest.mark.parametrize(
    ("memory", "shared", "outcome"), [("0.41", "0.83", HOLDS), ("0.43", "0.83", PARTLY), ("0.43", "0.85", FAILS)]
)
def test_how_much_waiting_is_hidden(stored, memory, shared, outcome):
    """Less than 5 % of 8.4 cycles for memory, less than 10 % for shared memory."""
    _, found = stored(stalls_log(long_scoreboard=memory, short_scoreboard=shared))
    assert verdict(14, found).outcome == outcome


def test_naive_without_caches(stored):
    _, found = stored(stalls_log(dram_bytes_read="549,755,813,888"))  # 8 bytes for each of 4096³ FFMA
    assert verdict(32, found).outcome == FAILS


def test_claims_of_counters_that_are_not_stored(stored):
    _, found = stored(stalls_log())
    del found["versions"]["ex9"]
    assert verdict(14, found).outcome == verdict(32, None).outcome == UNKNOWN
    assert verdict(14, found).why == "needs the counters of `ex9`: `python benchmarks/stalls.py`"


def test_counters_of_another_device(stored):
    _, found = stored(stalls_log())
    found["machine_info"]["gpu"] = "NVIDIA A100"
    with pytest.raises(ValueError, match="counted on NVIDIA A100, but measured on NVIDIA H200"):
        verdict(32, found)


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (stalls_log(metrics=METRICS[:5]), "counts no dram__bytes_write.sum of"),
        (stalls_log(barrier="n/a"), "stalled_barrier_per_issue_active.ratio of cudapy::sgemm_v4.*it says 'n/a'"),
        (stalls_log(warp_cycles="nan"), "latency_per_inst_issued.ratio of .*it says 'nan'"),
    ],
    ids=["column", "value", "nan"],
)
def test_a_missing_metric_is_named(stored, capsys, log, said):
    assert stored(log) == (1, None)
    error = capsys.readouterr().err
    assert re.search(said, error), error
    assert "ncu --query-metrics" in error


def test_stalls_that_cannot_be_counted(stored, capsys):
    assert stored("==ERROR== ERR_NVGPUCTRPERM\n", status=1) == (2, None)
    assert "administrator" in capsys.readouterr().err
    with pytest.raises(RuntimeError, match="launches instead of 7"):
        stored(stalls_log(launches=6))


# On a GPU -------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.alone
def test_the_models_agree_with_the_counters():
    names = [version.name for version in counters.ladder.RUNGS if version.number <= 7]
    try:
        tables = counters.compare(names, (512, 512, 512), profiler.architecture())
    except profiler.NoCountersError as error:
        pytest.skip(str(error))
    wrong = [str(line) for table in tables for line in table if line.wrong]
    assert not wrong, "\n".join(wrong)
