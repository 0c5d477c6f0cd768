"""Whole runs on 60 judgements with the embedded encoder."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.stats

from bertscore_beam.cli import main as cli
from bertscore_beam.options.score_options import ScoreOptions
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.loading import scorer_config, settle_workers
from bertscore_beam.run.runner import Runner
from bertscore_beam.tune import job
from bertscore_core import BertScorer, ScorerConfig
from bertscore_core.registry import TunedLayer, format_layers, parse_layers
from tests.support import own_metrics
from tests.support.judgements import judgement_rows, write_judgements

pytestmark = [pytest.mark.job, pytest.mark.model]

ROOT = Path(__file__).resolve().parents[3]
SCIPYS = (scipy.stats.pearsonr, scipy.stats.spearmanr, scipy.stats.kendalltau)
OTHER = TunedLayer(model="mine", weights="bb", num_layers=3)


def tune(judgements, output, *words):
    return cli.main(
        ["tune", "--judgements", str(judgements), "--score-column", "human", "--by", "language",
         "--backend", "torch", "--device", "cpu", "--output", str(output), *words]
    )  # fmt: skip


@pytest.fixture(scope="module")
def judgements(tmp_path_factory):
    return write_judgements(tmp_path_factory.mktemp("judgements") / "j.parquet")


@pytest.fixture(scope="module")
def run(judgements, tmp_path_factory):
    """Return a finished run, with systems, items and labels. Tests change copies only."""
    folder = tmp_path_factory.mktemp("tune")
    (folder / "layers.json").write_bytes(format_layers([OTHER]))
    words = ("--system-column", "system", "--item-column", "item", "--label-column", "good")
    layers = ("--registry", str(folder / "layers.json"), "--hybrids", "200", "--resamples", "200")
    assert tune(judgements, folder / "out", *words, *layers, "--split-rows", "40") == 0
    return folder


@pytest.fixture(scope="module")
def table(run):
    return pq.read_table(run / "out" / "agreement.parquet").to_pylist()


@pytest.fixture(scope="module")
def by_layer():
    """Scores at layer 4 by the library, without idf and with that of each language."""
    config = ScorerConfig(num_layers=4, idf=True, device="cpu", backend="torch", empty="zero")
    scorer = BertScorer(config)
    found = {}
    for language in ("en", "de"):
        rows = [row for row in judgement_rows() if row["language"] == language]
        texts = [row["candidate"] for row in rows], [row["reference"] for row in rows]
        plain = scorer.score_tokenized(scorer.tokenize(*texts), scorer.token_weights(None))
        idf = scorer.score(*texts, idf=scorer.count_idf(texts[1]))
        people = [row["human"] for row in rows]
        found[language] = (people, {"none": plain, "corpus": idf})
    return found


def value(table, **wanted):
    (row,) = [row for row in table if all(row[key] == one for key, one in wanted.items())]
    return row


@pytest.mark.parametrize("idf", ["none", "corpus"])
@pytest.mark.parametrize("measure", ["precision", "recall", "f1"])
def test_correlations_are_scipys_of_the_librarys_scores(table, by_layer, measure, idf):
    for language, (people, scored) in by_layer.items():
        # Rounded, so that equal texts and perfect scores tie.
        own = getattr(scored[idf], measure).astype(float).round(5)
        for name, function in zip(("pearson", "spearman", "kendall"), SCIPYS, strict=True):
            wanted = {"measure": measure, "layer": 4, "idf": idf}
            row = value(table, group=language, statistic=name, **wanted)
            # The scores of all layers at once are those of one layer but for rounding.
            assert row["value"] == pytest.approx(function(people, own).statistic, abs=2e-3)
            assert row["low"] < row["value"] < row["high"]


def test_the_mean_of_the_groups_and_other_metrics_stand_beside(table):
    wanted = {"statistic": "pearson", "measure": "f1", "layer": 2, "idf": "none"}
    groups = [value(table, group=name, **wanted)["value"] for name in ("de", "en")]
    assert value(table, group="mean of groups", **wanted)["value"] == pytest.approx(np.mean(groups))
    bleu = value(table, statistic="pearson", group="en", model="BLEU")
    assert 0.3 < bleu["value"] < 1
    statistics = {row["statistic"] for row in table}
    assert statistics >= {
        "auc", "item_kendall", "item_accuracy", "system_pearson", "system_accuracy",
        "hybrid_pearson", "hybrid_hits_at_1",
    }  # fmt: skip


def test_metrics_of_ones_own_are_compared_with_people(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'pipelines'}")
    functions = [f"{own_metrics.__name__}:{name}" for name in ("overlap", "copied")]
    rows = [row | {"source": row["reference"][:20]} for row in judgement_rows()]
    rows[0]["source"] = None  # no number of `copied`: left out of all
    path, output = write_judgements(tmp_path / "j.parquet", rows), tmp_path / "out"
    words = ("--layers", "1", "--idf", "none", "--min-rows", "9", "--source-column", "source")
    assert tune(path, output, *words, "--metrics", "bleu", *functions) == 0
    table = pq.read_table(output / "agreement.parquet").to_pylist()
    own = [row for row in rows[1:] if row["language"] == "en"]
    texts = [row["candidate"] for row in own], [[row["reference"]] for row in own]
    sources = [row["source"] for row in own]
    scores = {
        "overlap": own_metrics.overlap(*texts),
        "copied": -own_metrics.copied(*texts, sources),  # fewer are better
    }
    for name, values in scores.items():
        row = value(table, group="en", statistic="pearson", model=name)
        expected = scipy.stats.pearsonr([row["human"] for row in own], values).statistic
        assert (row["value"], row["rows"]) == (pytest.approx(expected), len(own))
    summary = json.loads((output / "_summary.json").read_text())
    assert summary["unscored"] == 1
    assert summary["signatures"]["copied"].endswith(":copied|version:copied-1|sources|lower:better")


def test_a_metric_of_ones_own_that_is_not_there_ends_tune_before_it_begins(tmp_path, capsys):
    path = write_judgements(tmp_path / "j.parquet")
    assert tune(path, tmp_path / "out", "--metrics", "not_there:one") == cli.UNUSABLE
    assert "--metrics not_there:one cannot be imported: got" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_best_setting_is_never_below_itself(table):
    rows = [row for row in table if row["statistic"] == "pearson" and row["layer"] is not None]
    for group in ("de", "en", "mean of groups"):
        own = [row for row in rows if row["group"] == group]
        best = max(own, key=lambda row: row["value"])
        assert best["p_below_best"] == 1
        worst = min(own, key=lambda row: row["value"])
        assert worst["p_below_best"] < 0.5


def test_the_best_layer_goes_into_the_file_where_it_is_significantly_better(run, table):
    summary = json.loads((run / "out" / "_summary.json").read_bytes())
    (one,) = summary["recommended"]
    f1 = {"group": "mean of groups", "statistic": "pearson", "measure": "f1", "idf": "none"}
    values = [value(table, layer=layer, **f1)["value"] for layer in range(7)]
    assert one["layer"] == one["best"] == int(np.argmax(values))
    assert one["value"] == one["best_value"] == max(values)
    assert 0.4 < one["held_out_value"] <= max(values) + 0.1
    assert one["default"] == 6
    assert one["p_default"] < 0.05
    assert one["layer"] in one["not_below"]
    assert one["pairs_per_second"] > 0
    written = parse_layers((run / "layers.json").read_bytes(), "layers.json")
    layers = sorted((row.model, row.num_layers) for row in written)
    assert layers == [("all-MiniLM-L6-v2", one["layer"]), ("mine", 3)]
    assert written[0].source["rows"] == 60


def test_the_star_and_the_choice_are_of_one_test(run):
    summary = json.loads((run / "out" / "_summary.json").read_bytes())
    (one,) = summary["recommended"]
    by_layer, *_, recommended, _ = job.show_results(summary, OutputFolder(str(run / "out")))
    starred = [
        (row[by_layer.columns.index("idf")], int(row[by_layer.columns.index("layer")]), name)
        for row in by_layer.rows
        for name, cell in zip(by_layer.columns, row, strict=True)
        if cell.endswith("*")
    ]
    assert starred == [("none", layer, "F1") for layer in one["not_below"]]
    assert one["default"] not in one["not_below"]
    said = dict(recommended.rows)["registry's layer 6"]
    assert said.endswith(f"of layer {one['best']} being better, corrected for 7 layers")


def test_the_registrys_layer_goes_into_the_file_where_no_other_is_significantly_better(
    run, judgements, tmp_path, capsys
):
    shutil.copytree(run / "out", tmp_path / "out")
    layers = tmp_path / "layers.json"
    words = ("--layers", "5", "6", "--registry", str(layers), "--metrics", "none", "--idf", "none")
    assert tune(judgements, tmp_path / "out", *words, "--split-rows", "40") == 0
    printed = capsys.readouterr().out
    assert "layer: 6, the registry's\n" in printed
    (one,) = json.loads((tmp_path / "out" / "_summary.json").read_bytes())["recommended"]
    assert (one["best"], one["layer"], one["default"], one["not_below"]) == (5, 6, 6, [5, 6])
    assert one["value"] == one["default_value"] < one["best_value"]
    assert f"held out: {one['held_out_value']:.4f}: chosen on one half" in printed
    (row,) = parse_layers(layers.read_bytes(), "layers.json")
    assert row.num_layers == 6
    assert row.source["value"] == pytest.approx(one["default_value"], abs=1e-4)


def test_tables_a_picture_and_rows_to_look_at_are_written(run, table):
    folder = run / "out"
    with (folder / "agreement.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == len(table)
    assert (folder / "layers.png").read_bytes()[:4] == b"\x89PNG"
    with (folder / "differences.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["compared"] for row in rows] == ["people and f1"] * 20 + ["f1 and bleu"] * 20
    gaps = [abs(float(row["rank_people"]) - float(row["rank_f1"])) for row in rows[:20]]
    assert gaps == pytest.approx(sorted(gaps, reverse=True), abs=2e-3)  # ranks are rounded
    texts = judgement_rows()
    assert all(row["candidate"] == texts[int(row["row"])]["candidate"] for row in rows)
    assert cli.main(["check", str(folder)]) == 0
    assert cli.main(["check", str(folder), "--parts"]) == cli.UNUSABLE


def test_what_is_scored_is_not_scored_again(run, judgements, tmp_path, monkeypatch, capsys):
    shutil.copytree(run / "out", tmp_path / "out")
    monkeypatch.setattr(job.ScoreParts, "phase", None)  # would fail if it were asked for
    words = ("--layers", "3", "4", "--split-rows", "40", "--metrics", "bleu", "--json", "--quiet")
    assert tune(judgements, tmp_path / "out", *words, "--choose-by", "kendall") == 0
    printed = capsys.readouterr()
    summary = json.loads(printed.out)
    (warning,) = summary["warnings"]
    assert printed.err == f"bertscore-beam: {warning}\n"
    assert warning.startswith("Few judgements in de: 30. With 30, 95% intervals")
    assert summary["recommended"][0]["layer"] in (3, 4)
    assert summary["statistic"] == "kendall"
    assert {row["model"] for row in summary["agreement"]} == {"all-MiniLM-L6-v2", "BLEU"}


def test_scores_with_a_flipped_bit_are_refused_with_a_cure(run, judgements, tmp_path, capsys):
    folder = shutil.copytree(run / "out", tmp_path / "out")
    path = next((folder / "_manifest" / "scores").rglob("*.npz"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert tune(judgements, folder, "--split-rows", "40") == cli.UNUSABLE
    said = capsys.readouterr().err
    assert f"{path.name}' is damaged: got Bad CRC-32" in said
    assert "Delete it and run the same command again" in said


def test_models_stand_side_by_side_and_one_that_is_not_there_is_left_out(
    judgements, tiny_folder, tmp_path, capsys
):
    tiny, absent = tiny_folder("bert"), "xlm-mlm-100-1280"
    words = ("--models", "all-MiniLM-L6-v2", str(tiny), absent, "--idf", "none")
    more = ("--metrics", "none", "--resamples", "100", "--registry", str(tmp_path / "layers.json"))
    assert tune(judgements, tmp_path / "out", *words, *more) == 0
    printed = capsys.readouterr()
    assert f"{absent} was left out: model '{absent}' is neither a local folder" in printed.err
    summary = json.loads((tmp_path / "out" / "_summary.json").read_text())
    assert summary["missing"] == [absent]
    names = ["all-MiniLM-L6-v2", tiny.name]
    assert [row["model"] for row in summary["recommended"]] == names
    tuned = parse_layers((tmp_path / "layers.json").read_bytes(), "the test")
    assert sorted(row.model for row in tuned) == sorted(names)
    for row, folder in zip(summary["recommended"], (None, tiny), strict=True):
        config = ScorerConfig(model=folder, all_layers=True, backend="torch")
        model = BertScorer(config).encoder.model
        count = sum(parameter.numel() for parameter in model.parameters())
        # The files may also hold a pooler and positions.
        assert count <= row["parameters"] < 1.2 * count
        assert row["weight_bytes"] == 4 * row["parameters"]
        assert f"{row['model']}\t{row['parameters'] / 1e6:,.1f}\t" in printed.out


def test_models_that_are_all_absent_or_not_known_are_refused(judgements, tmp_path, capsys):
    for models in (["xlm-mlm-100-1280"], ["all-MiniLM-L6-v2", "roberta-lage"]):
        assert tune(judgements, tmp_path / "out", "--models", *models) == 2
        assert f"model '{models[-1]}' is neither a local folder" in capsys.readouterr().err


def test_candidates_that_equal_their_references_choose_no_layer(tmp_path, capsys):
    """Their scores are 1 but for the noise of float32."""
    copies = [{**row, "candidate": row["reference"]} for row in judgement_rows()]
    words = ("--layers", "2", "5", "--metrics", "none")
    path = write_judgements(tmp_path / "j.parquet", copies)
    assert tune(path, tmp_path / "out", *words) == cli.UNUSABLE
    assert "got a group in which all texts have the same scores in 'de', 'en'" in (
        capsys.readouterr().err
    )


def test_score_takes_the_layer_of_the_file(tmp_path):
    layers = tmp_path / "layers.json"
    runner = Runner.of(score_options())
    own = settle_workers(ScorerConfig(device="cpu"), runner.threads).signature()
    row = TunedLayer(model=own.model, weights=own.weights, num_layers=4)
    layers.write_bytes(format_layers([OTHER, row]))
    given = {"registry": str(layers), "device": "cpu"}
    config = scorer_config(score_options(**given), runner.threads)
    assert config.num_layers == 4
    assert settle_workers(config, runner.threads).signature().num_layers == "4"
    assert scorer_config(score_options(num_layers=2, **given), runner.threads).num_layers == 2


@pytest.mark.long
def test_scores_without_reasoning_are_those_of_the_answers(judgements, tmp_path, capsys):
    rows = pq.read_table(judgements)
    thoughts = [f"<think>Hm.</think>{text}" for text in rows["candidate"].to_pylist()]
    place = rows.column_names.index("candidate")
    pq.write_table(rows.set_column(place, "candidate", pa.array(thoughts)), tmp_path / "j.parquet")
    values = []
    for name, given, more in (
        ("a", judgements, []),
        ("b", tmp_path / "j.parquet", ["--strip-reasoning"]),
        ("c", tmp_path / "j.parquet", []),
    ):
        words = ["--layers", "6", "--idf", "none", "--resamples", "100", "--metrics", "rougel"]
        assert tune(given, tmp_path / name, *words, *more) == 0
        said = capsys.readouterr().err
        assert ("is in 100.0% of the candidates" in said) == (name == "c")
        summary = json.loads((tmp_path / name / "_summary.json").read_text())
        assert ("reasoning:stripped" in str(summary["signatures"])) == (name == "b")
        values.append([row["value"] for row in summary["agreement"]])
    assert values[0] == pytest.approx(values[1], abs=1e-6)
    assert values[0] != pytest.approx(values[2], abs=1e-3)


def test_score_refuses_a_file_without_its_model(tmp_path, capsys):
    layers = tmp_path / "layers.json"
    words = ["score", "--input", "configs/demo/sample", "--output", str(tmp_path / "out")]
    words += ["--registry", str(layers)]
    assert cli.main(words) == 2
    assert "there is no file of layers" in capsys.readouterr().err
    layers.write_bytes(format_layers([OTHER]))
    assert cli.main(words) == 2
    assert "names no layer for all-MiniLM-L6-v2: got rows for mine" in capsys.readouterr().err


def score_options(**changes):
    return ScoreOptions(input=("in.parquet",), output="out", **changes)


def test_a_refused_run_leaves_no_folder(judgements, tmp_path, capsys):
    assert tune(judgements, tmp_path / "out", "--layers", "7") == 2
    assert "num_layers 7 is out of range" in capsys.readouterr().err
    (tmp_path / "layers.json").write_text("{}")
    assert tune(judgements, tmp_path / "out", "--registry", str(tmp_path / "layers.json")) == 2
    assert "is not a file of layers" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_dry_run_says_what_would_be_compared(judgements, tmp_path, capsys):
    assert tune(judgements, tmp_path / "out", "--layers", "4,6", "--dry-run") == 0
    printed = capsys.readouterr().out
    assert "judgements: 60" in printed
    assert "layers of all-MiniLM-L6-v2: 4 6" in printed
    assert not (tmp_path / "out").exists()
