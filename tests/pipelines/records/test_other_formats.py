"""Folders of earlier versions are not read: each command says so in one line, with a cure."""

import json
import shutil

import numpy as np
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.files.checked import from_json, to_json
from bertscore_beam.records.earlier_run import find_reuse, scoring_runs
from bertscore_beam.run.folder import FORMAT, RUN_FILE, OtherFormatError, OutputFolder, read_run
from bertscore_beam.run.output import UNJUDGED
from tests.support.dumps import write_dump
from tests.support.made_runs import made_run, scored

SAID = "another version of bertscore-beam has written"


def make_older(folder):
    """Give a folder the form of 0.3.0, whose `_run.json` has no number of a format."""
    content = from_json((folder / RUN_FILE).read_bytes())
    del content["format"]
    (folder / RUN_FILE).write_bytes(to_json(content))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    rows = np.random.default_rng(0).uniform(0.5, 0.9, 60)
    for name in ("old", "new", "third"):
        made_run(folder / name, {"a.parquet": scored(rows)}, part_rows=40)
    make_older(folder / "old")
    return folder


@pytest.fixture
def runs(made, tmp_path):
    return shutil.copytree(made, tmp_path / "runs")


@pytest.mark.job
@pytest.mark.model
@pytest.mark.parametrize("overwrite", [(), ("--overwrite",)])
def test_no_command_writes_into_it(runs, tmp_path, capsys, overwrite):
    write_dump(tmp_path / "dump", [5])
    rows = "".join(f"{layer},0.1,0.1,0.1\n" for layer in range(7))
    (tmp_path / "table.tsv").write_text("LAYER,P,R,F\n" + rows)
    old = runs / "old"
    before = {path: path.read_bytes() for path in old.rglob("*") if path.is_file()}
    table = ("--baseline", str(tmp_path / "table.tsv"))
    for words in (
        ("score", "--input", str(tmp_path / "dump"), "--device", "cpu"),
        ("rescale", str(runs / "new"), *table),
    ):
        assert cli.main([*words, "--output", str(old), *overwrite]) == cli.UNUSABLE
        said = capsys.readouterr().err
        wrong = f"{SAID} {str(old)!r}: got format None in _run.json; expected {FORMAT}. Choose"
        assert wrong in said
    assert {path: path.read_bytes() for path in old.rglob("*") if path.is_file()} == before


def test_no_command_reads_it(runs, tmp_path, capsys):
    old, new = str(runs / "old"), str(runs / "new")
    for words in (
        ("check", old),
        ("groups", old),
        ("explain", old, "--worst", "1"),
        ("compare", old, new),
        ("report", old, "--output", str(tmp_path / "page.html")),
    ):
        assert cli.main([*words]) == cli.UNUSABLE, words
        assert SAID in capsys.readouterr().err, words


def test_its_scores_are_not_reused_and_the_run_before_it_counts(runs):
    source, note = find_reuse(str(runs / "old"), "out", ())
    assert source is None
    assert SAID in note
    assert note.endswith("Everything is scored.")
    found, left_out = scoring_runs(f"{runs}/*", "--reuse latest:")
    assert [run.root for run in found] == [str(runs / "new"), str(runs / "third")]
    assert left_out.count("_run.json is of another version: 1, such as") == 1
    for name in ("new", "third"):
        shutil.rmtree(runs / name)
    source, note = find_reuse(f"latest:{runs}/*", "out", ())
    assert source is None
    assert "No run has succeeded yet" in note
    assert "of another version" in note


@pytest.mark.parametrize(
    ("gate", "status"), [((), cli.DONE), (("--fail-if-drop", "0.1"), UNJUDGED)]
)
def test_a_comparison_leaves_it_out_and_a_gate_that_sees_nothing_is_not_passed(
    runs, capsys, gate, status
):
    old, new, third = (str(runs / name) for name in ("old", "new", "third"))
    assert cli.main(["compare", new, old, "--json", *gate]) == status
    said = capsys.readouterr()
    document = json.loads(said.out)
    assert (document["passed"], document["comparisons"]) == (None, [])
    assert said.err.count(SAID) == 1
    assert cli.main(["compare", new, old, third, "--json", *gate]) == cli.DONE
    said = capsys.readouterr()
    assert [one["against"] for one in json.loads(said.out)["comparisons"]] == [third]
    assert said.err.count("Not compared with 1 runs: " + SAID) == 1


def test_a_run_is_looked_at_also_if_there_is_none_to_compare_it_with(runs, capsys):
    old, third = runs / "old", runs / "third"
    (third / "_SUCCESS").unlink()
    for run, words in ((runs / "nowhere", "is not a scoring run"), (third, "is not done")):
        assert cli.main(["compare", str(run), str(old), "--fail-if-drop", "0"]) == cli.UNUSABLE
        assert words in capsys.readouterr().err


def test_a_page_leaves_it_out_and_says_so(runs, tmp_path, capsys):
    page = tmp_path / "page.html"
    words = ["report", f"{runs}/*", "--output", str(page), "--against", str(runs / "old")]
    assert cli.main([*words, "--fail-if-drop", "0.1", "--json"]) == UNJUDGED
    said = capsys.readouterr()
    assert (json.loads(said.out)["nights"], json.loads(said.out)["passed"]) == (2, None)
    assert said.err.count(SAID) == 1
    assert "is of another version" in page.read_text()


def test_a_format_is_told_from_damage(runs):
    folder = OutputFolder(str(runs / "old"))
    with pytest.raises(OtherFormatError, match="got format None"):
        read_run(folder)
    whole = from_json((runs / "new" / RUN_FILE).read_bytes())
    (runs / "old" / RUN_FILE).write_bytes(to_json({**whole, "format": FORMAT + 1}))
    with pytest.raises(OtherFormatError, match=f"got format {FORMAT + 1} in"):
        read_run(folder)
