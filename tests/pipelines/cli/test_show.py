"""What a person sees: a table on a terminal, plain lines elsewhere."""

import json

import pytest

from bertscore_beam.cli.show import OutputMode, printing, report, say, show
from bertscore_beam.run.output import Outcome, TextTable

HEADED = TextTable("Files", ("name", "rows"), [("a", "1"), ("b", "2")])
CELLS = ["data/[red]/x", "[/]", "[bold]", "a\\[b]", ":x:.parquet", "[link=file:///a]b[/link]"]


@pytest.fixture
def terminal(monkeypatch):
    """Let rich take whatever output there is for a terminal, a wide one without colours."""
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "dumb"), ("COLUMNS", "120")):
        monkeypatch.setenv(name, value)


PLAN = TextTable("Plan", ("", ""), [("rows", "2"), ("file rejected", "a"), ("file rejected", "b")])


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        (HEADED, "name\trows\na\t1\nb\t2\n"),
        (PLAN, "rows: 2\nfile rejected: a\nfile rejected: b\n"),
        (TextTable("Layers", ("layer", "F1", "error"), []), "layer\tF1\terror\n"),
    ],
)
def test_without_a_terminal_cells_have_tabs_between_and_names_a_colon(shown, printed, capsys):
    show(shown)
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize("cell", CELLS)
def test_on_a_terminal_brackets_and_colons_are_shown_as_they_are(terminal, capsys, cell):
    show(TextTable(cell, ("", ""), [("path", cell), (cell, "")]))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].strip() == cell
    assert sum(cell in line for line in lines) == 3
    show(HEADED)
    assert {"Files", "name", "rows"} <= set(capsys.readouterr().out.split())


def test_a_long_path_is_folded_and_not_cut(terminal, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    path = "".join(f"{n:02}/" for n in range(30))
    show(TextTable("Plan", ("", ""), [("output", path)]))
    lines = [line for line in capsys.readouterr().out.splitlines() if "/" in line]
    assert "".join(line.split("\u2502")[2].strip() for line in lines) == path


def test_no_text_of_an_outcome_controls_the_terminal(capsys):
    hostile = "out/\x1b]0;title\x07"
    outcome = Outcome(status=3, text=hostile, warnings=(hostile,))
    assert report(outcome) == 3
    printed = capsys.readouterr()
    assert printed.out == "out/\\x1b]0;title\\x07\n"
    assert printed.err == "bertscore-beam: out/\\x1b]0;title\\x07\n"


def test_with_json_an_outcome_is_one_document_and_its_warnings_are_also_on_stderr(capsys):
    outcome = Outcome(status=3, shown=(HEADED, PLAN), warnings=("too few rows",), notices=("note",))
    with printing(OutputMode(json=True)):
        assert report(outcome) == 3
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {
        "status": 3,
        "warnings": ["too few rows"],
        "notices": ["note"],
        "files": [{"name": "a", "rows": "1"}, {"name": "b", "rows": "2"}],
        "plan": {"rows": "2", "file rejected": ["a", "b"]},
    }
    assert printed.err == "bertscore-beam: too few rows\nnote\n"


def test_with_json_a_document_comes_before_tables_and_nan_is_null(capsys):
    outcome = Outcome(shown=(HEADED,), document={"summary": {"f1": float("nan"), "rows": (1, 2)}})
    with printing(OutputMode(json=True)):
        report(outcome)
        report(Outcome(shown=(HEADED,), document=[{"a": "\u202e"}]))
    lines = capsys.readouterr().out.splitlines()
    assert json.loads(lines[0]) == {
        "status": 0,
        "warnings": [],
        "notices": [],
        "summary": {"f1": None, "rows": [1, 2]},
    }
    assert lines[1] == r'[{"a": "\u202e"}]'


def test_a_quiet_command_says_nothing_but_still_warns(capsys):
    with printing(OutputMode(quiet=True)):
        say("working")
        report(Outcome(text="the result", warnings=("look",), notices=("note",)))
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("the result\n", "bertscore-beam: look\n")
    say("working")
    assert capsys.readouterr().err == "working\n"


def test_flags_of_beam_do_not_change_how_a_command_prints():
    assert OutputMode.of(["score", "--quiet", "--", "--json"]) == OutputMode(quiet=True)
