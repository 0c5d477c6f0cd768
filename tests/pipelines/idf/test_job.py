"""The idf job: counts that a stopped run leaves to the next, and one table."""

import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.dump.read_rows import SplitReader
from bertscore_beam.dump.text.text_source import INPUT_FOLDER
from bertscore_beam.dump.text.to_parquet import write_rows
from bertscore_beam.files.read import read_bytes
from bertscore_beam.idf import counting, job
from bertscore_beam.idf.counting import COUNTS_FOLDER
from bertscore_beam.idf.idf_tables import load_idf
from bertscore_beam.idf.job import _conclude_idf, _put, begin_idf, plan_idf
from bertscore_beam.options.score_options import IdfOptions
from bertscore_beam.run.output import JobFailedError
from bertscore_beam.run.phases import run_plainly
from bertscore_beam.run.runner import Runner
from bertscore_core import ConfigError
from tests.support.cloud_storage import gcs_bucket
from tests.support.dumps import write_dump
from tests.support.jobs import own
from tests.support.s3 import s3_bucket
from tests.support.text_files import to_jsonl, write_text

pytestmark = pytest.mark.job


@pytest.fixture
def dump(tmp_path):
    return write_dump(tmp_path / "dump", [30, 30])


def planned_for(dump, table, **more):
    options = IdfOptions(input=(str(dump),), output=str(table), split_rows=10, **more)
    return plan_idf(options, Runner.of(options))


def command(dump, table):
    return ["idf", "--input", str(dump), "--output", str(table), "--split-rows", "10"]


def count_and_stop(planned):
    """Count as a run does that is stopped before it puts the table in its place."""
    folder = own(planned.output)
    phases, expected = begin_idf(planned, folder, print)
    run_plainly(phases)
    names = folder.files(COUNTS_FOLDER)
    assert len(names) == len(expected.amounts)
    assert sum(expected.amounts[name] for name in names) == 60
    return Path(planned.output)


def lose_a_count(work):
    next((work / COUNTS_FOLDER).rglob("*.npz")).unlink()


@pytest.mark.parametrize("again", [1, 4])
def test_a_stopped_run_counts_what_is_not_counted(dump, tmp_path, monkeypatch, capsys, again):
    table, whole = tmp_path / "table.npz", tmp_path / "whole.npz"
    assert cli.main(command(dump, whole)) == cli.DONE
    work = count_and_stop(planned_for(dump, table))
    assert work == tmp_path / ".table.npz.run"
    if again == 1:
        lose_a_count(work)
    else:
        os.utime(dump / "shard-001.parquet", ns=(1, 1))
    counted = Mock(wraps=counting.count_rows)
    monkeypatch.setattr(counting, "count_rows", counted)
    assert cli.main(command(dump, table)) == cli.DONE
    assert counted.call_count == again
    assert "splits were counted by an earlier run and are reused" in capsys.readouterr().err
    assert load_idf(str(table)).fingerprint == load_idf(str(whole)).fingerprint
    assert not work.exists()


@pytest.mark.process
@pytest.mark.parametrize("bucket", [s3_bucket, gcs_bucket])
def test_of_two_runs_on_one_table_in_a_store_each_puts_its_own_or_none(dump, bucket):
    """Whichever of the two ends first. The other finds its table there, and no longer its files."""
    with bucket() as url:
        for first in (0, 1):
            table = f"{url}/{first}.npz"
            planned = [planned_for(dump, table), planned_for(dump, table, idf_key=("id",))]
            for one in planned:
                begun = begin_idf(one, own(one.output), print)
                run_plainly(begun[0])
            folder = own(planned[0].output)
            before = [folder.read(one.table_file) for one in planned]
            assert before[0] != before[1]
            assert _conclude_idf(planned[first], folder).status == cli.DONE
            with pytest.raises((JobFailedError, ConfigError)):
                _conclude_idf(planned[1 - first], folder)
            assert read_bytes(table) == before[first]
            assert not _put(planned[1 - first], folder, before[1 - first])
            assert _put(planned[first], folder, before[first])


