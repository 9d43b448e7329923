"""Pictures: all are listed and drawn, the committed ones are not stale, and what they show is computed or read."""

import ast
import importlib
import json
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from numba_gemm.analysis.models.shared_memory import request_wavefronts, vector_words
from numba_gemm.cli import app
from numba_gemm.hardware import devices
from numba_gemm.ladder import RUNGS, find
from numba_gemm.plots.catalogue import PICTURES
from numba_gemm.plots.rectangles import rectangles
from numba_gemm.plots.results import BENCHMARKS, Results, load, stored_results
from numba_gemm.plots.subjects import STREAM_BLOCKS, STREAM_SEGMENTS, STREAM_TILES

pytest.importorskip("matplotlib", reason="pictures need numba-gemm[plot]")

import matplotlib
from matplotlib.colors import to_rgb
from matplotlib.text import Text

from numba_gemm.plots import bank_rows, files, outputs, style
from numba_gemm.plots.drawings import pipeline, stream_k, waves

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "numba_gemm" / "plots"
DRAWINGS = sorted(path for path in (PACKAGE / "drawings").glob("*.py") if path.stem != "__init__")
STORED = ROOT / BENCHMARKS

BY_NAME = {picture.name: picture for picture in PICTURES}
every_picture = pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)


@pytest.fixture(scope="module")
def stored():
    return load(STORED)


def example():
    """Results with numbers that no model and no stored result has."""
    benchmarks = []

    def add(group, seconds, **extra):
        benchmarks.append({"group": group, "stats": {"median": seconds}, "extra_info": extra})

    for size in (640, 1920):
        for place, rung in enumerate(RUNGS):
            rates = {"tflops": 1.37 + place, "vs_baseline": 0.137 + place / 10, "baseline_seconds": 0.00137}
            add("ladder", 0.0137, version=rung.name, m=size, n=size, k=size, **rates)
    for place, m in enumerate((7, 777)):
        add("suite", 0.0137, m=m, n=778, k=779, vs_baseline=0.77 + place)
    machine = {"gpu": "NVIDIA A100"}
    return Results(Path("example"), {"machine_info": machine, "datetime": "2031-02-03T04", "benchmarks": benchmarks})


# The list --------------------------------------------------------------------------------------------------


def test_every_drawing_is_listed_once_and_every_listed_one_exists():
    assert sorted(BY_NAME) == [path.stem for path in DRAWINGS]
    assert len(BY_NAME) == len(PICTURES)
    assert len({picture.caption for picture in PICTURES}) == len(PICTURES)


@every_picture
def test_captions_are_one_line(picture):
    assert "\n" not in picture.caption
    assert picture.caption[0].isupper()
    assert not picture.caption.endswith(".")
    assert len(picture.caption) <= 100


@every_picture
def test_sources_are_modules_that_the_drawing_uses(picture):
    imported = set(_imported(PACKAGE / "drawings" / f"{picture.name}.py"))
    for path in (PACKAGE / "bank_rows.py", PACKAGE / "outputs.py"):
        if f"numba_gemm.plots.{path.stem}" in imported:
            imported |= _imported(path)
    for source in picture.sources:
        importlib.import_module(source)
        assert source in imported
    assert picture.sources


def _imported(path):
    """Modules that a file imports, or imports names from."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return found


# Nothing is retyped ----------------------------------------------------------------------------------------

#: Larger numbers are measures, shapes or capacities; smaller ones place things on the paper.
LARGEST = 12
#: Names with a digit that is no number.
NAMED = re.compile(r"\bL[12]\b")


@pytest.mark.parametrize(
    "path", [*DRAWINGS, PACKAGE / "bank_rows.py", PACKAGE / "outputs.py"], ids=lambda path: path.stem
)
def test_drawing_code_has_no_number_that_could_become_wrong(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert not [found for found in _figures(tree) if found not in (1e9, 1e12, 1e-3)], path.name


def _figures(tree):
    """Numbers that are too large for a place on the paper, and digits in texts that are not docstrings or formats."""
    passed = {id(node) for parent in ast.walk(tree) if isinstance(parent, ast.FormattedValue) and parent.format_spec
              for node in ast.walk(parent.format_spec)}  # fmt: skip
    for parent in ast.walk(tree):
        if isinstance(parent, ast.Expr) and isinstance(parent.value, ast.Constant):
            passed.add(id(parent.value))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in passed:
            if isinstance(node.value, str) and re.search(r"\d", NAMED.sub("", node.value)):
                yield node.value
            if isinstance(node.value, int | float) and abs(node.value) > LARGEST:
                yield node.value
            if isinstance(node.value, float) and 0 < node.value < 0.01:
                yield node.value


@pytest.mark.parametrize(
    "code", ["rate = 51.3", 'title = "51 TFLOP/s"', "size = 4096", 'f"{x} of 4096"', "t = 0.00268"]
)
def test_retyped_numbers_would_be_found(code):
    assert list(_figures(ast.parse(code)))


@pytest.mark.parametrize("code", ['"""Of 4096."""', 'f"{x:.3g}"', "0.5", '"L2"', "8"])
def test_what_is_no_retyped_number_passes(code):
    assert not list(_figures(ast.parse(code)))


# Drawing ---------------------------------------------------------------------------------------------------


@cache
def drawn(name):
    """A picture of the stored results, or of the example where there are none of its kind, and its SVG file."""
    picture, stored = BY_NAME[name], load(STORED)
    figure = files.figure(picture, stored if picture.can_be_drawn(stored) else example())
    return figure, files.saved(figure, "svg", {"Title": picture.caption, "Date": None})


@every_picture
def test_it_is_drawn_within_its_paper_with_no_text_on_another(picture):
    figure, _ = drawn(picture.name)
    figure.draw_without_rendering()  # annotations find their places when drawn
    boxes = [(text.get_text(), Text.get_window_extent(text)) for text in _texts(figure)]  # not its arrow
    paper = figure.bbox.padded(1)
    assert not [text for text, box in boxes if not (paper.contains(*box.min) and paper.contains(*box.max))]
    inner = [(text, box.shrunk(0.9, 0.7)) for text, box in boxes]
    assert not [(one, other) for (one, a), (other, b) in combinations(inner, 2) if a.overlaps(b)]


def _texts(figure):
    """The texts that drawings write; those of ticks are matplotlib's own care."""
    written = [*figure.texts, *(text for axes in figure.axes for text in axes.texts)]
    for axes in figure.axes:
        written += [axes.title, axes._left_title, axes.xaxis.label, axes.yaxis.label]
    return [text for text in written if text.get_text() and text.get_visible()]


