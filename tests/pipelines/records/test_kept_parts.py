"""Input that has changed is noticed, and input that has not is not scored again."""

import os

import apache_beam as beam
import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from bertscore_beam.run.folder import SUMMARY_FILE
from bertscore_beam.score.show_run import show_summary
from bertscore_core import SignatureError
from tests.support import jobs
from tests.support.dumps import pair_rows, read_output, write_dump
from tests.support.tolerances import INVARIANCE_ATOL
from tests.support.web import web_server

pytestmark = [pytest.mark.job, pytest.mark.usefixtures("tiny_jobs")]


FIRST = "shard-000.parquet"
PLAIN = {"use_dictionary": False, "compression": "none", "write_statistics": False}


@pytest.fixture(params=["none", "corpus"])
def scored(request, tmp_path):
    """Return a dump of two files, the options of a run and its output of four parts."""
    dump = write_dump(tmp_path / "dump", [30, 30])
    chosen = jobs.job_options(dump, tmp_path / "out", idf=request.param)
    assert jobs.run_options(chosen)["success"]
    return dump, chosen, tmp_path / "out"


def change(path, column, row, value, **options):
    """Give a cell of a file another value; the rest stays as it is."""
    table = pq.read_table(path)
    values = table[column].to_pylist()
    values[row] = value
    place = table.schema.get_field_index(column)
    changed = table.set_column(
        place, table.schema.field(place), pa.array(values, table.schema.field(place).type)
    )
    pq.write_table(changed, path, **({"row_group_size": 7} | options))


def afresh(chosen, folder):
    """Return the parts of a run that nothing is there for."""
    options = jobs.job_options(chosen.input[0], folder, idf=chosen.idf)
    assert jobs.run_options(options)["success"]
    return jobs.parts_of(folder)


def documents_counted(job):
    """Run a job and tell how many references were counted for idf."""
    pipeline = beam.Pipeline(runner=FnApiRunner())
    jobs.add_score_pipeline(pipeline, job)
    found = pipeline.run().metrics().query()["counters"]
    counters = {item.key.metric.name: item.committed for item in found}
    return counters.get("documents_counted", 0)


def test_equal_values_in_another_layout_are_not_scored_again(scored, tmp_path):
    dump, chosen, output = scored
    table = pq.read_table(dump / FIRST)
    pq.write_table(table, dump / FIRST, row_group_size=7, compression="gzip", use_dictionary=False)
    job = jobs.prepare_score(chosen)
    compared = 2 if chosen.idf == "none" else 4
    assert (len(job.diff.to_do), job.spec.start.rows_at_risk) == (compared, 15 * compared)
    job = jobs.start(job)
    counted = 0 if chosen.idf == "none" else 60  # again, which gives the same table
    assert documents_counted(job) == counted
    summary = job.spec.folder.read_json(SUMMARY_FILE)
    assert (summary["parts_kept"], summary["reused"]) == (compared - 2, 30)
    assert (summary["success"], summary["batches"], summary["replaced"]) == (True, 0, 0)
    assert jobs.parts_of(output) == afresh(chosen, tmp_path / "afresh")
    again = jobs.prepare_score(chosen)
    assert (again.diff.to_do, again.spec.idf.must_count) == ((), False)
    assert again.spec.start.carried.summary.rows == 60


def test_other_columns_that_change_are_written_beside_the_scores_that_were_there(scored, tmp_path):
    dump, chosen, output = scored
    before = jobs.parts_of(output)
    change(dump / FIRST, "id", 3, 1000)
    summary = jobs.run_options(chosen)
    assert (summary["reused"], summary["batches"]) == (30, 0)
    after = jobs.parts_of(output)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {name for name in before if name.startswith(f"{FIRST}/")}
    assert read_output(output)["id"].to_pylist()[:5] == [0, 1, 2, 1000, 4]
    assert after == afresh(chosen, tmp_path / "afresh")
    assert jobs.prepare_score(chosen).diff.to_do == ()


