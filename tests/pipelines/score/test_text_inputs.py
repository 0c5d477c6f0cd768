"""Scoring text files: the same scores as of Parquet, and every line accounted for."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.idf import load_idf
from tests.support.dumps import SCHEMA, pair_rows, read_output
from tests.support.jobs import run_job
from tests.support.text_files import to_csv, to_jsonl, write_text
from tests.support.tolerances import INVARIANCE_ATOL

pytestmark = pytest.mark.job

ROWS = 30
BAD = b'{"pair": 1}\n{"pair": "cut off"\n'
SCORES = ("bertscore_precision", "bertscore_recall", "bertscore_f1")


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dump")
    rows = [dict(zip(SCHEMA.names, row, strict=True)) for row in _rows()]
    (folder / "day=1").mkdir()
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), folder / "day=1" / "a.parquet")
    lines = to_jsonl([{"pair": row, "id": row["id"]} for row in rows])
    write_text(folder / "nested" / "b.jsonl", lines + BAD)
    cells = [[str(cell) for cell in row.values()] for row in rows]
    write_text(folder / "day=1" / "c.csv.gz", to_csv([list(SCHEMA.names), *cells]))
    return folder


def _rows():
    return zip(*pair_rows(ROWS).values(), strict=True)


@pytest.fixture(scope="module")
def runs(dump, tmp_path_factory):
    """Score the flat files, then the nested one, then that again after its file was touched."""
    out = tmp_path_factory.mktemp("out")
    limits = {"max_reject_fraction": 1.0, "split_rows": 20}
    flat = run_job(dump / "day=1", output=out / "flat", max_reject_fraction=1.0)
    nested = {"candidate_column": ("pair.candidate",), "reference_column": "pair.reference"}
    first = run_job(dump / "nested", output=out / "nested", **limits, **nested)
    before = {path: path.read_bytes() for path in (out / "nested").rglob("part-*.parquet")}
    file = dump / "nested" / "b.jsonl"
    file.write_bytes(file.read_bytes())
    again = run_job(dump / "nested", output=out / "nested", **limits, **nested)
    assert {path: path.read_bytes() for path in before} == before
    return out, flat, first, again


def test_parquet_csv_and_json_give_equal_scores(runs):
    out, flat, first, _ = runs
    parquet, packed, lines = (
        read_output(folder)
        for folder in (
            out / "flat" / "a.parquet",
            out / "flat" / "c.csv.gz",
            out / "nested" / "b.jsonl",
        )
    )
    for name in SCORES:
        assert parquet[name].to_pylist() == packed[name].to_pylist()
        # Its rows are in other splits, and so in other batches.
        expected = pytest.approx(parquet[name].to_pylist(), abs=INVARIANCE_ATOL, rel=0)
        assert lines[name].to_pylist()[:ROWS] == expected
    assert packed["id"].to_pylist() == [str(number) for number in range(ROWS)]
    assert parquet["day"].to_pylist() == packed["day"].to_pylist() == ["1"] * ROWS
    assert flat["success"]
    assert flat["planned_rows"] == flat["rows"] == 2 * ROWS
    assert first["rows"] == ROWS + 2


def test_bad_lines_are_rows_without_scores_with_their_places_and_reason(runs, dump):
    out, _, first, _ = runs
    assert first["reasons"] == {"bad_line": 1, "type_drift": 1}
    assert first["rejected"] == 2
    data = (dump / "nested" / "b.jsonl").read_bytes()
    listed = pq.read_table(out / "nested" / "_rejects").to_pylist()
    found = {row["reason"]: data[row["byte"] :].split(b"\n")[0] for row in listed}
    assert found == dict(zip(("type_drift", "bad_line"), BAD.splitlines(), strict=True))
    assert {row["file"] for row in listed} == {str(dump / "nested" / "b.jsonl")}
    places = [(row["row"], row["line"]) for row in sorted(listed, key=lambda row: row["row"])]
    assert places == [(ROWS, ROWS + 1), (ROWS + 1, ROWS + 2)]
    last = read_output(out / "nested").slice(ROWS).to_pylist()
    assert [row["bertscore_error"] for row in last] == ["type_drift", "bad_line"]
    assert [row["pair"] for row in last] == [None, None]


def test_touched_file_keeps_its_parts_and_the_totals_are_of_the_whole_run(runs):
    _, _, first, again = runs
    assert again["parts_kept"] == again["parts"] == first["parts"] > 1
    same = ("rows", "planned_rows", "scored", "rejected", "reasons", "f1", "success", "complete")
    assert {key: again[key] for key in same} == {key: first[key] for key in same}


def test_command_names_the_cure_for_a_column_that_is_not_there(dump, tmp_path):
    with pytest.raises(Exception, match=r"Did you mean 'pair\.candidate'"):
        run_job(
            dump / "nested",
            output=tmp_path / "out",
            candidate_column=("pair.candidat",),
            reference_column="pair.reference",
        )


def test_idf_counts_the_references_of_every_format(dump, tmp_path):
    summary = run_job(dump / "day=1", output=tmp_path / "out", idf="corpus")
    assert summary["success"]
    table = load_idf(str(tmp_path / "out" / "_manifest" / "idf.npz"))
    assert sum(one.frequencies.num_documents for one in table.tables.values()) == 2 * ROWS
    parquet, packed = (read_output(tmp_path / "out" / name) for name in ("a.parquet", "c.csv.gz"))
    assert parquet["bertscore_f1"].to_pylist() == packed["bertscore_f1"].to_pylist()
