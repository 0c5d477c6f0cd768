"""Scoring one table, without Beam."""

import pyarrow as pa
import pytest

from bertscore_beam.dump.columns import TableFields
from bertscore_core import BertScorer, ScorerConfig
from tests.support.dumps import pair_rows
from tests.support.scoring import score_all_rows
from tests.support.tiny_models import build_tiny_model

FIELDS = TableFields(candidate_column="candidate", reference_column="reference")


def run(scorer, table):
    return score_all_rows(scorer, table, FIELDS)


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())],
)
def test_every_kind_of_string_column_scores_the_same(scorer, kind):
    rows = pair_rows(5)
    plain = pa.table({name: rows[name] for name in ("candidate", "reference")})
    columns = {name: pa.array(rows[name]).cast(kind) for name in ("candidate", "reference")}
    found = run(scorer, pa.table(columns))
    assert found.table["bertscore_f1"].equals(run(scorer, plain).table["bertscore_f1"])


@pytest.mark.parametrize("count", [0, 3])
def test_tables_without_a_single_pair_keep_their_shape(scorer, count):
    nulls = pa.nulls(count, pa.string())
    table = pa.table({"candidate": nulls, "reference": nulls})
    found = run(scorer, table)
    assert found.table.num_rows == count
    assert found.table["bertscore_f1"].null_count == count
    assert found.table.schema.field("bertscore_f1").type == pa.float32()
    assert found.summary.rows == count
    assert found.summary.scored == 0


def test_bytes_that_are_no_utf8_reject_their_row_alone(scorer):
    raw = pa.array([b"a cat", b"\xff\xfe", b"a dog"], pa.binary())
    broken = pa.Array.from_buffers(pa.string(), 3, raw.buffers())
    table = pa.table({"candidate": broken, "reference": ["the cat", "the dog", "the dog"]})
    found = run(scorer, table)
    assert found.table["bertscore_error"].to_pylist() == [None, "invalid_utf8", None]
    assert found.summary.scored == 2
    assert found.summary.reasons == {"invalid_utf8": 1}


@pytest.mark.parametrize("rule", ["zero", "null"])
def test_empty_sides_have_their_reasons_whatever_they_score(tiny_folder, rule):
    model = {"model": str(tiny_folder("t5")), "num_layers": 2, "max_length": 48}
    texts = {"candidate": ["", "one two", "two one"], "reference": ["one two", " ", "two"]}
    found = run(BertScorer(ScorerConfig(**model, device="cpu", empty=rule)), pa.table(texts))
    reasons = found.table["bertscore_error"].to_pylist()
    assert reasons == ["empty_candidate", "empty_reference", None]
    assert found.table["bertscore_f1"].to_pylist()[:2] == [0.0 if rule == "zero" else None] * 2
    assert found.summary.scored == (3 if rule == "zero" else 1)
    assert set(found.rejected) == (set() if rule == "zero" else {0, 1})


@pytest.mark.model
def test_short_text_that_the_reference_takes_for_empty_is_marked(tmp_path):
    """One token and one special token: two, which the reference calls empty."""
    folder = str(build_tiny_model("byt5", tmp_path))
    config = ScorerConfig(model=folder, num_layers=2, max_length="reference", device="cpu")
    found = run(BertScorer(config), pa.table({"candidate": ["a"], "reference": ["a cat"]})).table
    assert found["bertscore_error"].to_pylist() == ["counted_as_empty"]
    assert found["bertscore_precision"].to_pylist() == [0.0]
