"""Texts beyond the maximum length in the job: cut, rejected, or scored in windows."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.cli import main as cli
from bertscore_core import BertScorer, ScorerConfig, Signature
from tests.support.dumps import read_output
from tests.support.jobs import run_job

pytestmark = pytest.mark.job

LENGTH = 16
LONG = " ".join(f"the {word} sat on a mat" for word in ("cat", "dog", "fox", "old king", "mouse"))
ROWS = {
    "candidate": ["a cat sat", LONG, None, "the dog barks"],
    "reference": [["the cat sat"], ["a cat", "a dog"], ["a cat"], ["a dog", f"no, {LONG}"]],
}


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dump")
    pq.write_table(pa.table(ROWS), folder / "pairs.parquet")
    return folder


@pytest.fixture(scope="module")
def scored(dump, tmp_path_factory):
    """Run the job once under every rule; return each folder and summary."""
    found = {}
    for rule in ("truncate", "error", "windows"):
        out = tmp_path_factory.mktemp(rule) / "out"
        summary = run_job(dump, output=out, long_text=rule, max_length=LENGTH, idf="corpus")
        found[rule] = out, summary
    return found


def column(out, name):
    return read_output(out)[f"bertscore_{name}"].to_pylist()


def library(rule):
    """Score the rows that have texts without the job."""
    kept = [row for row in range(4) if ROWS["candidate"][row] is not None]
    given = {"long_text": rule, "max_length": LENGTH, "empty": "zero"}
    scorer = BertScorer(ScorerConfig(**given, idf=True, device="cpu"))
    idf = scorer.count_idf(ROWS["reference"])
    texts = [[ROWS[name][row] for row in kept] for name in ("candidate", "reference")]
    return scorer.score(*texts, idf=idf), idf


def test_windows_score_every_row_as_the_library_does(scored):
    out, summary = scored["windows"]
    expected, idf = library("windows")
    f1 = np.array(column(out, "f1"), dtype=np.float32)
    np.testing.assert_allclose(f1[[0, 1, 3]], expected.f1, atol=1e-6, rtol=0)
    assert column(out, "windows") == [1, expected.windows[1], None, expected.windows[2]]
    assert min(expected.windows[1:]) > 2
    assert column(out, "truncated") == [False, False, None, False]
    assert column(out, "candidate_tokens")[1] == expected.candidate_tokens[1] > LENGTH
    assert (summary["scored"], summary["windowed"], summary["truncated"]) == (3, 2, 0)
    signature = Signature.parse(summary["signature"])
    assert (signature.long_text, signature.max_length) == ("windows", str(LENGTH))
    assert signature.idf == idf.fingerprint


def test_error_rejects_rows_with_a_text_too_long(scored):
    out, summary = scored["error"]
    assert column(out, "error") == [None, "too_long", "null_candidate", "too_long"]
    assert [value is None for value in column(out, "f1")] == [False, True, True, True]
    assert column(out, "candidate_tokens")[1:] == [None] * 3  # they are not counted to the end
    assert summary["reasons"] == {"null_candidate": 1, "too_long": 2}
    assert (summary["rejected"], summary["truncated"], summary["windowed"]) == (3, 0, 0)
    listed = pq.read_table(out / "_rejects").to_pylist()
    reasons = {line["row"]: line["reason"] for line in listed}
    assert reasons == {1: "too_long", 2: "null_candidate", 3: "too_long"}
    assert "|long_text:error|" in summary["signature"]


def test_nothing_changes_where_texts_are_cut(scored):
    out, summary = scored["truncate"]
    assert "bertscore_windows" not in read_output(out).column_names
    assert column(out, "truncated") == [False, True, None, True]
    assert (summary["truncated"], summary["windowed"]) == (2, 0)
    assert "long_text" not in summary["signature"]
    run = json.loads((out / "_run.json").read_text())
    assert "long_text" not in run["identity"]
    assert column(scored["error"][0], "f1")[0] == pytest.approx(column(out, "f1")[0], abs=1e-6)


def test_a_table_counted_over_cut_texts_weighs_no_windows(scored, dump, tmp_path, capsys):
    table = str(tmp_path / "cut.npz")
    flags = ["--input", str(dump), "--max-length", str(LENGTH)]
    assert cli.main(["idf", *flags, "--output", table]) == cli.DONE
    command = ["score", *flags, "--output", str(tmp_path / "out"), "--idf", table, "--dry-run"]
    assert cli.main([*command, "--long-text", "error"]) == cli.DONE
    assert cli.main([*command, "--long-text", "windows"]) == cli.UNUSABLE
    assert f"at length {LENGTH}; the model has" in capsys.readouterr().err