@pytest.mark.parametrize("name", ["ring", "suite"])
def test_it_is_the_same_bytes_each_time(name):
    with matplotlib.rc_context({"font.size": 20, "axes.grid": True}):  # a user's own settings
        first = files.svg(BY_NAME[name], example()), files.png(BY_NAME[name], example())
    assert first == (files.svg(BY_NAME[name], example()), files.png(BY_NAME[name], example()))
    ElementTree.fromstring(first[0])
    assert files.drawn_by(first[0]) == matplotlib.__version__
    assert b"<dc:date>" not in first[0]


@every_picture
def test_the_committed_picture_is_not_stale(picture, stored):
    """Bytes for the version of matplotlib that drew it. Another one may place outlines elsewhere: then the texts."""
    path = ROOT / files.FOLDER / f"{picture.name}.svg"
    if not picture.can_be_drawn(stored):
        assert not path.exists()
        return
    committed = path.read_bytes()
    _, now = drawn(picture.name)
    if files.drawn_by(committed) == matplotlib.__version__:
        assert committed == now, "run numba-gemm plot"
    else:
        assert files.texts(committed) == files.texts(now), "run numba-gemm plot"
    assert path.with_suffix(".png").is_file()


def test_no_other_picture_is_committed(stored):
    kept = {path.stem for path in (ROOT / files.FOLDER).iterdir() if path.suffix in (".svg", ".png")}
    assert kept == {picture.name for picture in PICTURES if picture.can_be_drawn(stored)}


# What they show --------------------------------------------------------------------------------------------


def shown(name, results=None):
    return " ".join(files.texts(files.svg(BY_NAME[name], results)))


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("ladder", ["1.4", "0.14", "A100", "2031-02-03", "1920³", "640³", "19.5"]),
        ("roofline", ["A100", "2031-02-03", "1920³", "19.5", "2 TB/s"]),
        ("predictions", ["A100", "2031-02-03", "1920³", "640³"]),
        ("suite", ["A100", "2031-02-03", "7×778×779", "777×778×779", "0.77", "1.77"]),
    ],
)
def test_measured_pictures_show_the_results_with_device_and_date(name, figures):
    text = shown(name, example())
    for figure in figures:
        assert figure in text, f"{figure} not in {text}"


@pytest.mark.parametrize(("drawing", "figures"), [(pipeline, ["2048", "64 a cycle"]), (waves, ["108 blocks"])])
def test_pictures_of_models_follow_the_device(drawing, figures, monkeypatch):
    name = drawing.__name__.rpartition(".")[2]
    before = shown(name)
    monkeypatch.setattr(drawing, "DEVICE", devices.A100)
    after = shown(name)
    for figure in figures:
        assert figure in after
        assert figure not in before


