"""The quiz: answers are those of the models and of the source documents, and replies are judged as they should be."""

import ast
import inspect
import json

import pytest
from typer.testing import CliRunner

from numba_gemm.analysis.models import traffic
from numba_gemm.cli import app
from numba_gemm.hardware.devices import A100
from numba_gemm.quiz import question
from numba_gemm.quiz.catalogue import TOPICS, catalogue, find
from numba_gemm.quiz.question import Choice, Numeric, Open

ENTRIES = catalogue()
NUMERIC = [entry.question for entry in ENTRIES if isinstance(entry.question, Numeric)]
CHOICES = [entry.question for entry in ENTRIES if isinstance(entry.question, Choice)]
OPEN = [entry.question for entry in ENTRIES if isinstance(entry.question, Open)]

#: The figures of the source documents (§4, §2), as they round them: title → figure, relative error of the rounding.
FIGURES = {
    "work": (137.4, 5e-4),  # S0-1
    "least traffic": (192, 0),
    "intensity of the problem": (683, 1e-3),
    "ridge": (9.75, 1e-3),
    "time by arithmetic": (7.05, 1e-3),
    "time by memory": (0.1, 0.01),
    "what one thread per output asks for": (512, 0),  # S0, introduction
    "tiles of 32 × 32": (16, 0),  # S0-2
    "tiles of 128 × 128": (4, 0),
    "intensity of one output a thread": (0.25, 0),
    "intensity of a block": (32, 0),
    "gain in intensity": (128, 0),  # S2-1
    "an outer product": (64, 0),  # S2-4
    "how often an element is read": (32, 0),
    "a coalesced load": (4, 0),
    "the wrong way round": (32, 0),
    "one output a thread on an A100": (25, 0),  # S0-3
    "one output a thread on an H200": (12.5, 0),  # flag 1
    "multiply-adds of a thread": (64, 0),  # S2-3
    "intensity at shared memory": (2, 0),
    "reads saved": (8, 0),
    "share of FFMA": (94, 2e-3),
    "down a column": (32, 0),  # S2-7
    "two rows of threads": (2, 0),
    "a padded row": (1, 0),
    "16 bytes a thread, 32 bytes apart": (8, 0),  # flag 6
    "16 bytes a thread, 16 bytes apart": (4, 0),
    "a warp of 4 × 8": (96, 0),  # S2-8
    "a warp of 1 × 32": (264, 0),
    "registers of a thread": (80, 0),  # S2-9
    "blocks on a multiprocessor": (3, 0),
    "occupancy on an H100": (37.5, 0),
    "occupancy on an RTX 5080": (50, 0),  # flag 9
    "room for two blocks": (128, 0),
    "time to hide in": (1024, 0),  # S2-5
    "barriers": (512, 0),
    "registers saved": (8, 0),  # S2-10
    "shared memory of a ring": (24576, 0),  # S0-4
    "which buffer to refill": (0, 0),
    "groups under way": (1, 0),
    "intensity of one row": (1, 0),  # S0-5
    "time of one row": (17, 0.02),
    "from one row to many": (156, 1e-3),
    "attention's share": (7.5, 3e-3),
    "waves": (94.8, 5e-4),
    "few rows, few blocks": (76, 0),
    "stream-K": (152, 0),
    "padding": (1.97, 3e-3),
    "the most that 4 × 4 can gain": (4, 0),  # S4-1
}

#: What the source documents answer in words.
CHOSEN = {
    "what decides": "arithmetic",
    "the depth of a tile": "Nothing",
    "a bank conflict": "different words of the same bank",
    "what to swizzle": "tear the four floats",
    "enough warps": "independent FFMA",
    "why not always 8 × 8": "more registers",
    "prefetching through registers": "load tile t + 1 to registers, compute tile t, barrier, store",
    "wait and barrier": "own copies only",
    "what helps one row": "fewer bits",
    "stall: Long Scoreboard": "prefetch",
    "stall: MIO Throttle": "bank conflicts",
    "stall: Short Scoreboard": "next fragment",
}


def titles(questions):
    return [asked.title for asked in questions]


# Answers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", NUMERIC, ids=titles(NUMERIC))
def test_computed_answers_are_the_figures_of_the_source_documents(asked):
    figure, rounding = FIGURES[asked.title]
    assert asked.answer == pytest.approx(figure, rel=rounding, abs=1e-12)


@pytest.mark.parametrize("asked", CHOICES, ids=titles(CHOICES))
def test_the_right_choices_are_those_of_the_source_documents(asked):
    assert CHOSEN[asked.title] in asked.options[asked.right]
    assert len(set(asked.options)) == len(asked.options)


def test_the_lists_of_this_file_are_complete():
    assert sorted(FIGURES) == sorted(titles(NUMERIC))
    assert sorted(CHOSEN) == sorted(titles(CHOICES))
    assert len({entry.question.title for entry in ENTRIES}) == len(ENTRIES)
    assert [entry.number for entry in ENTRIES] == list(range(1, len(ENTRIES) + 1))


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.TOPIC)
def test_no_answer_is_typed_in(topic):
    """Each `answer=` is an expression with names in it, none a number."""
    calls = [node for node in ast.walk(ast.parse(inspect.getsource(topic))) if isinstance(node, ast.Call)]
    answers = [
        keyword.value
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id == "Numeric"
        for keyword in call.keywords
        if keyword.arg == "answer"
    ]
    assert answers
    for answer in answers:
        assert any(isinstance(node, ast.Name) for node in ast.walk(answer)), ast.unparse(answer)


