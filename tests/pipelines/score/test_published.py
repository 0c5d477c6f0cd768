"""What readers of an output folder see: one whole run, until the next one is whole."""

import json
import threading
import time
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.run import publication
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.publication import HEAD_FILE, PUBLISHED, read_head
from bertscore_beam.score import finish
from bertscore_beam.score.job import conclude_score
from bertscore_beam.score.scored_table import ScoredPairs
from tests.support import jobs
from tests.support.dumps import write_dump
from tests.support.records import records_in

pytestmark = [pytest.mark.job, pytest.mark.usefixtures("tiny_jobs")]


@pytest.fixture
def finished(tmp_path):
    """A dump of two files, and its finished output of four parts."""
    dump = write_dump(tmp_path / "dump", [30, 30])
    assert jobs.run_options(jobs.job_options(dump, tmp_path / "out"))["success"]
    return dump, tmp_path / "out"


def files_of(output):
    """All that readers find."""
    found = {str(path.relative_to(output)): path for path in output.rglob("*") if path.is_file()}
    for_jobs = ("_work/", "_manifest/rows/", "_manifest/index")
    return {name: found[name].read_bytes() for name in found if not name.startswith(for_jobs)}


def staged_in(output):
    names = (path.name for path in (output / "_work").rglob("*.pq"))
    return sorted(name for name in names if jobs.is_staged(name))


def damaged(path, how):
    data = path.read_bytes()
    flipped = data[:20] + bytes([data[20] ^ 1]) + data[21:]
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes({"flipped": flipped, "cut off": data[:-9], "empty": b""}[how])


@pytest.mark.parametrize("how", ["flipped", "cut off", "empty", "gone"])
def test_a_damaged_head_beside_a_success_is_told_and_mended(finished, capsys, how):
    dump, output = finished
    before = jobs.parts_of(output)
    damaged(output / HEAD_FILE, how)
    for words, status in {("check",): cli.BROKEN, ("groups",): cli.UNUSABLE}.items():
        assert cli.main([*words, str(output)]) == status
        said = " ".join(capsys.readouterr().err.split())
        assert "got a _SUCCESS that does not belong to its _manifest.json" in said
        assert "Run its command again" in said
    assert jobs.run_options(jobs.job_options(dump, output))["parts_kept"] == 4
    assert jobs.parts_of(output) == before
    assert cli.main(["check", str(output), "--parts"]) == cli.DONE


def test_groups_of_a_run_whose_manifest_was_lost_do_not_stay_under_another_success(tmp_path):
    dump, output = write_dump(tmp_path / "dump", [30]), tmp_path / "out"
    options = jobs.job_options(dump, output, idf="corpus", group_by=("id",))
    assert jobs.run_options(options)["success"]
    damaged(output / HEAD_FILE, "gone")
    assert jobs.run_options(jobs.job_options(dump, output, idf="corpus"))["success"]
    assert not (output / "_groups.pq").exists()
    assert (output / "_manifest/idf.npz").exists()
    assert cli.main(["check", str(output), "--parts"]) == cli.DONE


def test_runs_stage_idf_tables_under_names_of_their_own_and_take_those_of_others(
    tmp_path, monkeypatch
):
    dump, output = write_dump(tmp_path / "dump", [30]), tmp_path / "out"
    options = jobs.job_options(dump, output, idf="corpus")
    first, second = (jobs.prepare_score(options).spec.idf for _ in range(2))
    assert first.must_count
    assert first.name != second.name
    with stopped_at(monkeypatch, finish, "publish"):
        jobs.run_options(options)
    again = jobs.prepare_score(options).spec.idf
    assert not again.must_count
    assert (output / again.name).exists()
    assert jobs.run_options(options)["success"]


class StoppedError(Exception):
    """Stands for the death of a run."""


@contextmanager
def stopped_at(monkeypatch, module, name):
    def stop(*_, **__):
        raise StoppedError("StoppedError")

    with monkeypatch.context() as patch:
        patch.setattr(module, name, stop)
        with pytest.raises(Exception, match="StoppedError"):
            yield


def test_a_run_that_fails_a_gate_leaves_a_success_as_it_is(finished):
    dump, output = finished
    before, options = files_of(output), jobs.job_options(dump, output, min_rows=61)
    job = jobs.start(jobs.prepare_score(options))
    outcome = conclude_score(job.spec)
    assert outcome.status == 3
    assert outcome.document["summary"]["failed_gates"] == ["min_rows"]
    said = " ".join(outcome.warnings)
    assert f"this run has published nothing. Its summary is in {output}/_work/failed" in said
    assert json.loads((output / "_work/failed/_summary.json").read_bytes())["rows"] == 60
    assert files_of(output) == before
    assert cli.main(["check", str(output), "--parts"]) == cli.DONE
    assert jobs.run_options(jobs.job_options(dump, output))["success"]
    assert not (output / "_work").exists()


def test_a_split_that_cannot_be_read_leaves_a_success_as_it_is(finished):
    dump, output = finished
    before = files_of(output)
    path = dump / "shard-001.parquet"
    data = path.read_bytes()
    job = jobs.start(jobs.prepare_score(jobs.job_options(dump, output, overwrite=True)))
    path.write_bytes(data)  # it has changed since it was planned
    assert jobs.run_prepared(job)["missing_parts"] == 2
    assert files_of(output) == before
    assert len(staged_in(output)) == 2
    assert jobs.run_options(jobs.job_options(dump, output, overwrite=True))["parts_kept"] == 2
    assert read_head(OutputFolder(str(output))).epoch == 2


