"""What a person sees: a table on a terminal, plain lines elsewhere."""

import pytest

from pipelines.cli.show import report, show
from pipelines.run.outcome import Outcome, Shown

HEADED = Shown("Files", ("name", "rows"), [("a", "1"), ("b", "2")])
CELLS = ["data/[red]/x", "[/]", "[bold]", "a\\[b]", ":x:.parquet", "[link=file:///a]b[/link]"]


@pytest.fixture
def terminal(monkeypatch):
    """Let rich take whatever output there is for a terminal, a wide one without colours."""
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "dumb"), ("COLUMNS", "120")):
        monkeypatch.setenv(name, value)


def test_off_a_terminal_a_heading_comes_first_and_tabs_are_between_cells(capsys):
    show(HEADED)
    assert capsys.readouterr().out == "name\trows\na\t1\nb\t2\n"


def test_off_a_terminal_a_name_and_its_value_have_a_colon_between_them_and_no_heading(capsys):
    show(Shown("Plan", ("", ""), [("output", "out/[1]"), ("rows", "2")]))
    assert capsys.readouterr().out == "output: out/[1]\nrows: 2\n"


def test_a_table_without_rows_has_its_heading(capsys):
    show(Shown("Layers", ("layer", "F1", "error"), []))
    assert capsys.readouterr().out == "layer\tF1\terror\n"


@pytest.mark.parametrize("cell", CELLS)
def test_brackets_and_colons_are_shown_as_they_are(terminal, capsys, cell):
    show(Shown(cell, ("", ""), [("path", cell), (cell, "")]))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].strip() == cell
    assert sum(cell in line for line in lines) == 3


def test_on_a_terminal_a_table_has_its_title_and_heading(terminal, capsys):
    show(HEADED)
    shown = capsys.readouterr().out
    assert "Files" in shown
    assert "name" in shown
    assert "rows" in shown
    show(Shown("Plan", ("", ""), [("rows", "2")]))
    assert "Plan" in capsys.readouterr().out


def test_a_long_path_is_folded_and_not_cut(terminal, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    path = "".join(f"{n:02}/" for n in range(30))
    show(Shown("Plan", ("", ""), [("output", path)]))
    lines = [line for line in capsys.readouterr().out.splitlines() if "/" in line]
    assert "".join(line.split("\u2502")[2].strip() for line in lines) == path


def test_no_text_of_an_outcome_controls_the_terminal(capsys):
    hostile = "out/\x1b]0;title\x07"
    outcome = Outcome(status=3, text=hostile, warnings=(hostile,))
    assert report(outcome) == 3
    printed = capsys.readouterr()
    assert printed.out == "out/\\x1b]0;title\\x07\n"
    assert printed.err == "bertscore-beam: out/\\x1b]0;title\\x07\n"
