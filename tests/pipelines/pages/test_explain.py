"""Rows of runs are explained with the settings of their runs, and add up to their scores."""

import json
import re
import shlex
import shutil
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file

from bertscore_beam.cli import main as cli
from bertscore_beam.cli.main import perform
from bertscore_beam.dump import columns
from bertscore_beam.options.language_map import language_map
from bertscore_beam.pages.explain_rows import extreme_rows, named_rows
from bertscore_beam.records.finished import RowPlace, open_finished, read_rows
from bertscore_core import BertScorer, ConfigError, IdfError, InputError, ScorerConfig
from tests.support.dumps import pair_rows, sentence
from tests.support.encoders import cache_model
from tests.support.jobs import run_job
from tests.support.made_runs import made_run, scored

ROWS = 12
TABLE = "LAYER,P,R,F\n" + "".join(f"{layer},0.1,0.2,0.15\n" for layer in range(4))


@pytest.fixture(scope="module")
def long_run(tmp_path_factory, tiny_folder):
    """A run with idf, rescaling, windows, several references, and rows without scores."""
    folder = tmp_path_factory.mktemp("long")
    candidates = [f"{sentence(row)} {sentence(row + 5)} {sentence(row)}" for row in range(ROWS)]
    candidates[3], candidates[4] = None, ""
    references = [[sentence(row + 1), f"{sentence(row)} on"] for row in range(ROWS)]
    (folder / "in" / "a").mkdir(parents=True)
    table = pa.table({"text": candidates, "truth": references})
    pq.write_table(table, folder / "in" / "a" / "first.parquet", row_group_size=3)
    pq.write_table(table.slice(6), folder / "in" / "second.parquet", row_group_size=3)
    (folder / "table.csv").write_text(TABLE)
    run_job(
        folder / "in", output=folder / "out", candidate_column=("text",), reference_column="truth",
        model=str(tiny_folder("bert")), num_layers=2, max_length=16, long_text="windows",
        idf="corpus", rescale=True, baseline=str(folder / "table.csv"), split_rows=5,
        backend="torch", max_reject_fraction=1.0,
    )  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def mixed_run(tmp_path_factory, tiny_folder):
    """A run by language, with an idf table for each language and group."""
    folder = tmp_path_factory.mktemp("mixed")
    keys = list(product(["en", "DE"], ["x", "y"])) * 4
    languages, groups = map(list, zip(*keys, strict=True))
    rows = {**pair_rows(len(keys)), "lang": languages, "set": groups}
    pq.write_table(pa.table(rows), folder / "in.parquet")
    models = {
        "en": {"model": str(tiny_folder("bert")), "num_layers": 2},
        "de": {"model": str(tiny_folder("roberta")), "num_layers": 1, "max_length": 40},
    }
    run_job(
        folder / "in.parquet", output=folder / "out", language_column="lang", backend="torch",
        languages=language_map(models, "the test"), idf="corpus", idf_group=("set",),
    )  # fmt: skip
    return folder


def explained(capsys, *arguments):
    """Explain and return what the JSON says."""
    assert cli.main(["explain", *map(str, arguments), "--device", "cpu", "--json"]) == 0
    return json.loads(capsys.readouterr().out)["explanations"]


@pytest.mark.job
def test_rows_of_a_run_add_up_to_its_scores(long_run, capsys):
    out, name = long_run / "out", "a/first.parquet"
    rows = [0, 2, 4, 11]
    found = explained(capsys, out, "--row", *(f"{name}:{row}" for row in rows))
    stored = pq.read_table(out / "a", columns=[columns.F1, columns.RAW_F1, columns.BEST_REFERENCE])
    assert [one["row"] for one in found] == rows
    for one in found:
        row, scores = stored.slice(one["row"], 1).to_pylist()[0], one["scores"]
        assert one["differences"] == []
        assert scores["f1"] == pytest.approx(row[columns.F1], abs=1e-6)
        assert one["raw"]["f1"] == pytest.approx(row[columns.RAW_F1], abs=1e-6)
        assert one["best_reference"]["f1"] == row[columns.BEST_REFERENCE]
        assert one["stored"]["f1"] == row[columns.F1]
        assert scores["f1"] == pytest.approx((one["raw"]["f1"] - 0.15) / 0.85, abs=1e-6)
        for pair in one["pairs"]:
            if pair["rule"] is None:
                assert pair["candidate"]["sum"] == pytest.approx(pair["raw"]["precision"], abs=1e-6)
                assert pair["reference"]["sum"] == pytest.approx(pair["raw"]["recall"], abs=1e-6)
    assert found[2]["error"] == "empty_candidate"
    assert max(token["window"] for token in found[0]["pairs"][0]["candidate"]["tokens"]) >= 1
    assert len({token["weight"] for token in found[0]["pairs"][0]["candidate"]["tokens"]}) > 2


