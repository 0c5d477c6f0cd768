"""Tables of scores with idf weights: what they are made with, and who rescales with them."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.cli.main import main
from bertscore_beam.run.output import DONE
from bertscore_core import BertScorer, IdfTable, ScorerConfig, Signature
from tests.support.crawl_texts import sentences
from tests.support.crawls import description, run_given
from tests.support.dumps import read_output

pytestmark = pytest.mark.job

PLAIN, TABLE = "en/bert.json", "en/bert.idf.json"


@pytest.fixture(scope="module")
def made(tmp_path_factory, model):
    """Return a folder with a table of each kind, from the same pairs."""
    folder = tmp_path_factory.mktemp("idf")
    (folder / "made.txt").write_text("\n".join(sentences("en", 300, 5)))
    for more in ({}, {"idf": True}):
        assert run_given(model, folder / "out", folder / "made.txt", pairs=150, **more) == DONE
    return folder / "out"


def test_weights_are_counted_over_the_pairs_which_both_tables_share(made, model):
    pairs = pa.concat_tables(map(pq.read_table, (made / "_pairs" / "en").glob("*.parquet")))
    sides = [pairs[name].to_pylist() for name in ("candidate", "reference")]
    config = ScorerConfig(
        model=str(model), idf=True, all_layers=True, layer_semantics="cut", device="cpu"
    )
    scorer = BertScorer(config)
    (path,) = (made / "_idf" / "en" / "bert.idf").iterdir()
    weights = IdfTable.from_bytes(path.read_bytes())
    assert weights.frequencies == scorer.count_idf([*sides[0], *sides[1]]).frequencies
    assert weights.frequencies.num_documents == 300
    said = [description(made, name) for name in (TABLE, PLAIN)]
    signatures = [Signature.parse(one["signature"]) for one in said]
    assert [first.idf for first in signatures] == [weights.fingerprint, "none"]
    assert len({one["sample"]["pairs_digest"] for one in said}) == 1
    weighted, plain = (np.array([layer["f1"]["mean"] for layer in one["layers"]]) for one in said)
    scored = scorer.score(*sides, idf=weights).f1.mean(axis=1)
    assert weighted == pytest.approx(scored, abs=1e-5)
    assert np.abs(weighted - plain).max() > 1e-3


@pytest.mark.parametrize(
    ("idf", "table", "expected", "notice"),
    [
        ("corpus", "", "bert.idf", ""),
        ("corpus", "en/bert.tsv", "custom", "with idf weights are rescaled with baseline"),
        ("none", "en/bert.idf.tsv", "custom", "without idf weights are rescaled with baseline"),
    ],
)
def test_scores_take_the_table_of_their_kind(
    made, model, tmp_path, capsys, idf, table, expected, notice
):
    texts = sentences("en", 40, 6)
    rows = pa.table({"candidate": texts[:20], "reference": texts[20:]})
    pq.write_table(rows, tmp_path / "rows.parquet")
    score = f"score --input {tmp_path}/rows.parquet --output {tmp_path}/scored --model {model}"
    score += f" --num-layers 1 --language en --rescale --idf {idf} --device cpu"
    # `rescale` chooses by the same rule, and says the same.
    for words in (score, f"rescale {tmp_path}/scored --output {tmp_path}/again"):
        assert main([*words.split(), "--baseline", str(made / table)]) == DONE
        said = capsys.readouterr().err
        assert ("Notice: scores" in said) == bool(notice)
        assert notice in said
    summary = json.loads((tmp_path / "scored" / "_summary.json").read_text())
    signature = Signature.parse(summary["signature"])
    assert signature.baseline.partition("@")[0].rpartition("/")[2] == expected
    rescaled, scored = read_output(tmp_path / "again"), read_output(tmp_path / "scored")
    assert np.isfinite(scored["bertscore_f1"].to_numpy()).all()
    assert rescaled["bertscore_f1"].equals(scored["bertscore_f1"])
