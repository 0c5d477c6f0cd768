"""A metric of one's own in the job: columns, groups, comparison, gate and page like the others."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.run.output import WORSE
from bertscore_core.baseline import Baseline, format_baseline
from tests.support import own_metrics
from tests.support.dumps import read_output
from tests.support.jobs import summary_of

pytestmark = [pytest.mark.model, pytest.mark.job]

ROOT = Path(__file__).resolve().parents[3]
HERE = "tests.support.own_metrics"
NAMES = ("bleu", f"{HERE}:overlap", f"{HERE}:copied", "comet_metric:comet", f"{HERE}:sized")
COMET = """
from types import SimpleNamespace

class Model:
    def predict(self, rows, gpus):
        assert gpus == 0
        scores = [len(row["mt"]) / len(row["ref"] + row["src"]) for row in rows]
        return SimpleNamespace(scores=scores)

def download_model(name):
    return name

def load_from_checkpoint(path):
    return {"Unbabel/wmt22-comet-da": Model()}[path]
"""
"""In place of COMET, whose weights are a download of gigabytes: no more than the page calls."""
ROWS = [
    {
        "candidate": {4: None, 5: ""}.get(row, f"Die Fähre {row} leaves at nine ."),
        "reference": [f"Ferry {row} leaves at nine.", f"At nine leaves {row}"][: 1 + row % 2],
        "source": None if row == 6 else f"Die Fähre {row} fährt um neun",
        "system": "ab"[row % 2],
    }
    for row in range(130)
]


def write_rows(folder, rows):
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / "rows.parquet")
    return folder


def run(*words):
    return cli.main([str(word) for word in words])


def score(dump, out, *more, metrics=NAMES, source=("--source-column", "source")):
    flags = ("--device", "cpu", "--backend", "torch", "--max-reject-fraction", 1)
    return run(
        "score", "--input", dump, "--output", out, *flags, "--metrics", *metrics, *source, *more
    )


@pytest.fixture(scope="module")
def night(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    page = (ROOT / "docs" / "groups.md").read_text(encoding="utf-8")
    (folder / "comet.py").write_text(COMET)
    (folder / "comet_metric.py").write_text(page.partition("```py\n")[2].partition("```")[0])
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", f"{folder}:{ROOT}:{ROOT}/pipelines")
        dump = write_rows(folder / "dump", ROWS)
        assert score(dump, folder / "scores", "--by", "system", "--split-rows", 50) == cli.DONE
        yield folder


def expected(rows, name):
    """Return what the functions return of the rows that they are given."""
    own = [row for row in rows if row["candidate"] is not None]
    if name == "copied":
        own = [row for row in own if row["source"] is not None]
    columns = ["candidate", "reference", *(["source"] if name == "copied" else [])]
    texts = [[row[column] for row in own] for column in columns]
    values = iter(getattr(own_metrics, name)(*texts))
    has = [row in own for row in rows]
    return [None if not there or (one := next(values)) is None else float(one) for there in has]


def test_rows_groups_and_summary_have_its_numbers_and_count_rows_without(night):
    table, summary = read_output(night / "scores"), summary_of(night / "scores")
    for name in ("overlap", "copied"):
        values = expected(ROWS, name)
        assert table[f"metric_{name}"].to_pylist() == values
        found = summary["metrics"][name]
        there = [value for value in values if value is not None]
        assert found["mean"] == pytest.approx(np.mean(there), rel=1e-10)
        assert (found["rows"], found["missing"]) == (len(there), 129 - len(there))
        assert "corpus" not in found
        for group in summary["groups"]["shown"]:
            own = [
                one for one in values["ab".index(group["group"]["system"]) :: 2] if one is not None
            ]
            assert group[f"metric_{name}_mean"] == pytest.approx(np.mean(own), rel=1e-10)
    assert summary["metrics"]["copied"]["lower_is_better"] is True
    assert summary["metrics"]["overlap"]["signature"].startswith(
        f"function:{HERE}:overlap|version:"
    )
    assert list(summary["metrics"]) == ["bleu", "comet", "copied", "overlap", "sized"]
    for rows, found in (
        (ROWS, summary["metrics"]["sized"]["mean"]),
        *((ROWS[at::2], summary["groups"]["shown"][at]["metric_sized_mean"]) for at in (0, 1)),
    ):
        there = [Fraction(one) for one in expected(rows, "sized") if one is not None]
        assert found == float(sum(there) / len(there)) > 1e307
    usable = [row for row in ROWS if None not in (row["candidate"], row["source"])]
    lengths = [len(one["candidate"]) / len(one["reference"][0] + one["source"]) for one in usable]
    assert table["metric_comet"].drop_null().to_pylist() == lengths
    assert summary["metrics"]["comet"]["signature"].endswith("|version:wmt22-comet-da|sources")


def test_a_metric_that_has_changed_is_another_one(night, tmp_path, capsys):
    (tmp_path / "mine.py").write_text(
        "def one(candidates, references):\n    return [0.25] * len(candidates)\n"
    )
    dump, out = write_rows(night / "few", ROWS[:3]), night / "changing"
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}:{ROOT}/pipelines")
        own = {"metrics": ("mine:one",), "source": ()}
        assert score(dump, out, **own) == cli.DONE
        assert read_output(out)["metric_one"].to_pylist() == [0.25] * 3
        # A part whose other columns have changed is written again.
        write_rows(dump, [{**row, "system": "c"} for row in ROWS[:3]])
        assert score(dump, out, **own) == cli.DONE
        assert summary_of(out)["reused"] == 3
        assert read_output(out)["metric_one"].to_pylist() == [0.25] * 3
        path = tmp_path / "mine.py"
        # Of another size: Python would take its own copy of a file of equal size and second.
        path.write_text("def one(candidates, references):\n    return [None for _ in candidates]\n")
        capsys.readouterr()
        assert score(dump, out, **own) == cli.UNUSABLE
        assert "own_metrics" in capsys.readouterr().err
        # `--reuse` takes the scores of the model alone.
        reused = ("--reuse", out)
        assert score(dump, night / "other", *reused, **own) == cli.DONE
    assert "one: no row has a number." in capsys.readouterr().err
    assert summary_of(night / "other")["reused"] == 3
    assert read_output(night / "other")["metric_one"].to_pylist() == [None] * 3
    assert run("compare", night / "other", out, "--measure", "one") == cli.UNUSABLE
    assert "one of " in capsys.readouterr().err
    assert run("compare", night / "other", out, "--measure", "no") == cli.UNUSABLE
    assert "rougel, one." in capsys.readouterr().err


def test_changed_sources_are_measured_again(night):
    dump, out = write_rows(night / "sourced", ROWS[:4]), night / "sourced-scores"
    assert score(dump, out) == cli.DONE
    changed = [{**row, "source": "leaves at nine ."} for row in ROWS[:4]]
    write_rows(dump, changed)
    assert score(dump, out) == cli.DONE
    assert (summary_of(out)["parts_kept"], summary_of(out)["reused"]) == (0, 4)
    assert read_output(out)["metric_copied"].to_pylist() == [4.0] * 4


def test_what_cannot_work_is_refused_before_a_model_runs(night, capsys):
    out, dump = night / "none", night / "dump"
    for metrics, source, words in (
        (("nowhere:name",), (), "--metrics nowhere:name cannot be imported"),
        ((f"{HERE}:copied",), (), "missing a required argument: 'sources'"),
        ((f"{HERE}:overlap",), ("--source-column", "source"), "for metrics that take sources"),
        ((f"{HERE}:copied",), ("--source-column", "src"), "no source column 'src'"),
        ((f"{HERE}:copied",), ("--source-column", "reference"), "holds no texts"),
    ):
        assert score(dump, out, metrics=metrics, source=source) == cli.UNUSABLE
        said = capsys.readouterr().err
        assert words in said
        assert f"Importing {metrics[0]} ...\n" in said
    taken = write_rows(night / "taken", [{**ROWS[0], "metric_overlap": 1.0}])
    assert score(taken, out, metrics=(f"{HERE}:overlap",), source=()) == cli.UNUSABLE
    assert "metric_overlap" in capsys.readouterr().err
    assert not out.exists()


def test_a_metric_that_fails_ends_the_run_with_its_place_and_no_text(night, capsys):
    out = night / "failed"
    metrics = (f"{HERE}:failing",)
    assert score(night / "few", out, metrics=metrics, source=()) == cli.BROKEN
    said = capsys.readouterr().err
    assert f"the metric {HERE}:failing has failed: got ValueError at {own_metrics.__file__}" in said
    assert "cannot read" not in said


@pytest.mark.usefixtures("few_resamples")
def test_it_is_compared_gated_and_shown_and_lower_may_be_better(night, tmp_path, capsys):
    worse = [
        {**row, "candidate": row["candidate"] and f"{row['candidate']} {row['source']}"}
        for row in ROWS
    ]
    out = night / "worse"
    assert score(write_rows(night / "worse-dump", worse), out) == cli.DONE
    words = [str(out), str(night / "scores"), "--by", "system", "--fail-if-drop", "0.001"]
    words += ["--measure", "f1", "copied", "overlap"]
    capsys.readouterr()
    assert run("compare", *words, "--json") == WORSE
    compared = json.loads(capsys.readouterr().out)
    found = {one["measure"]: one for one in compared["comparisons"]}
    for name, sign in (("copied", -1), ("overlap", 1)):
        both = zip(expected(worse, name), expected(ROWS, name), strict=True)
        own = [sign * (now - then) for now, then in both if None not in (now, then)]
        assert found[name]["whole"]["result"]["difference"] == pytest.approx(np.mean(own))
    assert found["copied"]["whole"]["gate"]["failures"]
    page = tmp_path / "page.html"
    assert run("report", words[0], "--against", *words[1:], "-o", page) == WORSE
    text = page.read_text()
    assert "Change of copied" in text
    assert "all rows, copied: " in text
    assert "gate: it is lower by more than 0.001" in text.partition("all rows, copied: ")[2][:600]
    assert ">mean copied, lower is better<" in text
    assert ">mean overlap<" in text
    assert run("groups", out) == cli.DONE
    said = capsys.readouterr().out
    assert "mean copied, lower is better\tmean overlap\tmean sized" in said
    assert f"\t{summary_of(out)['metrics']['sized']['mean']:.3e}\n" in said
    assert run("groups", out, "--json") == cli.DONE
    grouped = json.loads(capsys.readouterr().out)
    assert grouped["groups"][0]["metric_copied_rows"] == 128


def test_a_rescaled_run_keeps_it(night):
    table, out = night / "table.tsv", night / "rescaled"
    table.write_text(format_baseline(Baseline(name="custom", rows=np.full((7, 3), 0.3))))
    assert run("rescale", night / "scores", "--baseline", table, "--output", out) == cli.DONE
    columns = ["metric_copied", "metric_overlap"]
    assert read_output(out).select(columns).equals(read_output(night / "scores").select(columns))
    assert summary_of(out)["metrics"] == summary_of(night / "scores")["metrics"]
    shown = summary_of(out)["groups"]["shown"][0]
    assert (
        shown["metric_copied_mean"]
        == summary_of(night / "scores")["groups"]["shown"][0]["metric_copied_mean"]
    )


def test_bleu_of_texts_that_look_tokenized_gives_a_warning_once(night, capsys):
    command = ("--by", "system", "--split-rows", 50)
    assert score(night / "dump", night / "scores", *command) == cli.DONE  # all is done
    said = capsys.readouterr().err
    assert said.count("128 candidates end in ' .': they look tokenized, which moves BLEU.") == 1
    assert summary_of(night / "scores")["tokenized"] == 128
    assert summary_of(night / "other")["tokenized"] == 0  # only BLEU depends on it
    page = night / "tokenized.html"
    assert run("report", night / "scores", "-o", page) == cli.DONE
    assert "128 candidates end in" in page.read_text()
