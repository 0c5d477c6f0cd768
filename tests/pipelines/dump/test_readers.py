"""The output opens in what people use, by the lines of docs/output.md, and gives its rows."""

import re
from importlib import import_module
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_core.errors import InputError
from tests.support.dumps import pair_rows
from tests.support.jobs import run_job
from tests.support.tables import plan_pairs

pytestmark = [pytest.mark.job, pytest.mark.model]

PAGE = (Path(__file__).parents[3] / "docs" / "output.md").read_text(encoding="utf-8")
LINES = dict(re.findall(r"^- ([\w ]+): `(.*\bOUT\b.*)`$", PAGE, re.M))
ROWS = 23


@pytest.fixture(scope="module")
def output(tmp_path_factory, tiny_folder) -> Path:
    """Score a dump of several files, one of them deep, with rejected rows and a rejected file."""
    root = tmp_path_factory.mktemp("readers")
    start = 0
    for name, count in {"a.parquet": 9, "b c é.parquet": 4, "d.parquet/deep/e.parquet": 10}.items():
        rows = pair_rows(count, start)
        rows["candidate"][1] = None
        path = root / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(rows), path)
        start += count
    (root / "in" / "damaged.parquet").write_bytes(b"PAR1")
    summary = run_job(
        root / "in",
        output=root / "out",
        model=str(tiny_folder("bert")),
        num_layers=2,
        split_rows=4,
        idf="corpus",
        max_reject_fraction=1.0,
    )
    assert (summary["rows"], summary["scored"], summary["parts"]) == (ROWS, ROWS - 3, 7)
    return root / "out"


def test_the_page_has_a_line_for_each():
    assert set(LINES) == {"pandas", "Arrow", "Polars", "DuckDB", "Hugging Face datasets", "Spark"}


@pytest.mark.parametrize("reader", [name for name in LINES if name != "Spark"])
def test_the_line_of_the_page_reads_every_row_in_order(reader, output, tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    line = LINES[reader].replace("OUT", str(output))
    package = line.split(".")[0]
    names = {package: import_module(package)}
    if reader == "Arrow":
        import_module("pyarrow.dataset")
    found = eval(line, names)  # noqa: S307 - our own text
    ids, scores = (
        [row[0] for row in found.select(name).fetchall()]
        if reader == "DuckDB"
        else list(found[name])
        for name in ("id", "bertscore_f1")
    )
    assert [getattr(number, "as_py", lambda n=number: n)() for number in ids] == list(range(ROWS))
    assert len(scores) == ROWS


def test_a_dataset_on_disk_is_told_how_it_becomes_a_file_that_is_read(tmp_path):
    rows = datasets.Dataset.from_dict(pair_rows(3))
    rows.save_to_disk(tmp_path / "saved")
    (file,) = (tmp_path / "saved").glob("*.arrow")
    command = r"becomes a Parquet file by `datasets\.load_from_disk\(FOLDER\)\.to_parquet\(FILE\)`"
    for path in (file.parent, file):
        with pytest.raises(InputError, match=command):
            plan_pairs(path)
    datasets.load_from_disk(tmp_path / "saved").to_parquet(tmp_path / "rows.parquet")
    assert sum(split.num_rows for split in plan_pairs(tmp_path / "rows.parquet").splits) == 3


def test_the_rejects_read_as_one_table_of_arrow(output):
    assert pq.read_table(output / "_rejects").num_rows == 4


def test_nothing_but_parts_and_their_folders_is_called_parquet(output):
    hidden = [path for path in output.rglob("*") if str(path.relative_to(output)).startswith("_")]
    assert len(hidden) > 10
    assert [path for path in hidden if path.name.endswith(".parquet")] == []
    parts = [path for path in output.glob("**/*.parquet") if path.is_file()]
    assert len(parts) == 7
    assert all(path.name.startswith("part-") for path in parts)


@pytest.mark.process
@pytest.mark.long
def test_spark_sees_the_scores_of_files_that_it_wrote(tmp_path, tiny_folder, run_spark):
    """Spark's own list of columns, in the metadata of its files, would hide ours."""
    rows = "spark.sql(\"select id, 'a cat' candidate, 'the cat' reference from range(3)\")"
    run_spark(f"{rows}.coalesce(1).write.parquet(arguments[0])\nresult = 0", tmp_path / "in")
    model = {"model": str(tiny_folder("bert")), "num_layers": 2}
    assert run_job(tmp_path / "in", output=tmp_path / "out", **model)["success"]
    line = LINES["Spark"].replace("OUT", str(tmp_path / "out"))
    code = f"result = [list(row) for row in {line}.select('id', 'bertscore_f1').collect()]"
    found = sorted(run_spark(code))
    assert [row[0] for row in found] == [0, 1, 2]
    assert all(isinstance(row[1], float) for row in found)
