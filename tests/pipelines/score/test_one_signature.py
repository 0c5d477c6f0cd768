"""Equal signatures mean equal scores: library, tables, handler, job and ScorePairs."""

from operator import itemgetter

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.dump.columns import TableFields
from bertscore_beam.pairs.handler import BertScoreModelHandler
from bertscore_beam.pairs.transform import ScorePairs
from bertscore_core import BertScorer, ScorerConfig, Signature
from tests.support.dumps import read_output
from tests.support.jobs import run_job
from tests.support.scoring import score_all_rows
from tests.support.streamed_pairs import Keep, kept_in

PAIRS = [
    ("one two three", ["two three one"]),
    ("", ["one two"]),
    ("one two", ["  "]),
    ("", [""]),
    ("\u200b\ufeff", ["two"]),
    ("a", ["a b c"]),
    ("rivers bend", ["a"]),
    ("a", ["b"]),
    ("one two", ["", "two one", "three"]),
    ("one two", ["", " "]),
    ("", ["one", "two three"]),
    ("rivers bend", ["a", "rivers"]),
    ("the rivers bend slowly", ["the rivers bend slowly", "no"]),
    (" one\u00a0", ["one", "one"]),
]
CANDIDATES = [candidate for candidate, _ in PAIRS]
REFERENCES = [references for _, references in PAIRS]
TABLE = pa.table({"candidate": CANDIDATES, "reference": REFERENCES})
MODEL = {"num_layers": 2, "max_length": 48, "backend": "torch"}
FIELDS = TableFields(candidate_column="candidate", reference_column="reference")
NAMES = ("precision", "recall", "f1", "best_reference", "candidate_tokens", "truncated")

# (rule, idf, rescaled): every rule, and the rule of the job with all that moves a score beside it.
WAYS = [
    ("reference", False, False),
    ("null", False, False),
    ("zero", False, False),
    ("zero", True, False),
    ("zero", False, True),
    ("null", True, True),
]


@pytest.fixture(scope="module")
def baseline(tmp_path_factory):
    path = tmp_path_factory.mktemp("baseline") / "table.csv"
    path.write_text("LAYER,P,R,F\n" + "".join(f"{n},0.3,0.2,0.25\n" for n in range(4)))
    return str(path)


@pytest.fixture
def ways(tiny_folder, baseline):
    """Return configurations of a family by what they do."""

    def config(family, rule, idf, rescaled):
        rescaling = {"rescale": rescaled, "baseline": baseline if rescaled else None}
        model = {"model": str(tiny_folder(family)), **MODEL}
        return ScorerConfig(**model, device="cpu", empty=rule, idf=idf, **rescaling)

    return config


def of_library(scorer, table):
    """What the library gives, None where there is no number."""
    scores = scorer.score(CANDIDATES, REFERENCES, idf=table)
    kept = scores.scored
    return {
        name: [
            value if keep or name in NAMES[4:] else None
            for value, keep in zip(getattr(scores, name).tolist(), kept, strict=True)
        ]
        for name in NAMES
    }


def of_columns(table):
    return {name: table[f"bertscore_{name}"].to_pylist() for name in NAMES}


KINDS = ("bert", "roberta", "t5", "byt5", "xlnet")
"""One of each kind of tokenizer, with a prefix space and padding on the left among them.

What tables, handlers and pipelines add does not depend on the family; the library's own scores are
compared for every family in tests/core.
"""


@pytest.mark.parametrize("family", KINDS)
def test_library_table_and_handler_agree_to_the_bit(family, ways, tmp_path):
    for rule, idf, rescaled in WAYS:
        config = ways(family, rule, idf, rescaled)
        scorer = BertScorer(config)
        table = scorer.count_idf(REFERENCES) if idf else None
        expected = of_library(scorer, table)
        signature = scorer.signature(table)
        assert signature.empty == rule
        found = score_all_rows(scorer, TABLE, FIELDS, idf=table).table
        assert of_columns(found) == expected
        assert found.schema.metadata[b"bertscore.signature"].decode() == signature.format()
        handler = BertScoreModelHandler(config, idf=table)
        results = handler.run_inference(TABLE.to_pylist(), handler.load_model())
        assert {result.model_id for result in results} == {signature.format()}
        for name in NAMES:
            assert [getattr(result.inference, name) for result in results] == expected[name]


@pytest.mark.parametrize("family", KINDS)
def test_job_and_score_pairs_give_the_librarys_scores_under_its_signature(
    family, ways, baseline, tmp_path
):
    config = ways(family, "zero", idf=True, rescaled=True)
    scorer = BertScorer(config)
    table = scorer.count_idf(REFERENCES)
    saved = tmp_path / "idf.npz"
    saved.write_bytes(table.to_bytes())
    expected = of_library(scorer, table)
    signature = scorer.signature(table)
    pq.write_table(TABLE, tmp_path / "pairs.parquet")
    given = {"model": config.model, "idf": str(saved), "rescale": True, "baseline": baseline}
    summary = run_job(tmp_path / "pairs.parquet", output=tmp_path / "out", **MODEL, **given)
    assert Signature.parse(summary["signature"]) == signature
    assert of_columns(read_output(tmp_path / "out")) == expected
    scoring = ScorePairs(ways(family, None, idf=True, rescaled=True), idf=str(saved))
    assert scoring.signature() == signature
    (tmp_path / "kept").mkdir()
    rows = [{"id": number, **row} for number, row in enumerate(TABLE.to_pylist())]
    with beam.Pipeline(runner="FnApiRunner") as p:
        created = p | beam.Create(rows, reshuffle=False)
        _ = created | scoring | beam.ParDo(Keep(tmp_path / "kept"))
    kept = sorted((row for row, _, _ in kept_in(tmp_path / "kept")), key=itemgetter("id"))
    for name in NAMES:
        assert [row[f"bertscore_{name}"] for row in kept] == expected[name]
