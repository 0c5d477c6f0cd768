"""What the idf job leaves in its folder beside the table."""

import apache_beam as beam
import numpy as np
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.files.read import exists
from bertscore_beam.idf.tables import IdfTables
from bertscore_beam.idf.transforms import SaveIdf
from bertscore_core import DocumentFrequencies, IdfTable
from tests.support.dumps import write_dump
from tests.support.jobs import own

TABLE = IdfTable(
    frequencies=DocumentFrequencies(
        num_documents=2, ids=np.array([5], np.int32), counts=np.array([1], np.int64)
    ),
    tokenizer="t",
    max_length=8,
    corpus="c",
)


def save(folder):
    with beam.Pipeline(runner="FnApiRunner") as root:
        _ = root | beam.Create([IdfTables.of(TABLE)]) | SaveIdf(folder, "idf.npz")


@pytest.mark.job
def test_a_run_that_has_lost_its_folder_saves_no_table(tmp_path):
    lost = own(tmp_path)
    save(own(tmp_path))
    assert exists(lost.path("idf.npz"))
    lost_again = own(tmp_path)
    own(tmp_path).delete("idf.npz")
    with pytest.raises(Exception, match="belongs to another run now"):
        save(lost_again)
    assert not exists(lost.path("idf.npz"))


@pytest.mark.job
@pytest.mark.parametrize("counted", [True, False])
def test_too_few_rows_leave_the_counts_of_an_earlier_run(tmp_path, counted, capsys):
    dump, table = write_dump(tmp_path / "dump", [5]), tmp_path / "table.npz"
    count = tmp_path / ".table.npz.run" / "counts" / "one.npz"
    if counted:
        count.parent.mkdir(parents=True)
        count.write_bytes(b"a count")
    flags = ["idf", "--input", str(dump), "--output", str(table), "--min-rows", "6"]
    assert cli.main(flags) == cli.TOO_MANY_REJECTS
    assert "No table was saved" in capsys.readouterr().err
    left = sorted(path.name for path in tmp_path.rglob("*.npz*") if path.is_file())
    assert left == (["one.npz"] if counted else [])
    assert count.parent.exists() == counted