def test_a_folder_without_results_has_those_of_the_repository(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert stored_results() == STORED
    own = tmp_path / BENCHMARKS
    own.parent.mkdir(parents=True)
    own.write_text("{}")
    assert stored_results().resolve() == own


def test_where_there_are_no_results_at_all_is_no_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("importlib.resources.files", lambda _: tmp_path / "lib" / "python" / "numba_gemm")
    assert stored_results() == BENCHMARKS
    assert load(stored_results()) is None


def test_a_measured_picture_without_results_is_refused():
    with pytest.raises(ValueError, match="suite shows results of the group 'suite': there are no stored results"):
        BY_NAME["suite"].draw(None)


# Their parts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["shared", "vectorized", "warp_tiled"])
def test_every_thread_stores_its_tile(name):
    found = outputs.outputs(name)
    tile = find(name).default_tile
    assert Counter(found.thread.ravel().tolist()) == dict.fromkeys(range(tile.threads), tile.tm * tile.tn)
    if tile.wm:
        assert found.rows_and_columns(found.warp == 1) == (tile.wm, tile.wn)


def test_rectangles_cover_the_places_once(rng):
    places = rng.random((9, 13)) < 0.6
    covered = np.zeros(places.shape, int)
    for x, y, width, height in rectangles(places):
        covered[y : y + height, x : x + width] += 1
    assert (covered == places).all()


@pytest.mark.parametrize(("version", "array", "kind"), [("vectorized", "Bs", "read"), ("swizzled", "Bs", "read"),
                                                        ("vectorized", "As", "write"), ("register", "As", "read"),
                                                        ("warp_tiled", "As", "read")])  # fmt: skip
def test_wavefronts_serve_every_lane_once_and_are_as_many_as_the_rule_says(version, array, kind):
    starts, width = bank_rows.first_request(version, array, kind)
    found = bank_rows.wavefronts_of(starts, width, load=kind == "read")
    assert len(found) == request_wavefronts(starts, width, load=kind == "read")
    served = Counter((bank, lane) for wavefront in found for bank, lanes in wavefront.items() for lane in lanes)
    wanted = Counter((word % 32, lane) for lane, start in enumerate(starts) for word in vector_words([start], width))
    assert served == wanted


def test_the_pipeline_never_copies_into_what_is_computed_or_computes_what_is_not_there():
    for spans in (pipeline.serial_spans(1024), pipeline.ring_spans(1024, 3), pipeline.ring_spans(100, 3)):
        for a, b in combinations(spans, 2):
            if a.buffer == b.buffer:
                assert a.end <= b.start or b.end <= a.start
        copied = {span.tile: span.end for span in spans if not span.computing}
        computed = [span for span in spans if span.computing]
        assert [span.tile for span in computed] == sorted(copied)
        assert all(copied[span.tile] <= span.start for span in computed)


def test_both_schedules_do_every_segment_once():
    everything = Counter((tile, segment) for tile in range(STREAM_TILES) for segment in range(STREAM_SEGMENTS))
    for shares in (stream_k.in_waves(), stream_k.streamed()):
        assert everything == Counter(
            (share.tile, segment) for share in shares for segment in range(share.first, share.stop)
        )
        assert {share.block for share in shares} == set(range(STREAM_BLOCKS))


def _contrast(one, other):
    luminances = []
    for colour in (one, other):
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
        luminances.append(np.dot(linear, (0.2126, 0.7152, 0.0722)) + 0.05)
    return max(luminances) / min(luminances)


def test_text_is_legible_on_light_and_dark_pages_and_on_every_fill():
    assert min(_contrast(style.GREY, page) for page in ("white", "#0d1117")) > 4
    assert min(_contrast(style.text_on(fill), fill) for fill in style.CYCLE) > 4.5


# The command -----------------------------------------------------------------------------------------------


def invoke(*arguments):
    return CliRunner().invoke(app.app, ["plot", *map(str, arguments)], env={"COLUMNS": "100"})


def test_the_list_as_table_and_as_json():
    listed = invoke("--list")
    assert listed.exit_code == 0
    assert all(name in listed.stdout for name in BY_NAME)
    assert json.loads(invoke("--list", "--json").stdout) == [picture.to_dict() for picture in PICTURES]


def test_named_pictures_go_to_the_folder(tmp_path):
    done = invoke("ring", "--out", tmp_path / "new")
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["ring.png", "ring.svg"]
    assert str(tmp_path / "new" / "ring.svg") in done.stdout


def test_measured_pictures_are_drawn_in_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = invoke("suite", "--out", "pictures")
    assert done.exit_code == 0, done.output
    committed = ROOT / files.FOLDER / "suite.svg"
    assert files.texts((tmp_path / "pictures" / "suite.svg").read_bytes()) == files.texts(committed.read_bytes())


def test_of_all_pictures_those_without_results_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr("numba_gemm.cli.plot.PICTURES", (BY_NAME["suite"], BY_NAME["ring"]))
    done = invoke("--out", tmp_path, "--results", tmp_path / "none.json")
    assert done.exit_code == 0, done.output
    assert "suite: not drawn" in done.stdout
    assert (tmp_path / "ring.svg").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "unknown picture 'nonsense'; there are ladder, "),
        (["suite", "--results", "none.json"], "suite shows results of the group 'suite': there are no stored results"),
        (["--json"], "--json prints the list of pictures; it goes with --list"),
    ],
)
def test_what_cannot_be_drawn_is_one_line_and_status_2(arguments, message, tmp_path):
    done = invoke(*arguments, "--out", tmp_path)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"numba-gemm: {message}")
    assert len(done.stderr.splitlines()) == 1
