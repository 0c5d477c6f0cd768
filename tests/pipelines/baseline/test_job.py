"""The baseline job: what it makes, and the same tables however the work is done."""

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.baseline.layer_moments import sum_scores
from bertscore_beam.crawl.sampling import HOST_COLUMNS
from bertscore_beam.run.output import DONE, TOO_MANY_REJECTS
from bertscore_core import BertScorer, ScorerConfig, parse_baseline
from bertscore_core.work import Work
from tests.support.crawls import read_tables, run_baseline
from tests.support.s3 import s3_bucket
from tests.support.tolerances import INVARIANCE_ATOL


def test_table_is_what_scoring_each_layer_alone_gives(finished, model):
    files = sorted((finished / "_pairs" / "en").glob("*.parquet"))
    pairs = pa.concat_tables(map(pq.read_table, files)).to_pydict()
    assert len(pairs["candidate"]) == 120
    table = parse_baseline((finished / "en" / "bert.tsv").read_text(), "it")
    for layer, row in enumerate(table.rows):
        config = ScorerConfig(model=str(model), num_layers=layer, device="cpu")
        scores = BertScorer(config).score(pairs["candidate"], pairs["reference"])
        means = [scores.precision.mean(), scores.recall.mean(), scores.f1.mean()]
        np.testing.assert_allclose(row, means, atol=1e-5)
    assert layer == 3


def test_pairs_with_a_text_of_nothing_but_special_tokens_are_left_out(model):
    config = {"model": str(model), "num_layers": 3, "all_layers": True, "empty": "null"}
    scorer = BertScorer(ScorerConfig(**config, device="cpu"))
    hosts = dict.fromkeys(HOST_COLUMNS, pa.nulls(4))
    texts = {
        "candidate": ["the cat sat", "[SEP] [SEP]", "a dog", ""],
        "reference": ["a dog barked", "the cat", "[CLS]", "a"],
    }
    pairs = pa.table(texts | hosts)
    result = sum_scores(scorer, pairs, Work())
    expected = sum_scores(scorer, pairs.slice(0, 1), Work())
    np.testing.assert_allclose(result.means, expected.means, atol=INVARIANCE_ATOL)


def test_language_that_is_not_there_gets_no_table(tmp_path, crawl, model, capsys):
    output = tmp_path / "out"
    status = run_baseline(crawl, output, model, "--languages", "en,is")
    assert status == TOO_MANY_REJECTS
    assert "numbers of sentences: is 0; expected at least two" in capsys.readouterr().err
    assert (output / "en" / "bert.tsv").exists()
    assert not (output / "is").exists()
    assert not (output / "_SUCCESS").exists()


def test_dry_run_writes_nothing(tmp_path, crawl, model, capsys):
    assert run_baseline(crawl, tmp_path / "out", model, "--dry-run") == DONE
    assert "files listed: en 4, de 4" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()


def test_object_store_gives_and_takes_the_same_tables(tmp_path, crawl, model, tables):
    with s3_bucket() as bucket:
        store = fsspec.filesystem("s3")
        store.put(str(crawl / "crawl-data"), f"{bucket}/crawl/crawl-data", recursive=True)
        assert run_baseline(f"{bucket}/crawl/", f"{bucket}/out", model) == DONE
        store.get(f"{bucket}/out/", str(tmp_path / "out"), recursive=True)
    assert read_tables(tmp_path / "out") == tables