@pytest.mark.job
def test_the_lowest_and_the_highest_rows_come_in_this_order(mixed_run, capsys):
    found = explained(capsys, mixed_run / "out", "--best", "2", "--worst", "1")
    f1 = sorted(pq.read_table(mixed_run / "out", columns=[columns.F1])[columns.F1].to_pylist())
    assert [one["stored"]["f1"] for one in found] == pytest.approx([f1[0], *f1[:-3:-1]], abs=1e-5)


@pytest.mark.job
def test_rows_of_each_language_have_their_own_settings(mixed_run, capsys):
    names = [f"in.parquet:{row}" for row in range(8)]
    found = explained(capsys, mixed_run / "out", "--row", *names)
    assert [one["language"] for one in found] == ["en", "en", "de", "de"] * 2
    assert [one["differences"] for one in found] == [[]] * 8
    assert {(one["model"], one["num_layers"]) for one in found} == {("bert", 2), ("roberta", 1)}
    assert all(one["idf"] for one in found)


@pytest.mark.job
def test_a_language_with_a_model_of_its_own_has_no_revision_of_another(
    tmp_path, tiny_folder, monkeypatch, capsys
):
    cache_model(tiny_folder("bert"), "a/all", tmp_path / "hub", monkeypatch)
    (tmp_path / "hub" / "models--a--all" / "refs" / "v1").write_text("abc")
    cache_model(tiny_folder("roberta"), "a/german", tmp_path / "hub", monkeypatch)
    rows = {**pair_rows(2), "lang": ["en", "de"]}
    pq.write_table(pa.table(rows), tmp_path / "in.parquet")
    entries = {"de": {"model": "a/german", "num_layers": 1}, "*": {}}
    run_job(
        tmp_path / "in.parquet", output=tmp_path / "out", language_column="lang", backend="torch",
        model="a/all", revision="v1", num_layers=2, languages=language_map(entries, "the test"),
    )  # fmt: skip
    found = explained(capsys, tmp_path / "out", "--row", "in.parquet:0", "in.parquet:1")
    assert [(one["model"], one["num_layers"]) for one in found] == [("a/all", 2), ("a/german", 1)]
    assert [one["differences"] for one in found] == [[], []]
    first = tmp_path / "out", "--row", "in.parquet:0", "--model"
    cache_model(tiny_folder("bert"), "a/moved", tmp_path / "hub", monkeypatch)
    assert explained(capsys, *first, "a/moved")[0]["model"] == "a/moved"
    (tmp_path / "hub" / "models--a--all" / "refs" / "main").write_text("gone")
    assert explained(capsys, *first, "a/all")[0]["differences"] == []  # that of the run's revision


