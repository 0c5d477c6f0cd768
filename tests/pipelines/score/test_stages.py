"""What flows between the stages and steps of the scoring pipeline."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.environments import ExternalEnvironment

from bertscore_beam.records.groups import group_part
from bertscore_beam.records.records import GROUPS_FILE, own_file
from bertscore_beam.run import publication
from bertscore_beam.run.folder import SUCCESS_FILE, OutputFolder
from bertscore_beam.run.publication import is_success, read_head
from bertscore_beam.run.run_step import add_phases
from bertscore_beam.score import conclude
from bertscore_beam.score.finish import judge_run, valid_records
from bertscore_beam.score.spec import PLAN
from bertscore_beam.score.steps import TriedSplits
from bertscore_core.stats.score_statistics import ScoreSummary
from tests.support import jobs
from tests.support.dumps import write_dump
from tests.support.s3 import s3_bucket

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
    run = "ScoreSplits/Work/OnDevice/Run"
    scoring = next(names for names in steps if f"{run}/Process" in names)
    spread = next(names for names in steps if "ScoreSplits/Work/Spread/Read" in names)
    count = "CountSplits/Work/OnDevice/Run"
    assert any(name.startswith("SaveIdf/") for name in crossing)
    # What is scored is spread by the shuffle, and then stored with what can be divided of it.
    device = {"ScoreSplits/Work/OnDevice/TakeApart", f"{run}/PairWithRestriction"}
    assert device <= set(spread)
    assert crossing.isdisjoint({"ScoreSplits/Work/Spread", *device})
    # Prism keeps a core busy while a stage with a side input has work: no long one may have any.
    with_side_inputs = steps_with_side_inputs(pipeline)
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


# The groups of a run, which workers read from its parts.


@pytest.fixture
def dump(tmp_path):
    return write_dump(tmp_path / "dump", [12, 9, 6])


def group_small_record(record, **given):
    """Group a part by its record behind the shuffle, which only small ones must cross."""
    assert record == replace(record, summary=ScoreSummary(), languages={}, dropped={})
    return group_part(record, **given)


def test_workers_group_parts_by_small_records_after_one_look(
    tmp_path, dump, tiny_folder, monkeypatch
):
    """The folder is looked over for the groups, and once more at the very end."""
    job = started(dump, tmp_path / "out", tiny_folder)
    monkeypatch.setattr("bertscore_beam.score.conclude.group_part", group_small_record)
    reads, read = [], OutputFolder.read
    monkeypatch.setattr(
        OutputFolder, "read", lambda own, name: reads.append(name) or read(own, name)
    )
    assert jobs.run_prepared(job)["success"]
    assert reads.count(own_file(job.spec.run, PLAN)) == 2
    assert job.spec.folder.exists(GROUPS_FILE)


# What changes after workers have read a run for its groups.


def change_and_judge(spec, judge, groups, *, change, judged=conclude._judged):
    change(Path(spec.folder.path(conclude._tried(spec).records[0].staged)))
    return judged(spec, judge, groups)


def lengthen(part):
    part.write_bytes(part.read_bytes() + b"more")


def started(dump, output, tiny_folder):
    given = {"model": str(tiny_folder("bert")), "num_layers": 2, "group_by": ("id",)}
    return jobs.start(jobs.prepare_score(jobs.job_options(dump, output, **given)))


@pytest.mark.parametrize("change", [Path.unlink, lengthen])
def test_part_that_changes_before_the_very_end_is_no_success(
    tmp_path, dump, tiny_folder, monkeypatch, change
):
    job = started(dump, tmp_path / "out", tiny_folder)
    folder = job.spec.folder
    monkeypatch.setattr(conclude, "_judged", partial(change_and_judge, change=change))
    with pytest.raises(RuntimeError, match=r"nothing can be published in .* expected it to stay"):
        jobs.run_prepared(job)
    assert [name for name in folder.files() if name.endswith((".parquet", SUCCESS_FILE))] == []
    monkeypatch.undo()
    given = {"model": str(tiny_folder("bert")), "num_layers": 2, "group_by": ("id",)}
    assert jobs.run_options(jobs.job_options(dump, tmp_path / "out", **given))["success"]


def test_steps_that_are_repeated_after_the_end_of_a_detached_run_do_nothing(
    tmp_path, dump, tiny_folder
):
    job = started(dump, tmp_path / "out", tiny_folder)
    spec = replace(job.spec, detached=True)
    assert jobs.run_prepared(replace(job, spec=spec))["success"]
    assert not spec.folder.exists(own_file(spec.run, PLAN))
    files = dict(spec.folder.each_stored())
    with beam.Pipeline(runner=FnApiRunner()) as again:
        noting, *others = conclude.last_phases(spec, valid_records, judge_run)
        assert noting.items((0, TriedSplits())) == ()
        add_phases(again, others)
    assert dict(spec.folder.each_stored()) == files


@pytest.mark.process
def test_in_a_store_each_shard_is_moved_by_the_worker_that_takes_it(
    tmp_path, dump, tiny_folder, monkeypatch
):
    monkeypatch.setattr(publication, "_SHARD_FILES", 2)
    moved, move = [], conclude.move_shard
    monkeypatch.setattr(
        conclude, "move_shard", lambda folder, name: moved.append(name) or move(folder, name)
    )
    given = {"model": str(tiny_folder("bert")), "num_layers": 2}
    with s3_bucket() as url:
        options = jobs.job_options(dump, f"{url}/out", **given)
        assert jobs.run_options(options)["success"]
        folder = OutputFolder(options.output)
        head = read_head(folder)
        assert sorted(moved) == head.shards
        assert len(moved) == 3  # of three parts, `_run.json` and the summary
        assert jobs.run_options(options)["parts_of_earlier_runs"] == 3
        assert is_success(folder, read_head(folder))