def test_counts_are_kept_while_a_file_cannot_be_read(dump, tmp_path, monkeypatch, capsys):
    table = tmp_path / "table.npz"
    read = SplitReader.read

    def unreadable_once(reader, split):
        if split.input_name.endswith("001.parquet") and split.row_offset == 0:
            raise OSError("the disk fails")
        return read(reader, split)

    with monkeypatch.context() as patched:
        patched.setattr(SplitReader, "read", unreadable_once)
        assert cli.main(command(dump, table)) == cli.BROKEN
    assert "no table was saved" in capsys.readouterr().err
    assert len(list((tmp_path / ".table.npz.run" / COUNTS_FOLDER).rglob("*.npz"))) == 7
    assert cli.main(command(dump, table)) == cli.DONE
    assert load_idf(str(table)).num_documents == 60


def test_table_that_appears_while_the_command_waits_is_not_replaced(dump, tmp_path):
    table = tmp_path / "table.npz"
    planned = planned_for(dump, table)
    table.write_bytes(b"of another run")
    with pytest.raises(ConfigError, match="exists already"):
        begin_idf(planned, own(planned.output), print)
    assert table.read_bytes() == b"of another run"


def test_run_cut_off_behind_its_table_replaces_no_other_table(dump, tmp_path, capsys):
    """The folder beside the table says that its run was not done with it."""
    table = tmp_path / "table.npz"
    work = count_and_stop(planned_for(dump, table))
    (counted,) = work.glob("table-*.npz")
    table.write_bytes(counted.read_bytes()[:-1])
    assert cli.main(command(dump, table)) == cli.UNUSABLE
    assert "exists already; expected a new file" in capsys.readouterr().err
    assert table.read_bytes() == counted.read_bytes()[:-1]
    table.write_bytes(counted.read_bytes())
    assert cli.main(command(dump, table)) == cli.DONE
    assert load_idf(str(table)).num_documents == 60
    assert sorted(tmp_path.iterdir()) == [dump, table]
    assert cli.main(command(dump, table)) == cli.UNUSABLE


@pytest.mark.parametrize("more", [[], ["--dry-run"], ["--overwrite"]])
def test_places_where_no_table_can_be_written_are_refused(dump, tmp_path, capsys, more):
    (tmp_path / "file").write_text("")
    assert cli.main([*command(dump, tmp_path / "file" / "t.npz"), *more]) == cli.UNUSABLE
    assert cli.main([*command(dump, dump), *more]) == cli.UNUSABLE
    assert "is a folder; expected a file" in capsys.readouterr().err


def test_rows_of_a_text_file_are_counted_and_not_their_references(tmp_path, capsys):
    rows = [{"reference": [f"word {n}", "another"]} for n in range(6)]
    dump = write_text(tmp_path / "dump.jsonl", to_jsonl(rows))
    table = tmp_path / "table.npz"
    flags = ["idf", "--input", str(dump), "--output", str(table), "--min-rows"]
    assert cli.main([*flags, "7"]) == cli.TOO_MANY_REJECTS
    assert "the input has 6 rows; expected at least 7" in capsys.readouterr().err
    assert not table.exists()
    assert cli.main([*flags, "6"]) == cli.DONE
    assert load_idf(str(table)).num_documents == 12


def test_run_of_text_imports_what_has_lost_its_rows(tmp_path, monkeypatch):
    rows = [{"id": str(n), "reference": f"word {n}"} for n in range(6)]
    for name in "ab":
        write_text(tmp_path / "dump" / f"{name}.jsonl", to_jsonl(rows))
    table, whole = tmp_path / "table.npz", tmp_path / "whole.npz"
    assert cli.main(command(tmp_path / "dump", whole)) == cli.DONE
    with monkeypatch.context() as patched:
        patched.setattr(job, "_clean_up", lambda folder: None)
        assert cli.main(command(tmp_path / "dump", table)) == cli.DONE
    work = tmp_path / ".table.npz.run"
    assert len(list((work / INPUT_FOLDER).iterdir())) == 2
    next((work / INPUT_FOLDER).iterdir()).unlink()
    lose_a_count(work)
    table.unlink()
    imported = Mock(wraps=write_rows)
    monkeypatch.setattr("bertscore_beam.run.text_import.write_rows", imported)
    assert cli.main(command(tmp_path / "dump", table)) == cli.DONE
    assert imported.call_count == 1
    assert load_idf(str(table)).fingerprint == load_idf(str(whole)).fingerprint
    assert not work.exists()
