"""Other metrics beside BERTScore in the job: equal to sacreBLEU's however the rows are cut."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sacrebleu.metrics import BLEU, CHRF, TER

from bertscore_beam.cli import main as cli
from bertscore_beam.dump.columns import METRIC_COLUMNS
from bertscore_beam.records.group_notes import GROUPS_KEY
from bertscore_core.baseline import Baseline, format_baseline
from tests.support import corpus_tests
from tests.support.dumps import read_output
from tests.support.jobs import summary_of

pytestmark = [pytest.mark.model, pytest.mark.job]

SYSTEMS = ("alpha", "beta")
ROWS = [
    {
        "candidate": None if row == 5 else f"The ferry {row} leaves at {'nine ' * (row % 4)}.",
        "reference": f"Ferry number {row} leaves at nine o'clock.",
        "system": SYSTEMS[row % 2],
        "note": 0,
    }
    for row in range(24)
]
CORPUS = {"bleu": BLEU(), "chrf": CHRF(), "ter": TER()}
NAMES = ("bleu", "chrf", "ter", "rougel")


def write_rows(folder, rows):
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / "rows.parquet")
    return folder


def score(dump, out, *more):
    flags = ("--device", "cpu", "--backend", "torch", "--max-reject-fraction", 1, *more)
    return run("score", "--input", dump, "--output", out, *flags)


def run(*words):
    return cli.main([str(word) for word in words])


def expected(rows, name):
    scored = [row for row in rows if row["candidate"] is not None]
    texts = [row["candidate"] for row in scored]
    return CORPUS[name].corpus_score(texts, [[row["reference"] for row in scored]]).score


@pytest.fixture(scope="module")
def night(tmp_path_factory):
    folder = tmp_path_factory.mktemp("metrics")
    dump = write_rows(folder / "dump", ROWS)
    assert score(dump, folder / "scores", "--split-rows", 7, "--metrics", *NAMES) == cli.DONE
    return folder


def test_a_run_has_the_scores_of_rows_and_of_the_corpus(night, capsys):
    table, summary = read_output(night / "scores"), summary_of(night / "scores")
    rows = table.to_pylist()
    sentence = BLEU(effective_order=True)
    for row in rows:
        theirs = None
        if row["candidate"] is not None:
            theirs = sentence.sentence_score(row["candidate"], [row["reference"]]).score
        assert row["metric_bleu"] == theirs
    assert table.schema.field("metric_chrf").type == pa.float64()
    for name in CORPUS:
        assert summary["metrics"][name]["corpus"] == expected(ROWS, name)
        assert summary["metrics"][name]["signature"] == str(CORPUS[name].get_signature())
        assert summary["metrics"][name]["rows"] == 23
    rouge = [row["metric_rougel"] for row in rows if row["metric_rougel"] is not None]
    assert summary["metrics"]["rougel"]["mean"] == pytest.approx(sum(rouge) / 23, rel=1e-10)
    assert "corpus" not in summary["metrics"]["rougel"]
    capsys.readouterr()
    assert cli.main(["groups", str(night / "scores"), "--by", "system", "--json"]) == cli.DONE
    _, *groups = json.loads(capsys.readouterr().out)["groups"]
    for group in groups:
        own = [row for row in ROWS if row["system"] == group["group"]["system"]]
        for name in CORPUS:
            assert group[f"metric_{name}"] == expected(own, name)
        assert group["metric_rougel_rows"] == group["scored"]
    page = night / "page.html"
    assert run("report", night / "scores", "--by", "system", "--output", page) == cli.DONE
    for group in (summary["metrics"]["ter"]["corpus"], *(group["metric_ter"] for group in groups)):
        assert f">{group:.2f}<" in page.read_text()


def test_other_splits_groups_and_reuse_give_the_same_and_compute_again(night):
    changed = [{**row, "reference": "Something else."} if row == ROWS[0] else row for row in ROWS]
    dump = write_rows(night / "changed", changed)
    out, more = night / "second", ("--reuse", night / "scores", "--by", "system")
    assert score(dump, out, "--split-rows", 24, "--metrics", *NAMES, *more) == cli.DONE
    summary = summary_of(out)
    assert summary["reused"] == 22
    for name in CORPUS:
        assert summary["metrics"][name]["corpus"] == expected(changed, name)
    assert summary["groups"]["shown"][0]["metric_bleu"] == expected(changed[::2], "bleu")
    columns = [name for name in METRIC_COLUMNS if name in read_output(out).column_names]
    first, second = read_output(night / "scores"), read_output(out)
    assert first.select(columns).slice(1).equals(second.select(columns).slice(1))


def test_parts_that_are_written_again_have_the_same_metrics(night):
    out = night / "kept"
    dump = write_rows(night / "again", ROWS)
    assert score(dump, out, "--split-rows", 7, "--metrics", *NAMES) == cli.DONE
    before = read_output(out)
    write_rows(dump, [{**row, "note": 1} for row in ROWS])
    assert score(dump, out, "--split-rows", 7, "--metrics", *NAMES) == cli.DONE
    after, summary = read_output(out), summary_of(out)
    assert (summary["reused"], summary["batches"]) == (summary["scored"], 0)
    assert summary["metrics"] == summary_of(night / "scores")["metrics"]
    assert after["note"].to_pylist() == [1] * 24
    assert after.drop_columns("note").equals(before.drop_columns("note"))


def noted_in(output):
    """Return what the parts note of their sums."""
    parts = sorted(output.glob("*.parquet/*.parquet"))
    return [pq.read_metadata(part).metadata[GROUPS_KEY] for part in parts]


def test_a_rescaled_run_keeps_its_metrics(night):
    table, out = night / "table.tsv", night / "rescaled"
    table.write_text(format_baseline(Baseline(name="custom", rows=np.full((7, 3), 0.3))))
    assert run("rescale", night / "scores", "--baseline", table, "--output", out) == cli.DONE
    first, second = read_output(night / "scores"), read_output(out)
    columns = [name for name in METRIC_COLUMNS if name in first.column_names]
    assert len(columns) == 7
    assert first.select(columns).equals(second.select(columns))
    assert summary_of(out)["metrics"] == summary_of(night / "scores")["metrics"]
    given = ("--split-rows", 7, "--metrics", *NAMES, "--reuse", night / "scores")
    given += ("--rescale", "--baseline", table)
    assert score(night / "dump", night / "at once", *given) == cli.DONE
    assert noted_in(out) == noted_in(night / "at once")
    assert len(noted_in(out)) == 4


def test_a_folder_holds_one_choice_of_metrics(night, capsys):
    assert score(night / "dump", night / "scores", "--metrics", "chrf") == cli.UNUSABLE
    assert "metrics" in capsys.readouterr().err
    assert score(night / "dump", night / "plain", "--metrics", "METEOR") == cli.UNUSABLE
    assert "names of bleu, chrf, chrf++, ter, rougel" in capsys.readouterr().err
    assert not (night / "plain").exists()
    assert score(night / "dump", night / "plain") == cli.DONE
    assert not set(METRIC_COLUMNS) & set(read_output(night / "plain").column_names)
    assert summary_of(night / "plain")["metrics"] is None


def moved(row):
    """Return a candidate that is better in some rows, and worse in others."""
    number = int(row["candidate"].split()[2])
    return row["reference"].replace("Ferry", "A") if number % 5 == 0 else f"{row['candidate']} Now"


def test_runs_are_compared_by_metrics_and_columns_as_by_sacrebleu(night, capsys):
    texts = [row["candidate"] and moved(row) for row in ROWS]
    changed = [{**row, "candidate": texts[at], "note": at % 3} for at, row in enumerate(ROWS)]
    out = night / "changed-scores"
    dump = write_rows(night / "changed-dump", changed)
    assert score(dump, out, "--metrics", *NAMES) == cli.DONE
    capsys.readouterr()
    words = [str(word) for word in ("compare", out, night / "scores", "--json", "--measure")]
    assert cli.main([*words, *NAMES, "note"]) == cli.DONE
    found = {one["measure"]: one for one in json.loads(capsys.readouterr().out)["comparisons"]}
    first = [row["candidate"] for row in ROWS if row["candidate"]]
    second = [text for text in texts if text]
    references = [[row["reference"] for row in ROWS if row["candidate"]]]
    for name, metric in CORPUS.items():
        sign = -1 if name == "ter" else 1
        corpus = found[name]["whole"]["corpus"]
        assert corpus["score"] == sign * metric.corpus_score(second, references).score
        sides = (metric, first, second, references)
        for p_value, theirs, samples in (
            ("randomization_p", corpus_tests.randomization_p(*sides), corpus_tests.SWAPS),
            ("bootstrap_p", corpus_tests.bootstrap(*sides)[0], corpus_tests.SAMPLES),
        ):
            assert 0.01 < theirs < 0.99
            error = np.sqrt(theirs * (1 - theirs) / samples)
            assert corpus[p_value] == pytest.approx(theirs, abs=6 * error)
    table, before = read_output(out), read_output(night / "scores")
    for name, column in (("chrf", "metric_chrf"), ("rougel", "metric_rougel"), ("note", "note")):
        now, then = (np.array(one[column].to_pylist(), float) for one in (table, before))
        change = now - then
        own = change[~np.isnan(change)].mean()
        assert found[name]["whole"]["result"]["difference"] == pytest.approx(own, rel=1e-12)
        assert found[name]["settings"]["noise"] == 0
    assert found["note"]["whole"]["corpus"] is None
    assert cli.main([*words, "system"]) == cli.UNUSABLE
    assert "got type string 'system'; expected numbers" in capsys.readouterr().err
    assert cli.main([*words, "chrf++"]) == cli.UNUSABLE
    assert "Score it with --metrics chrf++" in capsys.readouterr().err