def test_answers_are_computed_when_they_are_asked_for(monkeypatch):
    before = find(8).question
    naive = traffic.naive_read_bytes
    monkeypatch.setattr(traffic, "naive_read_bytes", lambda *shape: 3 * naive(*shape))
    after = find(8).question
    assert after.answer == 3 * before.answer
    assert str(round(after.answer)) in after.explanation


def test_texts_name_the_device_that_is_computed_with():
    ridge = next(asked for asked in NUMERIC if asked.title == "ridge")
    assert f"{A100.fp32_peak / 1e12:.1f} TFLOP/s" in ridge.text


@pytest.mark.parametrize(
    "asked", [entry.question for entry in ENTRIES], ids=titles(entry.question for entry in ENTRIES)
)
def test_texts_are_whole_and_do_not_give_the_answer_away(asked):
    for text in (asked.text, asked.hint, asked.explanation):
        assert text == " ".join(text.split())
        assert text[-1] in ".?)"
        assert "{" not in text
    if isinstance(asked, Numeric) and asked.unit:
        assert f" {asked.solution}" not in f"{asked.text} {asked.hint}"


# Judging ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", NUMERIC, ids=titles(NUMERIC))
def test_numbers_are_right_within_the_tolerance(asked):
    assert asked.judge(repr(asked.answer)).right
    assert asked.judge(asked.solution).right  # with its unit, to four digits
    assert asked.judge(repr(asked.answer * (1 + 0.9 * asked.tolerance))).right
    assert asked.judge(repr(asked.answer * (1 - 0.9 * asked.tolerance))).right
    for wrong in (asked.answer * (1 + 1.2 * asked.tolerance) + 1e-3, -asked.answer - 1, asked.answer * 1000 + 1):
        assert asked.judge(repr(wrong)).right is False


EXAMPLE = Numeric("title", "text", "hint", "explanation", answer=0.25, unit="µs")


@pytest.mark.parametrize("answer", ["0.25", " .25 ", "1/4", "25e-2", "0.25 µs", "0.25us", "1/4 µs"])
def test_ways_to_write_a_number(answer):
    assert EXAMPLE.judge(answer) == ("0.25 µs", True)


@pytest.mark.parametrize("answer", ["", "µs", "0,25", "a quarter", "0.25 ms", "1/0", "1/", "nan", "inf", "1e999"])
def test_what_is_no_number(answer):
    with pytest.raises(ValueError, match="is not a number of µs"):
        EXAMPLE.judge(answer)


@pytest.mark.parametrize("asked", CHOICES, ids=titles(CHOICES))
def test_one_letter_is_right(asked):
    assert [asked.judge(letter).right for letter in asked.letters] == [
        index == asked.right for index in range(len(asked.options))
    ]
    assert asked.judge(f" {asked.solution[0].upper()} ").right
    for no_letter in ("", "z", "ab", "1"):
        with pytest.raises(ValueError, match="none of the letters a, b, c, d"):
            asked.judge(no_letter)


@pytest.mark.parametrize("asked", OPEN, ids=titles(OPEN))
def test_own_words_are_not_judged(asked):
    assert asked.judge(" what I think ") == ("what I think", None)
    with pytest.raises(ValueError, match="empty"):
        asked.judge(" ")


@pytest.mark.parametrize(("value", "text"), [(512.0, "512"), (0.1007, "0.1007"), (682.6667, "682.7"), (-3.0, "-3")])
def test_figures(value, text):
    assert question.figure(value) == text


# The command line ------------------------------------------------------------------------------------


@pytest.fixture
def quiz(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments, replies=""):
        return CliRunner().invoke(app.app, ["quiz", *map(str, arguments)], input=replies)

    return run


def number_of(title):
    return next(entry.number for entry in ENTRIES if entry.question.title == title)


def test_the_list_fits_80_columns(quiz):
    done = quiz("--list")
    assert done.exit_code == 0
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    assert [title in done.stdout for title in titles(entry.question for entry in ENTRIES)] == [True] * len(ENTRIES)


def test_questions_for_machines_have_no_answers(quiz):
    listed = json.loads(quiz("--json").stdout)
    assert [entry["number"] for entry in listed] == [entry.number for entry in ENTRIES]
    assert {entry["kind"] for entry in listed} == {"number", "choice", "open"}
    for entry in listed:
        assert not {"solution", "explanation", "value", "hint", "right"} & set(entry)


