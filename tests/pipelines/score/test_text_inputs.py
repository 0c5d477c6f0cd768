"""Scoring text files: every line is accounted for, also where its texts are in fields of fields."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.dumps import SCHEMA, pair_rows, read_output
from tests.support.jobs import run_job
from tests.support.text_files import to_jsonl, write_text
from tests.support.tolerances import INVARIANCE_ATOL

pytestmark = pytest.mark.job

ROWS = 30
BAD = b'{"pair": 1}\n{"pair": "cut off"\n'


def test_bad_lines_are_rows_without_scores_with_their_places_and_reason(tmp_path):
    rows = pa.table(pair_rows(ROWS), schema=SCHEMA)
    file, flat, out = tmp_path / "b.jsonl", tmp_path / "a.parquet", tmp_path / "out"
    pq.write_table(rows, flat)
    write_text(file, to_jsonl([{"pair": row} for row in rows.to_pylist()]) + BAD)
    limits = {"max_reject_fraction": 1.0, "split_rows": 20}
    nested = {"candidate_column": ("pair.candidate",), "reference_column": "pair.reference"}
    summary = run_job(file, output=out / "nested", **limits, **nested)
    assert (summary["rows"], summary["rejected"]) == (ROWS + 2, 2)
    assert summary["reasons"] == {"bad_line": 1, "type_drift": 1}
    listed = pq.read_table(out / "nested" / "_rejects").to_pylist()
    data = file.read_bytes()
    found = {row["reason"]: data[row["byte"] :].split(b"\n")[0] for row in listed}
    assert found == dict(zip(("type_drift", "bad_line"), BAD.splitlines(), strict=True))
    assert {row["file"] for row in listed} == {str(file)}
    assert sorted((row["row"], row["line"]) for row in listed) == [(30, 31), (31, 32)]
    lines = read_output(out / "nested")
    last = lines.slice(ROWS).to_pylist()
    assert [row["bertscore_error"] for row in last] == ["type_drift", "bad_line"]
    assert [row["pair"] for row in last] == [None, None]
    run_job(flat, output=out / "flat", **limits)
    for name in ("bertscore_precision", "bertscore_recall", "bertscore_f1"):
        expected = read_output(out / "flat")[name].to_pylist()
        given = lines[name].to_pylist()[:ROWS]
        assert given == pytest.approx(expected, abs=INVARIANCE_ATOL, rel=0)
