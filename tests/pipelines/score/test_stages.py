"""What flows between the stages and steps of the scoring pipeline, and who builds its index."""

import errno
import itertools
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.environments import ExternalEnvironment

from bertscore_beam.cli import main as cli
from bertscore_beam.records import index as index_module
from bertscore_beam.records.groups import GROUPS_FILE, group_part
from bertscore_beam.records.index import INDEX_FILE, INDEX_FOLDER, read_index
from bertscore_beam.records.rejects import FILES_FILE
from bertscore_beam.run.folder import PLAN_FILE, SUCCESS_FILE, SUMMARY_FILE, OutputFolder
from bertscore_beam.score import conclude
from bertscore_beam.score.job import build_score_pipeline
from bertscore_core.stats.score_statistics import ScoreSummary
from tests.support import jobs
from tests.support.dumps import write_dump

pytestmark = pytest.mark.job


def crossing_producers(pipeline: beam.Pipeline) -> tuple[list[list[str]], set[str]]:
    """Return the steps of each stage, and the steps whose output is stored between stages."""
    proto = pipeline.to_runner_api(default_environment=ExternalEnvironment("localhost:1"))
    _, stages = FnApiRunner().create_stages(proto)
    producers = {
        collection: step.unique_name
        for step in proto.components.transforms.values()
        if not step.subtransforms
        for collection in step.outputs.values()
    }
    stored = {
        name
        for stage in stages
        for step in stage.transforms
        if step.spec.urn == "beam:runner:sink:v1"
        for name in step.inputs.values()
    }
    steps = [[step.unique_name for step in stage.transforms] for stage in stages]
    return steps, {producers.get(name, name) for name in stored}


def test_only_small_things_cross_stages(tmp_path):
    """Texts, embeddings and scores stay inside the one fused stage."""
    dump = write_dump(tmp_path / "dump", [20, 20])
    job = jobs.prepare_score(jobs.job_options(dump, tmp_path / "out", idf="corpus"))
    pipeline = beam.Pipeline(runner=FnApiRunner())
    jobs.add_score_pipeline(pipeline, job)
    steps, crossing = crossing_producers(pipeline)
    run = "ScoreSplits/OnDevice/Run"
    scoring = next(names for names in steps if f"{run}/Process" in names)
    spread = next(names for names in steps if "ScoreSplits/Spread/Read" in names)
    count = "CountDocumentFrequencies/CountSplits/Work/OnDevice/Run"
    assert "SaveIdf" in crossing
    # What is scored is spread by the shuffle, and then stored with what can be divided of it.
    device = {"ScoreSplits/OnDevice/TakeApart", f"{run}/PairWithRestriction"}
    assert device <= set(spread)
    assert crossing.isdisjoint({"ScoreSplits/Spread", *device})
    # Prism keeps a core busy while a stage with a side input has work: no long one may have any.
    with_side_inputs = steps_with_side_inputs(pipeline)
    assert any("NameTables" in name for name in with_side_inputs)
    for long in (scoring, next(names for names in steps if count in names)):
        assert not with_side_inputs.intersection(long)


def steps_with_side_inputs(pipeline):
    steps = pipeline.to_runner_api().components.transforms.values()
    payload = beam_runner_api_pb2.ParDoPayload
    return {
        step.unique_name
        for step in steps
        if step.spec.urn == "beam:transform:pardo:v1"
        and payload.FromString(step.spec.payload).side_inputs
    }


# The index of a run: built by all workers of a pipeline or by one process, or left out.


@pytest.fixture
def dump(tmp_path):
    return write_dump(tmp_path / "dump", [12, 9, 6])


def index_of(output):
    """Return the files of the index of a run."""
    folder = OutputFolder(str(output))
    names = [INDEX_FILE, *(f"{INDEX_FOLDER}/{name}" for name in folder.files(INDEX_FOLDER))]
    return {name: folder.read(name) for name in names if folder.exists(name)}


def group_small_record(record, **given):
    """Group a part by its record behind the shuffle, which only small ones must cross."""
    assert record == replace(record, summary=ScoreSummary(), languages={}, dropped={})
    return group_part(record, **given)


@pytest.mark.parametrize("is_scored", [True, False])
def test_all_workers_build_the_index_of_one_process(
    tmp_path, dump, tiny_folder, monkeypatch, is_scored
):
    """They look the folder over once for index and groups together, and its end looks again."""
    if not is_scored:
        without = pa.table({"id": [1], "candidate": pa.nulls(1, pa.string()), "reference": ["a"]})
        dump = write_dump(tmp_path / "null", [without])
    monkeypatch.setattr(index_module, "FILE_ROWS", 5)
    given = {"model": str(tiny_folder("bert")), "num_layers": 2, "split_rows": 4}
    given["max_reject_fraction"] = 1.0
    jobs.run_job(dump, output=tmp_path / "one", **given)
    job = jobs.start(
        jobs.prepare_score(jobs.job_options(dump, tmp_path / "all", group_by=("id",), **given))
    )
    # No process builds it here: the pipeline alone does.
    monkeypatch.setattr(index_module.pool, "ask", None)
    monkeypatch.setattr("bertscore_beam.score.conclude.group_part", group_small_record)
    reads, read = [], OutputFolder.read
    monkeypatch.setattr(
        OutputFolder, "read", lambda own, name: reads.append(name) or read(own, name)
    )
    pipeline = beam.Pipeline(runner=FnApiRunner())
    build_score_pipeline(pipeline, spec=replace(job.spec, is_remote=True))
    pipeline.run().wait_until_finish()
    job.spec.folder.release()
    assert reads.count(PLAN_FILE) == 2
    assert job.spec.folder.read_json(SUMMARY_FILE)["success"]
    assert sum(file.rows for file in read_index(job.spec.folder).files) == (27 if is_scored else 0)
    assert job.spec.folder.exists(GROUPS_FILE)
    assert len(index_of(tmp_path / "one")) > (5 if is_scored else 0)
    assert index_of(tmp_path / "all") == index_of(tmp_path / "one")


