"""A finished run is opened whole or not at all, and gives its rows in the order of the input."""

import json
from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.dump.paths import column_of
from bertscore_beam.files.checked import to_json
from bertscore_beam.records.earlier_run import folder_date
from bertscore_beam.records.finished import open_finished, read_columns
from bertscore_beam.run.folder import FORMAT, RUN_FILE, SUCCESS_FILE, SUMMARY_FILE
from bertscore_core.errors import ConfigError, InputError
from tests.support.dumps import pair_rows
from tests.support.jobs import run_job

pytestmark = pytest.mark.job


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """Return the run of a Parquet file with a nested column and of a file of JSON lines."""
    folder = tmp_path_factory.mktemp("finished")
    dump = folder / "dump"
    dump.mkdir()
    rows = pair_rows(25)
    nested = pa.array([{"number": number, "word": "w"} for number in range(25)])
    pq.write_table(pa.table({**rows, "about": nested}), dump / "a.parquet")
    lines = [
        dict(zip(rows, values, strict=True)) | {"number": number}
        for number, values in enumerate(zip(*rows.values(), strict=True))
    ]
    (dump / "b.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run_job(dump, output=folder / "out", split_rows=10)
    return folder / "out"


def test_columns_of_all_rows_come_in_the_order_of_the_input(out):
    run = open_finished(str(out))
    parts = list(read_columns(run, ["about.number", "number", "bertscore_f1", "nowhere"]))
    assert run.rows == 50 == sum(len(part.table) for part in parts)
    assert len(parts) > 4
    assert {part.input_name for part in parts} == {"a.parquet", "b.jsonl"}
    for part in parts:
        is_nested = part.input_name == "a.parquet"
        root = "about" if is_nested else "number"
        assert set(part.table.column_names) == {root, "bertscore_f1"}
        numbers = column_of(part.table, "about.number" if is_nested else "number").to_pylist()
        assert numbers == [*range(part.first_row, part.first_row + len(part.table))]
    texts = [len(part.table) for part in read_columns(run, [])]
    assert texts == [len(part.table) for part in parts]


def test_what_is_no_whole_finished_run_is_refused(out, tmp_path):
    (tmp_path / "baseline").mkdir()
    of_another = {"format": FORMAT, "run": "x", "identity": {"command": "baseline"}}
    (tmp_path / "baseline" / RUN_FILE).write_bytes(to_json(of_another))
    for name in (".", "baseline"):
        with pytest.raises(ConfigError, match="is not a scoring run"):
            open_finished(str(tmp_path / name))
    summary = json.loads((out / SUMMARY_FILE).read_text())
    part = sorted(out.glob("a.parquet/*.parquet"))[-1]
    data = part.read_bytes()
    part.unlink()
    with pytest.raises(InputError, match=f"expected {summary['parts']} with 50 rows"):
        open_finished(str(out))
    part.write_bytes(data)
    marker = (out / SUCCESS_FILE).read_bytes()
    (out / SUCCESS_FILE).unlink()
    with pytest.raises(ConfigError, match="is not done"):
        open_finished(str(out))
    (out / SUCCESS_FILE).write_bytes(marker)
    assert open_finished(str(out)).rows == 50


@pytest.mark.parametrize(
    ("root", "expected"),
    [
        ("s3://b/scores/2026-11-20", date(2026, 11, 20)),
        ("/scores/dt=20261120/", date(2026, 11, 20)),
        ("/scores/night_2026_11_20.en", date(2026, 11, 20)),
        ("/scores/2026-11-20/en", None),  # the name of the folder alone counts
        ("/scores/2026-13-20", None),
        ("/scores/2026-1120", None),
        ("/scores/120261120", None),
        ("/scores/2026-11-20_2026-11-21", None),
    ],
)
def test_the_date_of_a_folder_is_the_only_one_in_its_name(root, expected):
    assert folder_date(root) == expected
