"""What a run leaves behind wherever it is cut off, and what the next makes of it."""

import re
import shutil
from contextlib import nullcontext
from dataclasses import replace

import fsspec
import numpy as np
import pytest
from fsspec.implementations.arrow import ArrowFSWrapper
from pyarrow.fs import LocalFileSystem

from bertscore_beam.cli import main as cli
from bertscore_beam.dump.plan_file import plan_from_bytes
from bertscore_beam.dump.read_rows import SplitReader
from bertscore_beam.files.write import create_exclusively, write_atomically
from bertscore_beam.records.records import place_of
from bertscore_beam.run.output import JobFailedError
from bertscore_beam.score import job
from bertscore_beam.score.job import conclude_score, expected_of
from bertscore_beam.score.kept_plan import PLANS_FOLDER
from bertscore_beam.score.scored_table import ScoredPairs
from bertscore_core import ConfigError, InputError, SignatureError
from tests.support import jobs
from tests.support.dumps import write_dump
from tests.support.files_below import files_below
from tests.support.records import flip_column
from tests.support.s3 import s3_bucket

pytestmark = [pytest.mark.job, pytest.mark.usefixtures("tiny_jobs")]


class Mounted(ArrowFSWrapper):
    """A file system that is neither local to us nor an object store, as HDFS is."""

    protocol = "mounted"

    def __init__(self, **options):
        super().__init__(LocalFileSystem(), **options)


fsspec.register_implementation("mounted", Mounted, clobber=True)


@pytest.fixture
def finished(tmp_path):
    """Return a dump of two files and its finished output of four parts."""
    dump = write_dump(tmp_path / "dump", [30, 30])
    assert jobs.run_options(jobs.job_options(dump, tmp_path / "out"))["success"]
    return dump, tmp_path / "out"


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("by", [(), ("id",)])
def test_a_part_with_a_flipped_bit_is_scored_again_by_the_same_command(finished, by):
    dump, output = finished
    chosen = jobs.job_options(dump, output, group_by=by)
    if by:  # parts have a note of their groups
        assert jobs.run_options(replace(chosen, overwrite=True))["success"]
    before = jobs.parts_of(output)
    for name in list(before)[1:3]:
        flip(output / name)
    for name in ("_SUCCESS", "_summary.json"):
        (output / name).unlink()
    summary = jobs.run_options(chosen)
    assert summary["success"]
    assert summary["parts_unreadable"] == 2
    assert jobs.parts_of(output) == before
    assert cli.main(["check", str(output), "--parts"]) == cli.DONE


def test_each_damaged_part_is_counted_once_whatever_is_damaged_in_it(finished):
    dump, output = finished
    first, second, *_ = jobs.parts_of(output)
    flip_column(output / first, "bertscore_f1")  # in a page; the second loses its footer
    (output / second).write_bytes((output / second).read_bytes()[:-1])
    assert jobs.run_options(jobs.job_options(dump, output))["parts_unreadable"] == 2


@pytest.mark.parametrize("cut", [0, 10, 200])
def test_a_part_that_is_cut_off_is_scored_again(finished, cut):
    dump, output = finished
    before = jobs.parts_of(output)
    name = min(before)
    (output / name).write_bytes(before[name][:cut])
    assert jobs.run_options(jobs.job_options(dump, output))["success"]
    assert jobs.parts_of(output) == before