@pytest.mark.parametrize("name", [".keys", "index.json"])
@pytest.mark.parametrize("is_full", [True, False])
def test_index_without_room_stops_no_job_of_a_service(
    tmp_path, dump, tiny_folder, monkeypatch, caplog, name, is_full
):
    """If a worker alone had none, its end makes the index."""
    job = start_remote(dump, tmp_path / "out", tiny_folder)
    failures, write = itertools.count(), OutputFolder.write_all

    def write_all(own, contents):
        if any(name in one for one in contents) and (is_full or next(failures) == 0):
            raise OSError(errno.ENOSPC, "No space left on device")
        write(own, contents)

    monkeypatch.setattr(OutputFolder, "write_all", write_all)
    assert jobs.run_prepared(job)["success"]
    job.spec.folder.release()
    assert "index_not_written" in caplog.text
    assert len(index_of(tmp_path / "out")) == (0 if is_full else 3)


# What changes after workers have read a run for its groups and index.


def change_and_finish(*given, spec, change, finish=conclude._finish):
    change(Path(spec.folder.path(next(iter(spec.folder.files(suffix=".parquet"))))))
    return finish(*given, spec=spec)


def lengthen(part):
    part.write_bytes(part.read_bytes() + b"more")


def start_remote(dump, output, tiny_folder):
    given = {"model": str(tiny_folder("bert")), "num_layers": 2, "group_by": ("id",)}
    job = jobs.start(jobs.prepare_score(jobs.job_options(dump, output, **given)))
    return replace(job, spec=replace(job.spec, is_remote=True))


@pytest.mark.parametrize("change", [Path.unlink, lengthen])
def test_part_that_changes_before_the_very_end_is_no_success(
    tmp_path, dump, tiny_folder, monkeypatch, change
):
    job = start_remote(dump, tmp_path / "out", tiny_folder)
    folder = job.spec.folder
    monkeypatch.setattr(conclude, "_finish", partial(change_and_finish, change=change))
    summary = jobs.run_prepared(job)
    folder.release()
    assert read_index(folder) is not None
    assert (summary["success"], summary["missing_parts"]) == (False, 1)
    assert not folder.exists(SUCCESS_FILE)
    assert folder.exists(FILES_FILE)


def test_steps_that_are_repeated_after_the_end_of_a_detached_run_do_nothing(
    tmp_path, dump, tiny_folder
):
    job = start_remote(dump, tmp_path / "out", tiny_folder)
    spec = replace(job.spec, detached=True)
    assert jobs.run_prepared(replace(job, spec=spec))["success"]
    assert not spec.folder.exists(PLAN_FILE)
    files = dict(spec.folder.each_file())
    with beam.Pipeline(runner=FnApiRunner()) as again:
        _ = again | beam.Create([]) | conclude.ConcludeRun(spec)
    assert dict(spec.folder.each_file()) == files


def test_rows_of_other_files_are_reused_once_the_earlier_command_has_made_an_index(
    tmp_path, dump, tiny_folder, capsys
):
    words = ["score", "--device", "cpu", "--model", tiny_folder("bert"), "--num-layers", 2]
    words += ["--quiet", "--reuse", tmp_path / "a"]
    renamed = shutil.copytree(dump, tmp_path / "renamed")
    for file in renamed.iterdir():
        file.rename(file.with_stem(f"{file.stem}-of-today"))

    def score(output, given=dump, *more):
        kept = words if output != "a" else words[:-2]
        full = [*kept, "--input", given, "--output", tmp_path / output, *more]
        assert cli.main([*map(str, full)]) == cli.DONE
        reused = OutputFolder(str(tmp_path / output)).read_json(SUMMARY_FILE)["reused"]
        return reused, "It has no index: rows are only found" in capsys.readouterr().err

    score("a")
    assert len(index_of(tmp_path / "a")) == 3
    score("a", dump, "--no-index")
    assert index_of(tmp_path / "a") == {}
    assert score("b") == (27, False)
    assert score("c", renamed) == (0, True)
    score("a")  # scores nothing, and makes an index
    assert index_of(tmp_path / "a") == index_of(tmp_path / "b")
    assert score("d", renamed) == (27, False)
