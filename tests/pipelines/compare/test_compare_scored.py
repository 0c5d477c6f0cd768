"""Runs that the job has scored are compared: with reuse, other cuts and rejected rows."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.compare import CompareOptions, compare_runs
from tests.support.dumps import pair_rows
from tests.support.jobs import run_job


@pytest.mark.long
@pytest.mark.job
@pytest.mark.model
def test_a_night_that_changed_some_rows_moves_those_and_no_other(tmp_path):
    rows = pair_rows(60)
    changed = {**rows, "candidate": list(rows["candidate"])}
    changed["candidate"][:6] = ["entirely other words here"] * 6
    changed["candidate"][6] = None
    for name, values in (("before", rows), ("now", changed)):
        (tmp_path / f"dump-{name}").mkdir()
        schema = pa.schema({"id": pa.int64(), "candidate": pa.string(), "reference": pa.string()})
        pq.write_table(pa.table(values, schema=schema), tmp_path / f"dump-{name}" / "a.parquet")
    run_job(tmp_path / "dump-before", output=tmp_path / "before", split_rows=25, backend="torch")
    options = {"split_rows": 20, "reuse": str(tmp_path / "before"), "backend": "torch"}
    summary = run_job(
        tmp_path / "dump-now", output=tmp_path / "now", max_reject_fraction=1.0, **options
    )
    assert summary["reused"] == 53
    for key in ((), ("id",)):
        (found,) = compare_runs(
            CompareOptions(run=str(tmp_path / "now"), against=(str(tmp_path / "before"),), key=key)
        ).comparisons
        counts = found.whole.counts
        assert (counts.pairs, counts.lost, counts.down, counts.up) == (59, 1, 6, 0)
        assert {(one.file, one.row) for one in found.moved} == {
            ("a.parquet", row) for row in range(6)
        }
        # Six of six signs are equal: 2 of the 64 flips are as far from 0.
        assert found.whole.result.randomization_p == pytest.approx(2 / 64)
        assert found.settings.moving == found.settings.harmless == ()