def test_workers_whose_last_bit_differs_leave_parts_that_vouch_for_themselves(
    finished, tmp_path, monkeypatch
):
    """The writes of two workers that hold the same elements, in any order: the last one counts."""
    dump, output = finished
    ours = {name: data for name, data in jobs.parts_of(output).items()}
    other = jobs.job_options(dump, tmp_path / "other")
    whole = ScoredPairs.by_column

    def one_ulp(pairs, **how):
        f1 = pairs.scores.f1
        f1[:] = np.nextafter(f1, np.float32(2))
        return whole(pairs, **how)

    with monkeypatch.context() as patch:
        patch.setattr(ScoredPairs, "by_column", one_ulp)
        assert jobs.run_options(other)["success"]
    theirs = jobs.parts_of(tmp_path / "other")
    assert all(theirs[name] != ours[name] for name in ours)
    for name in list(ours)[::2]:
        shutil.copy(tmp_path / "other" / name, output / name)
    (output / "_SUCCESS").unlink()
    for by in ((), ("id",)):
        assert jobs.run_options(jobs.job_options(dump, output, group_by=by))["success"]
        assert cli.main(["check", str(output), "--parts"]) == cli.DONE
    after = jobs.parts_of(output)
    assert [after[name] == theirs[name] for name in after] == [True, False] * (len(after) // 2)


def test_part_that_vanishes_during_the_run_spoils_its_success(tmp_path):
    """The folder has the last word, not what the workers said of it."""
    dump = write_dump(tmp_path / "dump", [40])
    chosen = jobs.job_options(dump, tmp_path / "out")
    jobs.run_options(chosen)
    name = "shard-000.parquet/part-000000000000.parquet"
    (tmp_path / "out" / "shard-000.parquet" / "part-000000000014.parquet").unlink()
    job = jobs.start(jobs.prepare_score(chosen))
    (tmp_path / "out" / name).unlink()
    summary = jobs.run_prepared(job)
    assert summary["missing_parts"] == 1
    assert not summary["complete"]
    assert not (tmp_path / "out" / "_SUCCESS").exists()
    assert jobs.run_options(chosen)["success"]


def test_file_that_changes_under_the_run_is_not_scored_in_two_versions(finished):
    """Same size, same rows, other texts: only its version tells."""
    dump, output = finished
    chosen = jobs.job_options(dump, output, overwrite=True, num_layers=1)
    job = jobs.start(jobs.prepare_score(chosen))
    path = dump / "shard-001.parquet"
    path.write_bytes(path.read_bytes())
    summary = jobs.run_prepared(job)
    assert not summary["complete"]
    assert summary["failed_splits"] == summary["missing_parts"] == 2
    assert summary["rows"] == 30
    assert "has changed since it was planned" in next(iter(summary["failures"].values()))
    assert jobs.run_options(chosen)["success"]


def test_damaged_idf_table_is_counted_anew(tmp_path):
    dump = write_dump(tmp_path / "dump", [30])
    chosen = jobs.job_options(dump, tmp_path / "out", idf="corpus")
    jobs.run_options(chosen)
    before = jobs.parts_of(tmp_path / "out")
    table = tmp_path / "out" / "_manifest" / "idf.npz"
    table.write_bytes(table.read_bytes()[:50])
    assert len(jobs.prepare_score(chosen).diff.to_do) == 2
    summary = jobs.run_options(chosen)
    assert summary["success"]
    assert summary["parts_kept"] == 2
    assert jobs.parts_of(tmp_path / "out") == before


def test_run_file_that_is_gone_lets_nobody_replace_other_scores(finished):
    dump, output = finished
    (output / "_run.json").unlink()
    with pytest.raises(SignatureError, match="such parts, as 'shard-000"):
        jobs.prepare_score(jobs.job_options(dump, output, num_layers=1))
    assert jobs.prepare_score(jobs.job_options(dump, output)).diff.to_do == ()


def test_bad_moment_while_counting_scores_nothing_and_deletes_nothing(tmp_path, monkeypatch):
    """The table left a file out, so every score would be weighed wrongly."""
    dump = write_dump(tmp_path / "dump", [10, 10])
    chosen = jobs.job_options(dump, tmp_path / "out", idf="corpus")
    assert jobs.run_options(chosen)["success"]
    write_dump(tmp_path / "dump", [10, 10])
    before = jobs.parts_of(tmp_path / "out")
    (tmp_path / "out" / "_manifest" / "idf.npz").unlink()
    job = jobs.start(jobs.prepare_score(chosen))
    whole = SplitReader.read

    def fail_once(reader, split):
        monkeypatch.setattr(SplitReader, "read", whole)
        raise TimeoutError("the store did not answer")

    monkeypatch.setattr(SplitReader, "read", fail_once)
    summary = jobs.run_prepared(job)
    assert (summary["rows"], summary["missing_parts"], summary["whole_idf"]) == (0, 2, False)
    assert not summary["complete"]
    said = "the idf table leaves out a file that could not be read"
    assert list(summary["failures"].values()) == [said, said]
    assert jobs.parts_of(tmp_path / "out") == before
    assert not (tmp_path / "out" / "_manifest" / "idf.npz").exists()
    assert jobs.run_options(chosen)["success"]


def test_plan_is_deleted_when_the_run_is_done(tmp_path):
    """It holds the addresses of the inputs as they were given, keys in them included."""
    dump = write_dump(tmp_path / "dump", [5])
    assert cli.main(jobs.score_arguments(dump, tmp_path)) == cli.DONE
    found = (tmp_path / "out" / "_manifest").rglob("*")
    left = [str(path.relative_to(tmp_path / "out")) for path in found if path.is_file()]
    (plan,) = (name for name in left if name.startswith(f"{PLANS_FOLDER}/"))
    kept = plan_from_bytes((tmp_path / "out" / plan).read_bytes(), plan)
    assert [split.path for split in kept.splits] == ["0"]
    assert {name for name in left if not name.startswith("_manifest/parts-")} == {plan}


def test_file_system_without_whole_puts_is_written_beside_and_moved(tmp_path):
    target = f"mounted://{tmp_path}/folder/file"
    write_atomically(target, b"one")
    write_atomically(target, b"two")
    assert files_below(tmp_path) == {str(tmp_path / "folder" / "file"): b"two"}
    with pytest.raises(OSError, match="folder"):
        write_atomically(f"mounted://{tmp_path}/folder/file/below", b"three")
    assert files_below(tmp_path) == {str(tmp_path / "folder" / "file"): b"two"}


@pytest.mark.parametrize("kind", ["local", "mounted", "memory", "s3"])
def test_exclusive_file_is_written_once(tmp_path, kind):
    prefix = "" if kind == "local" else f"{kind}://"
    with s3_bucket() if kind == "s3" else nullcontext(f"{prefix}{tmp_path}/sub") as folder:
        create_exclusively(f"{folder}/lock", b"one")
        with pytest.raises(FileExistsError):
            create_exclusively(f"{folder}/lock", b"two")


def test_a_run_without_a_summary_ends_as_stopped(tmp_path):
    job = jobs.start(
        jobs.prepare_score(jobs.job_options(write_dump(tmp_path / "dump", [5]), tmp_path / "out"))
    )
    with pytest.raises(JobFailedError, match="the run has published nothing in"):
        conclude_score(job.spec)


def test_progress_shows_the_rows_of_the_whole_run(tmp_path):
    """What an earlier run has done counts, too."""
    job = jobs.prepare_score(
        jobs.job_options(write_dump(tmp_path / "dump", [25]), tmp_path / "out")
    )
    first, second = job.diff.to_do
    diff = replace(job.diff, done=(first,), to_do=(second,))
    expected = expected_of(job.spec, diff)
    assert expected.amounts == {place_of(second.part_name): second.num_rows}
    assert expected.before == first.num_rows
    diff = replace(job.diff, done=(first, second), to_do=())
    expected = expected_of(job.spec, diff)
    assert (len(expected.amounts), expected.before) == (0, 25)  # and a line to be seen


# Output folders that cannot be taken, and what in them belongs to others.


def test_other_peoples_files_in_the_output_are_left_alone(tmp_path):
    dump = write_dump(tmp_path / "dump", [5])
    (tmp_path / "out" / "sub").mkdir(parents=True)
    for name in ("mine.parquet", "sub/part-000000000000.parquet"):
        (tmp_path / "out" / name).write_bytes(b"mine")
    assert jobs.run_options(jobs.job_options(dump, tmp_path / "out", overwrite=True))["success"]
    assert (tmp_path / "out" / "mine.parquet").read_bytes() == b"mine"
    assert (tmp_path / "out" / "sub" / "part-000000000000.parquet").read_bytes() == b"mine"


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ("scores/2026-11-20", "scores", "holds the folders of other runs: got '2026-11-20' below"),
        ("scores", "scores/2026-11-20", "is in the folder of another run: got '.*/scores' above"),
        ("scores", ".", "holds the folders of other runs: got 'scores' below"),
    ],
)
def test_run_in_or_around_the_folder_of_another_run_is_refused_before_anything_is_changed(
    tmp_path, capsys, monkeypatch, first, second, message, overwrite
):
    dump, other = (write_dump(tmp_path / name, [5]) for name in ("a", "b"))
    jobs.run_options(jobs.job_options(dump, tmp_path / first))
    before = files_below(tmp_path)
    flags = ["--input", str(other), "--output", str(tmp_path / second), "--device", "cpu"]
    assert cli.main(["score", *flags, *["--overwrite"] * overwrite]) == cli.UNUSABLE
    said = capsys.readouterr().err
    assert re.search(message, said)
    assert "--overwrite" not in said
    assert "Choose another --output" in said
    assert files_below(tmp_path) == before


def test_run_below_the_output_that_has_begun_meanwhile_is_seen(tmp_path, monkeypatch, capsys):
    dump = write_dump(tmp_path / "dump", [5])
    inner, plan = jobs.job_options(dump, tmp_path / "out" / "today"), job.plan_score

    def planned(*given):
        asked = plan(*given)
        monkeypatch.setattr(job, "plan_score", plan)
        assert jobs.run_options(inner)["success"]
        return asked

    monkeypatch.setattr(job, "plan_score", planned)
    assert cli.main(jobs.score_arguments(dump, tmp_path)) == cli.UNUSABLE
    assert "holds the folders of other runs: got 'today' below" in capsys.readouterr().err
    assert jobs.run_options(inner)["success"]


def test_input_inside_the_output_is_refused(tmp_path):
    dump = write_dump(tmp_path / "dump", [5])
    with pytest.raises(InputError, match="in the output folder"):
        jobs.prepare_score(jobs.job_options(dump / "shard-000.parquet", dump))


def test_memory_of_one_process_is_no_place_for_the_output_of_several():
    with pytest.raises(ConfigError, match="other worker processes cannot reach"):
        jobs.prepare_score(jobs.job_options("in", "memory://out", workers=2))