def test_an_answer_for_machines(quiz):
    number = number_of("tiles of 128 × 128")
    right = quiz(number, "--answer", "4 GiB", "--json")
    assert right.exit_code == 0
    found = json.loads(right.stdout)
    assert (found["right"], found["value"], found["solution"]) == (True, 4, "4 GiB")
    assert "hint" not in found
    wrong = quiz(number, "--answer", "5", "--json")
    assert wrong.exit_code == 1
    found = json.loads(wrong.stdout)
    assert (found["right"], found["understood"], "solution" in found, "hint" in found) == (False, "5 GiB", False, True)


def test_a_right_answer_is_explained(quiz):
    done = quiz(number_of("tiles of 128 × 128"), "--answer", "4")
    assert done.exit_code == 0
    assert "Right: 4 GiB" in done.stdout
    assert "Twice the edge, half the reads" in done.stdout
    assert "Hint" not in done.stdout


def test_a_wrong_answer_gets_the_hint_and_not_the_solution(quiz):
    done = quiz(number_of("a bank conflict"), "--answer", "a")
    assert done.exit_code == 1
    assert "Wrong: a" in done.stdout
    assert "Hint: Each of the 32 banks" in done.stdout
    assert "broadcast" not in done.stdout


def test_own_words_get_the_model_answer(quiz):
    done = quiz(number_of("what cp.async gains"), "--answer", "fewer [red] registers")
    assert done.exit_code == 0
    assert "Noted: fewer [red] registers" in done.stdout
    assert "The copy passes no register" in done.stdout


def test_hint_and_solution_without_an_answer(quiz):
    number = number_of("two rows of threads")
    hint = quiz(number, "--hint")
    assert (hint.exit_code, "Hint: How many floats" in hint.stdout, "Answer:" in hint.stdout) == (0, True, False)
    assert "As[m, k]" in hint.stdout  # brackets are text
    solution = quiz(number, "--solution")
    assert (solution.exit_code, "Hint" in solution.stdout, "Answer: 2\n" in solution.stdout) == (0, False, True)
    assert all(len(line) <= 80 for line in solution.stdout.splitlines())


def test_the_solution_of_an_open_question_is_a_model_answer(quiz):
    done = quiz(number_of("what cp.async gains"), "--solution")
    assert done.exit_code == 0
    assert "A model answer:\nThe copy passes no register" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["999"], f"unknown question 999; there are 1 … {len(ENTRIES)}"),
        (["0"], "unknown question 0"),
        (["1", "--answer", "many"], "'many' is not a number of GFLOP; wanted: a number in GFLOP, within 2 %"),
        (["7", "--answer", "x"], "'x' is none of the letters a, b, c, d; wanted: a letter, a … d"),
        (["1", "--list"], "--list lists all questions; leave out 1 or --list"),
        (["--answer", "3"], "--answer, --hint and --solution are for one question; give its number"),
        (["--hint"], "--answer, --hint and --solution are for one question"),
        (["1"], "there is no terminal to ask on; give the answer with --answer"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(quiz, arguments, message):
    done = quiz(*arguments)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"numba-gemm: {message}")
    assert len(done.stderr.splitlines()) == 1


def test_a_number_that_is_none_is_status_2(quiz):
    assert quiz("first").exit_code == 2


@pytest.mark.parametrize(
    ("replies", "status", "said", "unsaid"),
    [
        (["4"], 0, ["Right: 4 GiB", "half the reads"], ["Hint:", "Answer:"]),
        (["?", "4"], 0, ["Hint: A larger", "Right: 4 GiB"], ["Wrong"]),
        (["four", "4"], 0, ["'four' is not a number of GiB; wanted", "Right: 4 GiB"], ["Wrong"]),
        (["5", "4"], 0, ["Wrong: 5 GiB", "Hint: A larger", "Right: 4 GiB"], ["Answer:"]),
        (["5", "6"], 1, ["Wrong: 5 GiB", "Wrong: 6 GiB", "Answer: 4 GiB", "half the reads"], ["Right"]),
        (["5", ""], 1, ["Wrong: 5 GiB"], ["Answer:"]),
        ([""], 0, [], ["Answer:", "Right", "Wrong"]),
        (["q"], 0, [], ["Answer:", "Right", "Wrong"]),
    ],
)
def test_asking_one_question(quiz, replies, status, said, unsaid):
    done = quiz(number_of("tiles of 128 × 128"), replies="".join(f"{reply}\n" for reply in replies))
    assert done.exit_code == status, done.output
    for text in said:
        assert text in done.stdout
    for text in unsaid:
        assert text not in done.stdout


def test_asking_all_questions(quiz):
    """Right, wrong twice, skipped, and then the user has had enough."""
    done = quiz(replies="137.4\n1\n2\n\nq\n")
    assert done.exit_code == 1
    assert done.stdout.count("╭") == 4
    assert done.stdout.rstrip().endswith("1 right, 1 wrong")


def test_answering_everything_right(quiz):
    replies = [
        "in my words" if isinstance(entry.question, Open) else entry.question.solution.split(":")[0]
        for entry in ENTRIES
    ]
    done = quiz(replies="".join(f"{reply}\n" for reply in replies))
    assert done.exit_code == 0, done.output
    count = len(NUMERIC) + len(CHOICES)
    assert done.stdout.rstrip().endswith(f"{count} right, 0 wrong, {len(OPEN)} in your own words")