def test_a_part_that_no_manifest_vouches_for_stays_if_its_split_cannot_be_read(finished):
    dump, output = finished
    before = jobs.parts_of(output)
    (output / "_manifest.json").unlink()
    path = dump / "shard-001.parquet"
    data = path.read_bytes()
    path.write_bytes(data)  # another version, that is not looked at
    job = jobs.start(jobs.prepare_score(jobs.job_options(dump, output)))
    path.write_bytes(data)
    assert jobs.run_prepared(job)["missing_parts"] == 2
    assert jobs.parts_of(output) == before
    assert jobs.run_options(jobs.job_options(dump, output))["success"]
    assert jobs.parts_of(output).keys() == before.keys()


def test_overwriting_replaces_a_success_when_all_is_scored(finished, monkeypatch):
    dump, output = finished
    before, options = files_of(output), jobs.job_options(dump, output, overwrite=True, empty="null")
    for _ in range(2):
        with stopped_at(monkeypatch, finish, "publish"):
            jobs.run_options(options)
        assert files_of(output) == before
        assert cli.main(["check", str(output), "--parts"]) == cli.DONE
    summary = jobs.run_options(options)
    assert (summary["success"], summary["parts_kept"], summary["parts"]) == (True, 4, 4)
    assert not (output / "_work").exists()
    assert files_of(output).keys() == {
        name if "parts-" not in name else read_head(OutputFolder(str(output))).shards[0]
        for name in before
    }
    assert cli.main(["check", str(output), "--parts"]) == cli.DONE


def test_a_publication_that_was_cut_off_is_finished_by_the_next_command(finished, monkeypatch):
    dump, output = finished
    options = jobs.job_options(dump, output, overwrite=True)
    with stopped_at(monkeypatch, publication, "move_shard"):
        jobs.run_options(options)
    before = files_of(output)
    assert "_SUCCESS" not in before
    assert json.loads(before[HEAD_FILE])["state"] == "moving"
    for words in (["check"], ["groups"], ["report", "--output", "page.html"]):
        assert cli.main([words[0], str(output), *words[1:]]) == cli.BROKEN
    assert files_of(output) == before
    summary = jobs.run_options(jobs.job_options(dump, output))
    assert (summary["success"], summary["parts_of_earlier_runs"]) == (True, 4)
    assert cli.main(["check", str(output), "--parts"]) == cli.DONE


def test_of_two_workers_whose_last_bit_differs_the_same_one_counts_each_time(tmp_path, monkeypatch):
    dump, output = write_dump(tmp_path / "dump", [30]), tmp_path / "out"
    options, whole = jobs.job_options(dump, output), ScoredPairs.by_column

    def one_ulp(pairs, **how):
        pairs.scores.f1[:] = np.nextafter(pairs.scores.f1, np.float32(2))
        return whole(pairs, **how)

    staged = []
    for change in (whole, one_ulp):
        with monkeypatch.context() as patch:
            patch.setattr(ScoredPairs, "by_column", change)
            patch.setattr("bertscore_beam.records.records.staged_parts", lambda names, below: {})
            with stopped_at(patch, finish, "publish"):
                jobs.run_options(options)
        staged.append({*staged_in(output)})
    assert [len(names) for names in staged] == [2, 4], staged
    smallest = {min(name for name in staged[1] if name[:12] == first[:12]) for first in staged[1]}
    assert jobs.run_options(options)["parts_kept"] == 2
    digests = {name.split("-")[1] for name in smallest}
    found = records_in(output).values()
    assert {publication.digest_of(one.to_json(), 16) for one in found} == digests
    assert cli.main(["check", str(output), "--parts"]) == cli.DONE


def test_parts_of_missing_inputs_stay_until_they_are_overwritten(finished):
    dump, output = finished
    (dump / "shard-001.parquet").unlink()
    before = jobs.parts_of(output)
    assert jobs.run_options(jobs.job_options(dump, output))["failed_gates"] == [
        "parts_of_inputs_gone"
    ]
    assert jobs.parts_of(output) == before
    assert cli.main(["check", str(output), "--parts"]) == cli.DONE
    assert jobs.run_options(jobs.job_options(dump, output, overwrite=True))["success"]
    assert jobs.parts_of(output).keys() == {name for name in before if "shard-000" in name}


def test_a_reader_sees_one_whole_run_through_overwrites_and_stops(finished, monkeypatch):
    dump, output = finished
    seen, ended, wrong = set(), threading.Event(), []

    def look():
        while not ended.is_set():
            marker = (output / "_SUCCESS").read_bytes() if (output / "_SUCCESS").exists() else b""
            try:
                parts = jobs.parts_of(output)
            except OSError:  # it has just been replaced
                parts = {}
            again = (output / "_SUCCESS").read_bytes() if (output / "_SUCCESS").exists() else b""
            if marker and marker == again:
                seen.add(marker)
                tables = (pq.read_table(pa.BufferReader(part)) for part in parts.values())
                ids = sorted(pa.concat_tables(tables)["id"].to_pylist())
                if ids != [*range(60)]:
                    wrong.append(sorted(parts))
            time.sleep(0.02)

    reader = threading.Thread(target=look)
    reader.start()
    try:
        for number, rows in enumerate((10, 20, 30)):
            options = jobs.job_options(dump, output, overwrite=True, split_rows=rows)
            for name in ("hide_success", "move_shard", "_check")[: number + 1]:
                with stopped_at(monkeypatch, publication, name):
                    jobs.run_options(options)
            assert jobs.run_options(options)["success"]
    finally:
        ended.set()
        reader.join()
    assert wrong == []
    assert read_head(OutputFolder(str(output))).state == PUBLISHED
    assert len(seen) >= 3
