"""References in a second file: joined by a key, part of a run, refused if one is missing."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_core import ConfigError, InputError
from tests.support.dumps import pair_rows, read_output
from tests.support.jobs import job_options, plan_imported, run_job
from tests.support.text_files import to_csv, to_jsonl, write_text

ROWS = 24
PATH = "response.body.choices[0].message.content"
JOINED = {"candidate_column": (PATH,), "reference_column": "ideal", "join": "custom_id"}
JOINED |= {"split_rows": 10, "max_reject_fraction": 1.0}
SCORES = ("bertscore_precision", "bertscore_recall", "bertscore_f1")


def batch(texts):
    """Return lines of an output file of the Batch API; their order is not that of the requests."""
    lines = [
        {"custom_id": number, "response": {"body": {"choices": [{"message": {"content": text}}]}}}
        for number, text in enumerate(texts)
    ]
    return lines[::-1]


def golds(rows, **more):
    """Return the rows of a file of references."""
    return [
        {"custom_id": number, "ideal": text, "topic": f"t{number % 2}", **more}
        for number, text in enumerate(rows["reference"])
    ]


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    folder = tmp_path_factory.mktemp("batch")
    rows = pair_rows(ROWS)
    write_text(folder / "batch.jsonl", to_jsonl(batch(rows["candidate"])))
    pq.write_table(pa.Table.from_pylist(batch(rows["candidate"])), folder / "batch.parquet")
    write_text(folder / "gold.jsonl", to_jsonl(golds(rows)))
    cells = [[str(cell) for cell in row.values()] for row in golds(rows)]
    write_text(folder / "gold.csv.gz", to_csv([["custom_id", "ideal", "topic"], *cells]))
    pq.write_table(pa.Table.from_pylist(golds(rows)), folder / "gold.parquet")
    plain = {name: rows[name][::-1] for name in ("candidate", "reference")}
    pq.write_table(pa.table(plain), folder / "plain.parquet")
    return folder


def same_parts(summary):
    return summary["parts_kept"] + summary["parts_of_earlier_runs"] == summary["parts"]


@pytest.mark.job
@pytest.mark.usefixtures("tiny_jobs")
def test_scores_are_those_of_rows_with_their_references_whatever_the_formats(dump, tmp_path):
    run_job(dump / "plain.parquet", output=tmp_path / "plain", split_rows=10)
    expected = read_output(tmp_path / "plain")
    for name, gold in (
        ("jsonl", "gold.csv.gz"),
        ("parquet", "gold.jsonl"),
        ("parquet", "gold.parquet"),
    ):
        out = tmp_path / f"{name} {gold} out"
        options = {**JOINED, "reference_file": str(dump / gold), "group_by": ("topic",)}
        summary = run_job(dump / f"batch.{name}", output=out, idf="corpus", **options)
        assert (summary["scored"], summary["success"]) == (ROWS, True)
        assert [group["rows"] for group in summary["groups"]["shown"]] == [ROWS / 2] * 2
        got = read_output(out)
        assert got.column_names[:4] == ["custom_id", "response", "ideal", "topic"]
        assert got["ideal"].to_pylist() == expected["reference"].to_pylist()
    run_job(dump / "batch.parquet", output=tmp_path / "same", **options | {"group_by": ()})
    for name in SCORES:
        assert read_output(tmp_path / "same")[name].to_pylist() == expected[name].to_pylist()


@pytest.mark.job
@pytest.mark.usefixtures("tiny_jobs")
def test_the_bytes_of_the_file_are_part_of_the_run(dump, tmp_path):
    gold, out = tmp_path / "gold.jsonl", tmp_path / "out"
    rows = golds(pair_rows(ROWS))
    options = {**JOINED, "reference_file": str(gold), "output": out}
    write_text(gold, to_jsonl(rows))
    first = run_job(dump / "batch.parquet", **options)
    again = run_job(dump / "batch.parquet", **options)
    assert again["parts_of_earlier_runs"] == first["parts"] == 3
    write_text(gold, to_jsonl([*rows, {**rows[0], "custom_id": 99, "ideal": "of no row"}]))
    assert run_job(dump / "batch.parquet", **options)["reused"] == ROWS
    rows[0]["ideal"] = "another reference for the last of the rows"
    write_text(gold, to_jsonl(rows))
    changed = run_job(dump / "batch.parquet", **options)
    assert (changed["reused"], changed["rows"]) == (ROWS - 1, ROWS)
    assert read_output(out)["ideal"].to_pylist()[-1] == rows[0]["ideal"]
    told = json.loads((out / "_run.json").read_text())
    assert told["options"]["reference_file"] == str(gold)


CASES = {
    "missing": (
        lambda rows: rows[2:],
        rf"rows have no references: got 2 of {ROWS} with a 'custom_id' that .* does not have, such "
        r"as '[01]'; expected each of them there",
    ),
    "doubled": (
        lambda rows: [*rows, rows[3], rows[3], {**rows[0], "custom_id": None}],
        "cannot be joined: got 1 without 'custom_id' and 2 with one that another row has, such as "
        "'3'; expected each once",
    ),
    "long keys": (
        lambda rows: [
            {**row, "custom_id": word}
            for row in rows
            for word in (str(row["custom_id"]), "a long prompt " * 1000)
        ],
        "such as 'a long prompt a long prompt a long prompt a long prompt a lo[.]{3}'; expected",
    ),
    "no key": (
        lambda rows: [{"id": row["custom_id"], **row, "custom_id": None} for row in rows],
        f"got {ROWS} without 'custom_id' and 0 with one",
    ),
    "no column": (
        lambda rows: [{"ideals": row["ideal"], "custom_id": row["custom_id"]} for row in rows],
        "no reference column 'ideal'.*Did you mean 'ideals'",
    ),
    "other key": (
        lambda rows: [{"ideal": row["ideal"], "custom": row["custom_id"]} for row in rows],
        "no join column 'custom_id': got the columns .*Did you mean 'custom'",
    ),
    "in both": (
        lambda rows: [{**row, "response": "x"} for row in rows],
        "in the input and in the file of references: got 'response'; expected them in one of both",
    ),
    "no text": (lambda rows: [{**row, "ideal": 5} for row in rows], "'ideal' holds no texts"),
    "cut": (lambda rows: rows, r"cannot be read: got 1, the first at line 25 \(bad_line\)"),
}


@pytest.mark.parametrize("name", CASES)
def test_files_that_do_not_fit_are_refused_before_any_model(dump, tmp_path, name):
    change, message = CASES[name]
    more = {"group_by": ("response",)} if name == "in both" else {}
    data = to_jsonl(change(golds(pair_rows(ROWS)))) + (b'{"cut' if name == "cut" else b"")
    gold = write_text(tmp_path / "gold.jsonl", data)
    options = {**JOINED, "reference_file": str(gold), **more}
    for file in ("batch.parquet", "batch.jsonl"):
        with pytest.raises(InputError, match=message):
            plan_imported(job_options(dump / file, tmp_path / f"{file} out", **options))


def test_references_of_no_row_are_told(dump, tmp_path):
    rows = [*golds(pair_rows(ROWS)), {"custom_id": 99, "ideal": "x"}]
    gold = write_text(tmp_path / "gold.jsonl", to_jsonl(rows))
    options = job_options(
        dump / "batch.parquet", tmp_path / "out", **JOINED, reference_file=str(gold)
    )
    assert plan_imported(options).plan.notes == (
        f"No row of the input has 1 of the keys in {str(gold)!r}.",
    )


def test_a_file_and_its_key_are_given_together():
    for given in ({"reference_file": "x.csv"}, {"join": "id"}):
        with pytest.raises(ConfigError, match="reference_file"):
            job_options("a", "b", **given)