def test_a_part_with_a_flipped_bit_is_scored_again_and_counted(scored, tmp_path):
    dump, chosen, output = scored
    change(dump / FIRST, "id", 3, 1000)
    part = output / FIRST / "part-000000000000.parquet"
    place = pq.read_metadata(part).row_group(0)
    column = next(
        place.column(number)
        for number in range(place.num_columns)
        if place.column(number).path_in_schema == "bertscore_f1"
    )
    has_scores = len(pq.read_table(part)["bertscore_f1"].drop_null())
    data = bytearray(part.read_bytes())
    data[column.data_page_offset + column.total_compressed_size // 2] ^= 1
    part.write_bytes(data)
    job = jobs.start(jobs.prepare_score(chosen))
    pipeline = beam.Pipeline(runner=FnApiRunner())
    jobs.add_score_pipeline(pipeline, job)
    found = pipeline.run().metrics().query()["counters"]
    counters = {item.key.metric.name: item.committed for item in found}
    assert (counters["parts_unreadable"], counters["rows_reused"]) == (1, 30 - has_scores)
    summary = job.spec.folder.read_json(SUMMARY_FILE)
    assert summary["parts_unreadable"] == 1
    assert dict(show_summary(summary, "out").rows)["damaged parts, scored again"] == "1"
    assert jobs.run_options(chosen)["parts_unreadable"] == 0
    assert jobs.parts_of(output) == afresh(chosen, tmp_path / "afresh")


@pytest.mark.parametrize("column", ["candidate", "reference"])
def test_text_that_changes_is_scored_and_the_idf_table_is_that_of_the_texts(
    scored, tmp_path, column
):
    dump, chosen, output = scored
    before = jobs.parts_of(output)
    change(dump / FIRST, column, 3, "quite another text")
    summary = jobs.run_options(chosen)
    assert summary["success"]
    if chosen.idf == "none":  # 60 rows, of which 30 are in parts that are kept as they are
        assert (summary["reused"], summary["replaced"]) == (29, 1)
    after = jobs.parts_of(output)
    moved = {name for name in before if before[name] != after[name]}
    everything = chosen.idf == "corpus" and column == "reference"
    of_file = {name for name in before if name.startswith(f"{FIRST}/")}
    assert moved == (set(before) if everything else of_file)
    afresh(chosen, tmp_path / "afresh")  # where the rows of a batch are others
    now, other = (read_output(folder).to_pandas() for folder in (output, tmp_path / "afresh"))
    for name in now.columns:
        if now[name].dtype == np.float32:
            np.testing.assert_allclose(now[name], other[name], atol=INVARIANCE_ATOL)
        else:
            assert now[name].equals(other[name]), name
    assert jobs.prepare_score(chosen).diff.to_do == ()


def test_change_with_size_and_time_kept_is_noticed(tmp_path):
    dump = write_dump(tmp_path / "dump", [10])
    chosen = jobs.job_options(dump, tmp_path / "out")
    change(dump / FIRST, "candidate", 3, "one text", **PLAIN)
    jobs.run_options(chosen)
    status = (dump / FIRST).stat()
    before = read_output(tmp_path / "out")
    copy = tmp_path / "copy"
    copy.write_bytes((dump / FIRST).read_bytes())
    change(copy, "candidate", 3, "and a ca", **PLAIN)
    (dump / FIRST).write_bytes(copy.read_bytes())
    os.utime(dump / FIRST, ns=(status.st_atime_ns, status.st_mtime_ns))
    now = (dump / FIRST).stat()
    assert (now.st_size, now.st_mtime_ns) == (status.st_size, status.st_mtime_ns)
    assert jobs.run_options(chosen)["success"]
    after = read_output(tmp_path / "out")
    assert after["candidate"][3].as_py() == "and a ca"
    assert after["bertscore_f1"][3] != before["bertscore_f1"][3]


@pytest.fixture
def web(tmp_path):
    """Serve a folder, and say nothing by which another version could be told."""
    with web_server(tmp_path) as server:
        yield tmp_path, server.url


@pytest.mark.parametrize("idf", ["none", "corpus"])
def test_file_that_has_no_version_is_read_each_time(tmp_path, web, idf):
    folder, url = web
    rows = pair_rows(20)
    pq.write_table(pa.table(rows), folder / "a.parquet", **PLAIN)
    chosen = jobs.job_options(f"{url}/a.parquet", tmp_path / "out", idf=idf)
    assert jobs.run_options(chosen)["success"]
    before = read_output(tmp_path / "out")
    summary = jobs.run_options(chosen)
    assert (summary["success"], summary["parts_kept"], summary["batches"]) == (True, 1, 0)
    size = (folder / "a.parquet").stat().st_size
    rows["reference"][3] = rows["reference"][3][::-1]
    pq.write_table(pa.table(rows), folder / "a.parquet", **PLAIN)
    assert (folder / "a.parquet").stat().st_size == size
    summary = jobs.run_options(chosen)
    assert (summary["success"], summary["reused"]) == (True, 19 if idf == "none" else 0)
    after = read_output(tmp_path / "out")
    assert after["reference"][3].as_py() == rows["reference"][3]
    assert after["bertscore_f1"][3] != before["bertscore_f1"][3]
    other = jobs.job_options(f"{url}/a.parquet", tmp_path / "afresh", idf=idf)
    jobs.run_options(other)
    assert after.equals(read_output(tmp_path / "afresh"))


def test_corpus_of_other_files_is_refused_by_name(tmp_path):
    dump = write_dump(tmp_path / "dump", [10, 10])
    chosen = jobs.job_options(dump, tmp_path / "out", idf="corpus")
    jobs.run_options(chosen)
    write_dump(dump, [10, 10, 10])
    with pytest.raises(SignatureError, match="names and rows"):
        jobs.prepare_score(chosen)


def test_lists_and_single_texts_are_not_taken_for_each_other(tmp_path):
    """A list has a column of scores more."""
    dump = tmp_path / "dump"
    dump.mkdir()
    texts = pa.array([None, None], pa.string())
    lists = pa.array([None, None], pa.list_(pa.string()))
    chosen = jobs.job_options(dump, tmp_path / "out", max_reject_fraction=1.0)
    for references in (texts, lists):
        pq.write_table(pa.table({"candidate": ["a", "b"], "reference": references}), dump / FIRST)
        assert jobs.run_options(chosen)["success"]
    assert "bertscore_best_reference" in read_output(tmp_path / "out").column_names


@pytest.mark.parametrize("marked", [("UTC", "UTC"), ("", "UTC"), ("UTC", "")])
def test_times_of_day_keep_the_mark_of_utc_that_the_file_has_now(marked, tmp_path):
    """Arrow's types do not hold the mark, neither when rows are compared nor when written again."""
    dump = tmp_path / "dump"
    dump.mkdir()

    def write(mark, number):
        kind = "TIMETZ" if mark else "TIME"
        with duckdb.connect() as connection:
            connection.execute(
                "COPY (SELECT 'the cat sat' AS candidate, 'a cat sat' AS reference, "
                f"{number} AS id, {kind} '12:00:00' AS at) TO '{dump}/in.parquet' (FORMAT parquet)"
            )

    chosen = jobs.job_options(dump, tmp_path / "out")
    write(marked[0], 1)
    assert jobs.run_options(chosen)["success"]
    write(marked[1], 2 if marked[0] == marked[1] else 1)
    summary = jobs.run_options(chosen)
    assert (summary["success"], summary["reused"]) == (True, 1)
    (part,) = (tmp_path / "out" / "in.parquet").glob("*.parquet")
    found = pq.ParquetFile(part).schema.column(3).logical_type
    assert f"isAdjustedToUTC={'true' if marked[1] else 'false'}" in str(found)
