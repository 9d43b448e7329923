"""`tests/counters.py`: its arithmetic anywhere, the comparison itself where a GPU lets its counters be read."""

import os
import stat
import sys

import counters
import pytest

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
    for index, line in enumerate(counters.pattern_lines([{}] * 2 * len(list(counters.patterns())))):
        kind = "pattern_load" if "load" in line.what else "pattern_store"
        rows.append([str(index), "1", f"__main__::{kind}", "(1,1,1)", *[f"{line.predicted:,}"] * len(counters.METRICS)])
    for name in NAMES:
        values = [line.predicted for line in counters.version_lines(name, SHAPE, None, {}) if line.checked]
        rows.append(["9", "1", f"_ZN_sgemm_{name}", "(4,4,1)", *[f"{value:,}" for value in values]])
    return rows


def test_parse_leaves_out_units_and_launches_of_others():
    rows = [["0", "1", "pattern_load", "(1,1,1)", *["1,234"] * 6], ["1", "1", "memset", "(1,1,1)", *["7"] * 6]]
    (row,) = counters.parse(log_of(rows))
    assert counters.counted(row, counters.SHARED_LOADS) == 1234
    assert counters.counted(row, counters.COPY_REQUESTS) is None
    assert counters.counted({counters.SHARED_LOADS: "n/a"}, counters.SHARED_LOADS) is None


def test_patterns_fit_the_kernels():
    for pattern in counters.patterns():
        assert all(start % pattern.width == 0 for start in pattern.starts), pattern
        assert max(pattern.starts) + pattern.width <= counters.SHARED_FLOATS, pattern


def test_rules_tell_each_other_apart():
    lines = counters.pattern_lines([{}] * 2 * len(list(counters.patterns())))
    for index in range(len(counters.OTHER_RULES)):
        assert any(line.others[index] != line.predicted for line in lines)


def test_a_line_is_wrong_beyond_its_tolerance():
    assert not counters.Line("", 1000, 1010).wrong
    assert counters.Line("", 1000, 1011).wrong
    assert counters.Line("", 0, 1).wrong
    assert counters.Line("", 1, None).wrong
    assert not counters.Line("", 1, 5, (), False).wrong
    assert not counters.Line("", 1000, 1100, above=0.12).wrong
    assert counters.Line("", 1000, 1121, above=0.12).wrong
    assert counters.Line("", 1000, 980, above=0.12).wrong


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
    of_patterns, of_versions = counters.compare(NAMES, SHAPE, None)
    assert [line.what for line in (*of_patterns, *of_versions) if line.wrong] == []
    assert len(of_versions) == 6 + 9  # rung 6 copies by cp.async, which is not checked


def test_a_counter_that_does_not_agree(ncu):
    rows = right_rows()
    rows[-1][HEADER.index(counters.SHARED_LOADS)] = "1"
    ncu(log_of(rows))
    of_patterns, of_versions = counters.compare(NAMES, SHAPE, None)
    (wrong,) = (line for line in (*of_patterns, *of_versions) if line.wrong)
    assert "6 (boundary): wavefronts of shared loads" in wrong.what
    assert "WRONG" in str(wrong)


def test_what_ncu_may_say_instead(ncu, monkeypatch):
    ncu("==ERROR== ERR_NVGPUCTRPERM - no permission\n", status=1)
    with pytest.raises(counters.NoCountersError, match="administrator"):
        counters.measure(NAMES, SHAPE)
    ncu("==ERROR== Failed to find metric\n", status=1)
    with pytest.raises(RuntimeError, match="exit status 1\n==ERROR== Failed to find metric"):
        counters.measure(NAMES, SHAPE)
    ncu(log_of(right_rows()[1:]))
    with pytest.raises(RuntimeError, match="launches instead of"):
        counters.measure(NAMES, SHAPE)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(counters.NoCountersError, match="no ncu"):
        counters.measure(NAMES, SHAPE)


@pytest.mark.gpu
@pytest.mark.skipif("PYTEST_XDIST_WORKER" in os.environ, reason="counters would count what other tests run")
def test_the_models_agree_with_the_counters():
    names = [version.name for version in counters.ladder.RUNGS if version.number <= 7]
    try:
        of_patterns, of_versions = counters.compare(names, (512, 512, 512), counters.architecture())
    except counters.NoCountersError as error:
        pytest.skip(str(error))
    wrong = [str(line) for line in (*of_patterns, *of_versions) if line.wrong]
    assert not wrong, "\n".join(wrong)
