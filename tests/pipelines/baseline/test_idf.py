"""Tables of scores with idf weights: what they are made with, and who rescales with them."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_core import BertScorer, IdfTable, ScorerConfig, Signature
from pipelines.cli.main import main
from pipelines.run.exit_status import DONE
from tests.support.crawl_texts import sentences
from tests.support.crawls import description, run_given
from tests.support.dumps import read_output

pytestmark = pytest.mark.job

MODEL = "all-MiniLM-L6-v2"
PLAIN, TABLE = f"en/{MODEL}.json", f"en/{MODEL}.idf.json"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a folder with a table of each kind, from the same pairs."""
    folder = tmp_path_factory.mktemp("idf")
    (folder / "made.txt").write_text("\n".join(sentences("en", 300, 5)))
    for more in ({}, {"idf": True}):
        made = run_given(MODEL, folder / "out", folder / "made.txt", pairs=150, **more)
        assert made == DONE
    return folder / "out"


def paired(made):
    return pa.concat_tables(map(pq.read_table, (made / "_pairs" / "en").glob("*.parquet")))


def weights(made):
    return IdfTable.from_bytes((made / "_idf" / "en" / f"{MODEL}.idf.npz").read_bytes())


def test_weights_are_counted_over_the_sentences_of_the_pairs(made, scorer):
    pairs = paired(made)
    texts = [*pairs["candidate"].to_pylist(), *pairs["reference"].to_pylist()]
    found = weights(made)
    assert found.frequencies == scorer.count_idf(texts).frequencies
    assert found.frequencies.num_documents == 300
    signatures = [Signature.parse(description(made, name)["signature"]) for name in (TABLE, PLAIN)]
    assert [one.idf for one in signatures] == [found.fingerprint, "none"]


def test_means_are_those_of_weighted_scores(made):
    pairs = paired(made)
    weighing = BertScorer(ScorerConfig(model=MODEL, idf=True, device="cpu"))
    sides = (pairs[name].to_pylist() for name in ("candidate", "reference"))
    mean = weighing.score(*sides, idf=weights(made)).f1.mean()
    said = description(made, TABLE)["layers"][6]["f1"]["mean"]
    assert said == pytest.approx(mean, abs=1e-5)
    plain = description(made, PLAIN)["layers"][6]["f1"]
    assert abs(said - plain["mean"]) > plain["standard_error"] / 10  # 150 pairs: .004


def test_both_tables_are_of_the_same_pairs(made):
    digests = {description(made, name)["sample"]["pairs_digest"] for name in (TABLE, PLAIN)}
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("idf", "table", "expected", "notice"),
    [
        ("corpus", "", f"{MODEL}.idf", ""),
        ("none", f"en/{MODEL}.idf.tsv", "custom", "without idf weights are rescaled with baseline"),
    ],
)
def test_scores_take_the_table_of_their_kind(made, tmp_path, capsys, idf, table, expected, notice):
    texts = sentences("en", 40, 6)
    rows = pa.table({"candidate": texts[:20], "reference": texts[20:]})
    pq.write_table(rows, tmp_path / "rows.parquet")
    words = ["score", "--input", tmp_path / "rows.parquet", "--output", tmp_path / "scored"]
    words += ["--model", MODEL, "--language", "en", "--rescale", "--baseline", made / table]
    assert main([*map(str, words), "--idf", idf, "--device", "cpu"]) == DONE
    said = capsys.readouterr().err
    assert ("Notice: scores" in said) == bool(notice)
    assert notice in said
    summary = json.loads((tmp_path / "scored" / "_summary.json").read_text())
    signature = Signature.parse(summary["signature"])
    assert signature.baseline.partition("@")[0].rpartition("/")[2] == expected
    assert np.isfinite(read_output(tmp_path / "scored")["bertscore_f1"].to_numpy()).all()
