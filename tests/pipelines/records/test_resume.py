"""What a second run over an output folder scores, keeps and refuses."""

import shutil
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from bertscore_core import SignatureError
from tests.support.dumps import read_output, write_dump
from tests.support.jobs import job_options as options, prepare_score, run_options as run

pytestmark = [pytest.mark.job, pytest.mark.usefixtures("tiny_jobs")]


def test_second_run_scores_only_what_is_missing(tmp_path):
    dump = write_dump(tmp_path / "dump", [25, 34])
    chosen = options(dump, tmp_path / "out", idf="corpus")
    run(chosen)
    before = read_output(tmp_path / "out")
    parts = sorted((tmp_path / "out").glob("shard-*/part-*.parquet"))
    times = {part: part.stat().st_mtime_ns for part in parts[1:]}
    parts[0].unlink()
    assert [split.part_name for split in prepare_score(chosen).diff.to_do] == [
        str(parts[0].relative_to(tmp_path / "out"))
    ]
    summary = run(chosen)
    assert {part: part.stat().st_mtime_ns for part in parts[1:]} == times
    assert summary["parts_of_earlier_runs"] == len(parts) - 1
    assert summary["rows"] == 59
    assert read_output(tmp_path / "out").equals(before)
    assert prepare_score(chosen).diff.to_do == ()


def test_changed_settings_are_refused_by_name_until_told_to_overwrite(tmp_path):
    dump = write_dump(tmp_path / "dump", [5])
    run(options(dump, tmp_path / "out"))
    with pytest.raises(SignatureError, match="num_layers: '2' there, '1' now"):
        prepare_score(options(dump, tmp_path / "out", num_layers=1))
    with pytest.raises(SignatureError, match="empty: 'zero' there, 'null' now"):
        prepare_score(options(dump, tmp_path / "out", empty="null"))
    other = pq.read_table(dump / "shard-000.parquet")
    pq.write_table(other.append_column("id2", other["candidate"]), dump / "shard-000.parquet")
    with pytest.raises(SignatureError, match="candidate_column: 'candidate' there, 'id2' now"):
        prepare_score(options(dump, tmp_path / "out", candidate_column=("id2",)))
    replaced = options(dump, tmp_path / "out", num_layers=1, overwrite=True)
    assert len(prepare_score(replaced).diff.to_do) == 1
    assert run(replaced)["success"]


def test_parts_of_missing_inputs_stay_in_a_folder_that_was_copied(tmp_path):
    dump, out, copy = (tmp_path / name for name in ("dump", "out", "copy"))
    write_dump(dump, [5, 5])
    assert not run(options(dump, out, min_rows=100))["success"]
    shutil.copytree(out, copy, copy_function=shutil.copyfile)  # with other times
    (dump / "shard-001.parquet").rename(tmp_path / "aside")
    summary = run(options(dump, copy, min_rows=100))
    assert summary["failed_gates"] == ["parts_of_inputs_gone", "min_rows"]
    assert len(read_output(copy)) == 10
    (tmp_path / "aside").rename(dump / "shard-001.parquet")
    summary = run(options(dump, copy))
    assert (summary["success"], summary["rows"], summary["batches"]) == (True, 10, 0)


def test_rows_of_inputs_that_are_gone_spoil_success_until_overwritten(tmp_path):
    first, second = (write_dump(tmp_path / name, [5]) for name in ("a", "b"))
    run(options(first, tmp_path / "out"))
    both = options(first, tmp_path / "out", input=(str(first), str(second)))
    summary = run(both)
    assert summary["complete"]
    assert not summary["success"]
    assert summary["parts_of_inputs_gone"] == ["shard-000.parquet/part-000000000000.parquet"]
    assert run(replace(both, overwrite=True))["success"]
    assert len(read_output(tmp_path / "out")) == 10
