"""Splits of one row group are scored as one element, with a part and a record each as before."""

import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.dump.read_rows import SplitReader
from bertscore_beam.dump.splits import RowGroupSplits
from bertscore_beam.score.loaded_scorers import LoadedScorers
from bertscore_beam.score.steps import ScoreSplits, SplitScorer, SplitsWithIdf, TriedSplits
from tests.support.dumps import write_dump
from tests.support.files_below import files_below
from tests.support.jobs import (
    job_options,
    parts_of,
    prepare_score,
    run_options,
    start,
    without_token,
)

pytestmark = [pytest.mark.model, pytest.mark.job]


@pytest.fixture
def dump(tmp_path):
    return write_dump(tmp_path / "dump", [60, 5], row_group_size=100)


def begun(dump, output):
    """Return a job that has begun, and its first chunk of splits."""
    job = start(prepare_score(job_options(dump, output, split_rows=10)))
    chunk = RowGroupSplits(tuple(job.diff.to_do[:6]))
    assert len(chunk.splits) == 6
    return job, chunk


def scorer_of(job):
    return SplitScorer(job.spec, LoadedScorers())


def staged(job, chunks):
    """Score chunks, and return the bytes of the parts that are staged, as `parts_of` does."""
    scorer, folder = scorer_of(job), job.spec.folder
    tried = [one for chunk in chunks for one in scorer.run(SplitsWithIdf(chunk))]
    records = TriedSplits.merge(tried).records
    return {record.part_name: without_token(folder.read(record.staged)) for record in records}


def test_parts_are_the_same_bytes_however_splits_are_put_together(dump, tmp_path):
    summary = run_options(job_options(dump, tmp_path / "out", split_rows=10))
    assert (summary["rows"], summary["parts"], summary["success"]) == (65, 7, True)
    scored = parts_of(tmp_path / "out")
    assert len(scored) == 7
    job, _ = begun(dump, tmp_path / "alone")
    assert staged(job, [RowGroupSplits((split,)) for split in job.diff.to_do]) == scored
    job, chunk = begun(dump, tmp_path / "together")
    assert staged(job, [chunk, RowGroupSplits(job.diff.to_do[6:])]) == scored


def test_retry_neither_reads_nor_scores_what_has_a_record(dump, tmp_path, monkeypatch):
    job, chunk = begun(dump, tmp_path / "out")
    read, reads = [], SplitReader.read
    monkeypatch.setattr(
        SplitReader, "read", lambda one, split: (read.append(split), reads(one, split))[1]
    )
    first = scorer_of(job).run(SplitsWithIdf(chunk))
    assert [next(first).totals.parts_kept for _ in range(4)] == 4 * [0]
    first.close()  # the worker dies
    written = files_below(tmp_path / "out")
    again = list(scorer_of(job).run(SplitsWithIdf(chunk)))
    assert [(one.totals.parts, one.totals.parts_kept) for one in again] == 4 * [(1, 1)] + 2 * [
        (1, 0)
    ]
    assert read == list(chunk.splits)
    assert written.items() <= files_below(tmp_path / "out").items()


def test_retry_of_chunks_of_one_split_scores_nothing_again(dump, tmp_path, monkeypatch):
    job, chunk = begun(dump, tmp_path / "out")
    chunks = [SplitsWithIdf(RowGroupSplits((split,))) for split in chunk.splits]
    for chosen in chunks:
        list(scorer_of(job).run(chosen))
    written = files_below(tmp_path / "out")
    # Another machine may give other bytes, and may die at any place.
    monkeypatch.setattr(SplitScorer, "score", lambda *_: pytest.fail("scored again"))
    again = [one for chosen in chunks for one in scorer_of(job).run(chosen)]
    assert [one.totals.parts_kept for one in again] == [1] * 6
    assert written.items() <= files_below(tmp_path / "out").items()


def test_split_that_cannot_be_read_does_not_make_others_scored_again(dump, tmp_path, monkeypatch):
    job, chunk = begun(dump, tmp_path / "out")
    read = SplitReader.read

    def out_of_reach(reader, split):
        if split == chunk.splits[0]:
            raise OSError("out of reach")
        return read(reader, split)

    monkeypatch.setattr(SplitReader, "read", out_of_reach)
    for kept in (0, 5):
        found = list(scorer_of(job).run(SplitsWithIdf(chunk)))
        assert sum(one.totals.failed_splits for one in found) == 1
        assert sum(one.totals.parts_kept for one in found) == kept


def test_element_is_named_by_its_parts_and_the_plan_says_how_often_rows_are_read(
    dump, tmp_path, capsys
):
    job, chunk = begun(dump, tmp_path / "out")
    name = ScoreSplits(job.spec).name(SplitsWithIdf(chunk))
    first = "shard-000.parquet/part-000000000000.parquet"
    assert name == f"{first} to part-000000000050.parquet"
    words = ("score", "--input", dump, "--output", tmp_path / "other", "--split-rows", 10)
    assert cli.main([*map(str, words), "--device", "cpu", "--dry-run"]) == cli.DONE
    assert "about 1.5 times over" in " ".join(capsys.readouterr().out.split())
