"""The proof of a soak can fail, and for the right reason."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.records import IDF_FILE
from bertscore_beam.run import RUN_FILE, SUCCESS_FILE
from tests.soak.proof import Snapshot, judge
from tests.soak.stages import Stage, stage_of, stages_ahead

FILE = "shard 000.parquet"
PART, NEXT = f"{FILE}/part-000000000000.parquet", f"{FILE}/part-000000000002.parquet"
LIST = "_rejects/rows/part.pq"
DUMP = {FILE: pa.table({"id": [0, 1, 2, 3], "candidate": ["a", "b", None, "d"]})}


def part(ids, f1=0.5):
    table = DUMP[FILE].take([min(number, 3) for number in ids])
    table = table.set_column(0, "id", pa.array(ids, pa.int64()))
    written = io.BytesIO()
    pq.write_table(table.append_column("bertscore_f1", pa.array([f1] * len(ids))), written)
    return written.getvalue()


def snapshot(contents=None, *, without=(), more=(), **summary):
    contents = {PART: part([0, 1]), NEXT: part([2, 3]), IDF_FILE: b"idf", LIST: b"rejects"} | (
        contents or {}
    )
    contents = {name: data for name, data in contents.items() if name not in without}
    names = {*contents, SUCCESS_FILE, RUN_FILE, *more} - set(without)
    return Snapshot(frozenset(names), contents, {"rows": 4, "f1": 0.5, "success": True} | summary)


def test_equal_outputs_are_right():
    verdict = judge(snapshot(f1=0.5 + 1e-16), snapshot(), DUMP)
    assert verdict.violations == []
    assert (verdict.lost, verdict.doubled, verdict.changed) == (0, 0, 0)


@pytest.mark.parametrize(
    ("found", "counts", "words"),
    [
        (snapshot(without=[NEXT]), (2, 0, 0), "2 rows lost"),
        (snapshot({NEXT: part([3, 3])}), (1, 1, 0), "1 rows lost, 1 doubled"),
        (snapshot({NEXT: part([3, 2])}), (0, 0, 2), "another order"),
        (snapshot({NEXT: part([2, 3], f1=0.6)}), (0, 0, 2), "scores differ"),
        (snapshot({IDF_FILE: b"other"}), (0, 0, 0), f"other bytes in {IDF_FILE}"),
        (snapshot({LIST: b"other"}), (0, 0, 0), f"other bytes in {LIST}"),
        (snapshot(without=[SUCCESS_FILE]), (0, 0, 0), "no _SUCCESS"),
        (snapshot(without=[RUN_FILE]), (0, 0, 0), "files that are missing"),
        (snapshot(more=[".bertscore-tmp-1"]), (0, 0, 0), "files that should not be there"),
        (snapshot(f1=0.6), (0, 0, 0), "summary: f1 is 0.6; expected 0.5"),
        (snapshot(success=False), (0, 0, 0), "summary: success is False"),
    ],
)
def test_what_is_wrong_is_counted_and_said(found, counts, words):
    verdict = judge(found, snapshot(), DUMP)
    assert (verdict.lost, verdict.doubled, verdict.changed) == counts
    assert any(words in violation for violation in verdict.violations)


def test_stages_are_told_from_the_files_of_the_output():
    old, new = {RUN_FILE: "1"}, {RUN_FILE: "2"}
    assert stage_of(old, old, 2) is Stage.PLANNING
    assert stage_of(old, new, 2) is Stage.COUNTING
    assert stage_of(old, {**new, IDF_FILE: ""}, 2) is Stage.SCORING
    assert stage_of(old, {**new, IDF_FILE: "", PART: "", NEXT: ""}, 2) is Stage.FINISHING
    assert stages_ahead({}, 2) == list(Stage)
    assert stages_ahead({IDF_FILE: "", PART: ""}, 2) == [
        Stage.PLANNING,
        Stage.SCORING,
        Stage.FINISHING,
    ]
    assert stages_ahead({IDF_FILE: "", PART: "", NEXT: ""}, 2)[1:] == [Stage.FINISHING]
