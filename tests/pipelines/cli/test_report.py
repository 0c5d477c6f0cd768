"""`bertscore-beam report` writes a page, and says clearly what it cannot do."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.run.lease import JobStillRunsError
from bertscore_beam.run.output import WORSE
from bertscore_core import DeviceLostError, InputError
from tests.support.made_runs import SIGNATURE, made_run, scored
from tests.support.powers import small_files

F1 = np.linspace(0.2, 0.9, 60)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    other = replace(SIGNATURE, num_layers="5")
    for name, signature in (("one", SIGNATURE), ("two", SIGNATURE), ("other", other)):
        made_run(folder / name, {"a.parquet": scored(F1)}, signature=signature)
    return folder


def test_a_page_is_written_and_the_result_printed(runs, tmp_path, ran):
    page = tmp_path / "deep" / "report.html"
    command = ["report", str(runs / "one"), "--against", str(runs / "two"), "-o", str(page)]
    printed = ran([*command, "--rows", "3", "--json"])
    result = json.loads(printed.out)
    assert result["status"] == cli.DONE
    assert result["f1"] == pytest.approx(F1.mean(), abs=1e-7)
    assert result["rows"] == result["scored"] == 60
    assert result["bytes"] == page.stat().st_size
    assert printed.err == ""
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert "text 7" not in page.read_text(encoding="utf-8")


def test_texts_are_shown_only_when_asked_for_and_that_is_said(runs, tmp_path, ran):
    page = tmp_path / "report.html"
    command = ["report", str(runs / "one"), "--with-texts", "--rows", "2", "-o", str(page)]
    printed = ran(command)
    assert "f1: 0.55" in printed.out
    assert "holds texts of the run" in printed.err
    assert "text 59" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("lost", [0, 4], ids=["lower", "rows_lost"])
def test_a_page_is_written_and_the_status_is_that_of_the_gate(runs, tmp_path, ran, lost):
    """It is the status, and the words, of `compare`."""
    scores = np.where(np.arange(60) < lost, np.nan, F1) if lost else F1 - 0.05
    run = str(made_run(tmp_path / "worse", {"a.parquet": scored(scores)}))
    page = tmp_path / "page.html"
    command = ["report", run, "--against", str(runs / "one"), "-o", str(page), "--json"]
    for limits, status in (
        (["--fail-if-drop", "0.01"], WORSE),
        (["--fail-if-drop", "0.1", "--max-missing-fraction", "0.1"], cli.DONE),
        ([], cli.DONE),
    ):
        page.unlink(missing_ok=True)
        result, said = ran([*command, *limits], status)
        compared, _ = ran(["compare", run, str(runs / "one"), *limits, "--json"], status)
        result, compared = json.loads(result), json.loads(compared)
        assert (result["status"], result["passed"]) == (status, compared["passed"])
        assert set(result["warnings"]) <= set(compared["warnings"])
        assert ("did not pass the gate" in said) == (status == WORSE)
        assert ("the gate is not passed" in page.read_text()) == (status == WORSE)


def test_of_several_runs_the_page_shows_the_one_that_the_run_is_worse_than(runs, tmp_path, ran):
    run = str(made_run(tmp_path / "now", {"a.parquet": scored(F1)}))
    better = str(made_run(tmp_path / "better", {"a.parquet": scored(F1 + 0.1)}))
    page = tmp_path / "page.html"
    words = ["--against", str(runs / "one"), better, "--fail-if-drop", "0.01", "--json"]
    printed, said = ran(["report", run, *words, "-o", str(page)], WORSE)
    assert json.loads(printed)["passed"] is False
    assert said.count("did not pass the gate") == 1
    assert 'Compared with <bdi class="name">better<' in page.read_text()
    both, _ = ran(["compare", run, str(runs / "one"), better, *words[3:]], WORSE)
    assert [one["passed"] for one in (json.loads(printed), json.loads(both))] == [False, False]


def test_every_measure_has_a_change_and_its_place_in_the_verdict(tmp_path, ran):
    """As in `compare`: the gate looks at all, and corrects for all."""
    noise = np.random.default_rng(6).normal(0, 0.01, 60)
    for name, f1, precision in (("before", F1, F1), ("now", F1 + noise, F1 + noise - 0.05)):
        rows = scored(f1, precision=precision, system=["a"] * 30 + ["b"] * 30)
        made_run(tmp_path / name, {"a.parquet": rows})
    words = [str(tmp_path / "now"), str(tmp_path / "before"), "--by", "system"]
    limits = ["--fail-if-drop", "0.01", "--measure", "precision", "f1", "recall", "--json"]
    compared = json.loads(ran(["compare", *words, *limits], WORSE).out)
    page = tmp_path / "page.html"
    command = ["report", words[0], "--against", *words[1:], *limits, "-o", str(page)]
    result, said = ran(command, WORSE)
    assert said.count("did not pass the gate") == 3
    assert set(json.loads(result)["warnings"]) == {
        words for words in compared["warnings"] if "gate" in words
    }
    text = page.read_text()
    answer = text.partition('aria-label="Answer"')[2].partition("</section>")[0]
    worse = '<li><strong class="worse">worse</strong> '
    for group in ("all rows", '<bdi class="name">a</bdi>', '<bdi class="name">b</bdi>'):
        line = answer.partition(f"{worse}{group}, raw precision: ")[2].partition("</li>")[0]
        assert "gate: it is lower by more than 0.01" in line
    assert answer.count(worse) == 3
    assert answer.index("Change of raw F1") < answer.index("Change of raw precision")
    for one in compared["comparisons"]:
        title = "raw " + one["measure"].replace("f1", "F1")
        p_value = one["whole"]["p_adjusted"]
        shown = "< 0.0001" if p_value < 1e-4 else f"{p_value:.4f}"
        assert one["whole"]["p_adjusted"] >= one["whole"]["p_value"]
        line = answer.partition(f"<dt>Change of {title}</dt>")[2].partition("</dd>")[0]
        assert f"any difference: corrected p {shown}".replace("<", "&lt;") in line
        assert f"{one['whole']['result']['difference']:+.5f}" in line
        assert f"Change of {title}, this run less the other</caption>" in text
    assert "corrected for the number of measures" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["one", "--against", "two", "--measure", "recall"], "expected f1 among them"),
        (["one", "--measure", "f1", "bleu"], "--measure needs --against"),
        (["one", "-o", "report.txt"], "expected a name that ends in .html"),
        (["one", "-o", "{runs}/one/report.html"], "--output is inside the run"),
        (["{runs}/o*", "-o", "{runs}/one/pages/report.html"], "--output is inside the run"),
        (["one", "--against", "other"], "num_layers: got '6'; expected '5'"),
        (["one", "--by", "colour"], "colour"),
        (["missing"], "is not a scoring run"),
        (["one", "--colour"], "unknown argument '--colour'"),
        (["one", "--rows", "many"], "--rows"),
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_is_written(
    runs, tmp_path, ran, monkeypatch, arguments, words
):
    monkeypatch.chdir(tmp_path)
    given = [
        str(runs / one) if (runs / one).is_dir() else one.format(runs=runs) for one in arguments
    ]
    assert words in ran(["report", *given], cli.UNUSABLE).err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.model
def test_of_a_page_that_the_disk_does_not_take_it_is_said_that_it_is_not_written(
    runs, tmp_path, ran
):
    page, two = tmp_path / "page.html", ["explain", "-c", "a cat", "-r", "the cat"]
    for command in (["report", str(runs / "one")], [*two, "--device", "cpu"]):
        with small_files(2_000):
            said = ran([*command, "-o", str(page)], cli.BROKEN).err
        assert f"File too large: '{page}'\nNothing was written. Run the same command again" in said
        assert list(tmp_path.iterdir()) == []


def test_runs_of_other_settings_are_compared_if_forced_and_the_page_says_so(runs, tmp_path):
    page = tmp_path / "report.html"
    command = ["report", str(runs / "one"), "--against", str(runs / "other"), "--force"]
    assert cli.main([*command, "-o", str(page)]) == cli.DONE
    text = page.read_text(encoding="utf-8")
    assert text.count("The scores were made with different settings, so") == 1
    assert "num_layers: got &#39;6&#39;; expected &#39;5&#39;" in text
    assert 'class="notices"' in text


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (DeviceLostError("lost"), cli.BROKEN, "the command stopped: lost"),
        (JobStillRunsError("made up"), cli.BROKEN, "made up"),
        (InputError("made up"), cli.UNUSABLE, "made up"),
        (ValueError("made up"), cli.BROKEN, "the command stopped: ValueError: made up"),
    ],
)
def test_errors_that_another_try_may_not_meet_have_a_status_of_their_own(
    runs, tmp_path, monkeypatch, ran, error, status, words
):
    def fail(*_):
        raise error

    monkeypatch.setattr("bertscore_beam.pages.report_rows.gather", fail)
    command = ["report", str(runs / "one"), "-o", str(tmp_path / "report.html"), "--json"]
    assert json.loads(ran(command, status).out)["error"] == words