@pytest.mark.job
def test_the_worst_rows_are_shown_with_their_texts(long_run, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert perform(["explain", str(long_run / "out"), "--worst", "2", "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    f1 = pq.read_table(long_run / "out" / "a")[columns.F1].to_numpy()
    worst = named_rows(open_finished(str(long_run / "out")), ["first.parquet:4"])[0]
    assert np.nanargmin(f1) == worst.row
    assert printed.startswith(f"{worst}\n")
    assert "bertscore_error: empty_candidate" in printed
    assert "in the run: precision" in printed
    assert "not as in the run" not in printed


@pytest.mark.job
def test_what_is_not_as_in_the_run_is_said(long_run, tiny_folder, capsys):
    row = ["--row", "first.parquet:0"]
    moved = shutil.copytree(tiny_folder("bert"), long_run / "moved")
    (found,) = explained(capsys, long_run / "out", *row, "--model", moved)
    assert (found["model"], found["differences"]) == ("moved", [])
    (found,) = explained(capsys, long_run / "out", *row, "--model", tiny_folder("electra"))
    assert [words.partition(" is ")[0] for words in found["differences"]] == [
        "model", "weights", "raw precision", "raw recall", "raw f1",
    ]  # fmt: skip
    table = long_run / "other.csv"
    table.write_text(TABLE.replace("0.15", "0.25"))
    (found,) = explained(capsys, long_run / "out", *row, "--baseline", table)
    assert len(found["differences"]) == 1
    assert found["differences"][0].startswith("baseline is 'custom@")
    page = long_run / "page.html"
    given = [long_run / "out", *row, "--device", "cpu", "--baseline", table, "--output", page]
    assert cli.main(["explain", *map(str, given), "--quiet"]) == 0
    assert "not as in the run: baseline is" in page.read_text()
    assert "baseline is" in capsys.readouterr().err


@pytest.mark.job
def test_pickled_weights_are_read_only_with_the_flag_of_the_command(tmp_path, tiny_folder, capsys):
    """Whoever can write into a run's folder must not decide to read weights that run code."""
    folder = tmp_path / "model"
    shutil.copytree(tiny_folder("bert"), folder)
    weights = folder / "model.safetensors"
    torch.save(load_file(weights), folder / "pytorch_model.bin")
    weights.unlink()
    rows = pa.table({"candidate": ["a cat", "the mat"], "reference": ["the cat", "a mat"]})
    pq.write_table(rows.append_column("lang", [["en", "en"]]), tmp_path / "x.parquet")
    options = {"allow_pickle_weights": True, "backend": "torch"}
    model = {"model": str(folder), "num_layers": 2}
    run_job(tmp_path / "x.parquet", output=tmp_path / "out", **options, **model)
    run_job(
        tmp_path / "x.parquet", output=tmp_path / "by", language_column="lang",
        languages=language_map({"en": model}, "the test"), **options,
    )  # fmt: skip
    for run in (tmp_path / "out", tmp_path / "by"):
        assert json.loads((run / "_run.json").read_text())["options"]["allow_pickle_weights"]
        for more in ((), ("--model", folder)):
            words = ("explain", run, "--worst", 1, "--device", "cpu", *more)
            assert cli.main([str(word) for word in words]) == cli.UNUSABLE
            said = capsys.readouterr().err
            assert "has no model.safetensors" in said
            assert "--allow-pickle-weights" in said
        (found,) = explained(capsys, run, "--worst", 1, "--allow-pickle-weights")
        assert found["differences"] == []


@pytest.mark.long
@pytest.mark.job
def test_a_rescaled_run_is_explained_from_its_signature(long_run, tmp_path, tiny_folder, capsys):
    table = tmp_path / "new.csv"
    table.write_text(TABLE.replace("0.15", "0.05"))
    out = str(tmp_path / "out")
    given = ["rescale", str(long_run / "out"), "--baseline", str(table), "--output", out]
    assert cli.main(given) == 0
    capsys.readouterr()
    model = str(tiny_folder("bert"))
    (found,) = explained(capsys, out, "--row", "first.parquet:1", "--model", model)
    assert found["differences"] == []
    assert found["baseline"]["f1"] == pytest.approx(0.05)


@pytest.mark.long
@pytest.mark.job
def test_pages_are_written(long_run, capsys):
    run, path = str(long_run / "out"), long_run / "made.html"
    given = ["--row", "first.parquet:1", "--device", "cpu", "--output", str(path)]
    assert perform(["explain", run, *given]) == 0
    page = path.read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert capsys.readouterr().out == ""
    assert "first.parquet:1" in page
    assert f"{sentence(1)} {sentence(6)} {sentence(1)}</p>" in page


@pytest.mark.job
def test_rows_that_cannot_be_explained_are_named(long_run, tmp_path):
    run = str(long_run / "out")
    with pytest.raises(InputError, match="got bertscore_error 'null_candidate'"):
        perform(["explain", run, "--row", "first.parquet:3"])
    with pytest.raises(InputError, match="got 12 rows of that input file"):
        perform(["explain", run, "--row", "first.parquet:12"])
    with pytest.raises(InputError, match=r"no input files .third\.parquet."):
        perform(["explain", run, "--row", "third.parquet:0"])
    with pytest.raises(ConfigError, match="names no row"):
        perform(["explain", run, "--row", "first.parquet"])
    moved = tmp_path / "moved"
    shutil.copytree(run, moved)
    (moved / "_manifest" / "idf.npz").unlink()
    with pytest.raises(IdfError, match="--idf PATH"):
        perform(["explain", str(moved), "--row", "first.parquet:1"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "there is nothing to explain"),
        (["-c", "a"], "there is nothing to explain"),
        (["-c", "a", "-r", "b", "--worst", "2"], "choose rows of a run"),
        (["-c", "a", "-r", "b", "--idf", "corpus"], "--idf corpus cannot weigh two texts"),
        (
            ["-c", "a", "-r", "b", "--output", "x.png"],
            "--output cannot be written: got 'x.png'; expected a name that ends in .html or .htm. ",
        ),
        (["-c", "a", "-r", "b", "--modle", "x"], "Did you mean --model"),
        (["run"], "no row was chosen"),
        (["run", "-c", "a"], "a run has texts of its own"),
        (["run", "--worst", "0"], "'worst' cannot be used: got 0; expected at least 1"),
        (["run", "--worst", "1", "--num-layers", "3"], "got --num-layers; expected none"),
        (
            ["run", "--worst", "1", "--idf", "corpus"],
            "--idf corpus cannot be given with a run: got no path;",
        ),
    ],
)
def test_arguments_that_contradict_each_other_are_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        perform(["explain", *arguments])


@pytest.mark.model
def test_two_texts_score_as_the_job_scores_them(tiny_folder, tmp_path, capsys):
    (tmp_path / "table.csv").write_text(TABLE)
    texts = ["-c", "the cat sat", "-r", "a cat was sitting", "the dog"]
    options = [
        *("--model", tiny_folder("bert"), "--num-layers", 2, "--rescale"),
        *("--baseline", tmp_path / "table.csv", "--backend", "torch"),
    ]
    (found,) = explained(capsys, *texts, *options)
    config = ScorerConfig(
        model=str(tiny_folder("bert")), num_layers=2, rescale=True, empty="zero", device="cpu",
        baseline=str(tmp_path / "table.csv"), backend="torch",
    )  # fmt: skip
    scorer = BertScorer(config)
    scores = scorer.score(["the cat sat"], [["a cat was sitting", "the dog"]])
    assert found["scores"]["f1"] == pytest.approx(scores.f1[0], abs=1e-6)
    assert found["signature"] == scorer.signature().format()
    assert len(found["pairs"]) == 2


def test_extreme_rows_are_found_over_all_parts(tmp_path):
    f1 = np.array([0.5, np.nan, 0.1, 0.9, 0.1, 0.7, 0.3])
    run = open_finished(
        str(made_run(tmp_path, {"b": scored(f1), "a": scored(f1 + 0.05)}, part_rows=2))
    )
    assert extreme_rows(run, 3, worst=True) == [("b", 2), ("b", 4), ("a", 2)]
    assert extreme_rows(run, 2, worst=False) == [("a", 3), ("b", 3)]
    assert extreme_rows(run, 1, worst=True) == [("b", 2)]
    assert len(extreme_rows(run, 100, worst=True)) == 12


def test_single_rows_are_read_in_the_order_asked_for(tmp_path):
    f1 = np.linspace(0.1, 0.9, 7)
    run = open_finished(str(made_run(tmp_path, {"a": scored(f1), "b": scored(f1)}, part_rows=3)))
    places = [RowPlace("b", 6), RowPlace("a", 0), RowPlace("b", 2), RowPlace("b", 3)]
    tables = read_rows(run, places, ["candidate", columns.F1, "not there"])
    assert [table["candidate"].to_pylist() for table in tables] == [
        ["text 6"], ["text 0"], ["text 2"], ["text 3"],
    ]  # fmt: skip
    assert tables[0].column_names == ["candidate", columns.F1]
    with pytest.raises(InputError, match="has no row 'a:7': got 7 rows"):
        read_rows(run, [RowPlace("a", 7)], ["candidate"])


PAGE = Path(__file__).parents[3] / "docs" / "report-and-explain.md"


@pytest.mark.long
@pytest.mark.model
def test_the_example_of_the_page_prints_what_is_shown(scorer, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    command, shown = re.findall(r"^```(?:sh|text)\n(.*?)^```$", PAGE.read_text(), re.M | re.S)[2:4]
    program, verb, *arguments = shlex.split(command)
    assert (program, verb) == ("bertscore-beam", "explain")
    assert perform(["explain", *arguments, "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    # Up to the signature, which names versions. Its numbers are no scores.
    end = len(shown[: shown.index("signature:")].splitlines())
    assert printed.splitlines()[end].startswith("signature: bertscore|model:all-MiniLM-L6-v2|")
    expected, found = (
        re.split(r"(\d*\.\d+)", "\n".join(text.splitlines()[:end])) for text in (shown, printed)
    )
    assert found[::2] == expected[::2]
    assert len(found) > 50
    for number, wanted in zip(found[1::2], expected[1::2], strict=True):
        last_digit = 10.0 ** -len(wanted.partition(".")[2])
        assert float(number) == pytest.approx(float(wanted), abs=2.1 * last_digit)
