"""The plan that a run keeps: it is that of the files, for as long as none of them changes."""

import os

import pyarrow.parquet as pq
import pytest

from bertscore_beam.run.runner import Runner
from bertscore_beam.score import prepare
from bertscore_beam.score.job import begin_score
from bertscore_beam.score.kept_plan import PLANS_FOLDER
from bertscore_beam.score.prepare import plan_score
from tests.support.dumps import write_dump
from tests.support.jobs import job_options, own

pytestmark = pytest.mark.job


@pytest.fixture
def opened(monkeypatch):
    """Count how often files are opened to be planned."""
    found, plan_inputs = [], prepare.plan_inputs

    def counted(files, **options):
        found.append(len(files))
        return plan_inputs(files, **options)

    monkeypatch.setattr(prepare, "plan_inputs", counted)
    return found


def planned(options):
    return plan_score(options, Runner.of(options))


def begun(options):
    """Plan and begin a run; return its plan."""
    ready = planned(options)
    begin_score(ready, own(options.output), lambda words: None)
    return ready.plan


def kept(output):
    return [path.name for path in (output / PLANS_FOLDER).glob("*")]


def test_unchanged_files_are_not_opened_to_be_planned_again(tmp_path, opened):
    dump, output = write_dump(tmp_path / "dump", [30, 30]), tmp_path / "out"
    options = job_options(dump, output)
    first = begun(options)
    assert planned(options).plan == first
    assert opened == [2]
    (name,) = kept(output)
    assert str(tmp_path).encode() not in (output / PLANS_FOLDER / name).read_bytes()
    assert pq.ParquetFile(output / PLANS_FOLDER / name).read()["path"].to_pylist()[-1] == "1"


def test_without_a_given_size_the_second_run_has_that_of_the_first(tmp_path, opened):
    dump, output = write_dump(tmp_path / "dump", [30]), tmp_path / "out"
    options = job_options(dump, output, split_rows="auto")
    first = begun(options)
    assert planned(options).plan == first
    assert opened == [1]


def test_whatever_the_plan_depends_on_makes_it_anew(tmp_path, opened):
    dump, output = write_dump(tmp_path / "dump", [30, 30]), tmp_path / "out"
    options = job_options(dump, output)
    begun(options)
    for changes in ({"split_rows": 10}, {"split_bytes": 999}):
        planned(job_options(dump, output, **changes))
    file = dump / "shard-001.parquet"
    data = file.read_bytes()
    file.unlink()
    file.write_bytes(data)
    os.utime(file, (1, 1))
    again = begun(options)
    assert opened == [2] * 4
    assert again.splits[-1].file_version.startswith(f"{file.stat().st_ino}-1000000000-")
    assert len(kept(output)) == 1  # the earlier one is gone
    (output / PLANS_FOLDER / kept(output)[0]).write_bytes(b"damaged")
    assert planned(options).plan == again
    assert opened == [2] * 5


def test_a_plan_with_a_bad_file_is_not_kept(tmp_path, opened):
    dump, output = write_dump(tmp_path / "dump", [30, 30]), tmp_path / "out"
    (dump / "shard-000.parquet").write_bytes(b"no Parquet")
    begun(job_options(dump, output))
    assert kept(output) == []
