"""What flows between the stages and steps of the scoring pipeline, and what is counted there."""

import apache_beam as beam
import pytest
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.environments import ExternalEnvironment

from tests.support.dumps import write_dump
from tests.support.jobs import add_score_pipeline, job_options as options, prepare_score, start

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
    job = prepare_score(options(dump, tmp_path / "out", idf="corpus"))
    pipeline = beam.Pipeline(runner=FnApiRunner())
    add_score_pipeline(pipeline, job)
    steps, crossing = crossing_producers(pipeline)
    scoring = next(names for names in steps if "ScoreSplits/OnDevice/Run" in names)
    count = "CountDocumentFrequencies/CountSplit"
    assert "SaveIdf/WriteTable" in crossing
    # What is scored comes from the shuffle, and not from a collection that was stored ungrouped.
    assert {"ScoreSplits/Spread/Read", "ScoreSplits/OnDevice/TakeApart"} <= set(scoring)
    assert crossing.isdisjoint({"ScoreSplits/Spread", "ScoreSplits/OnDevice/TakeApart"})
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


def test_counters_tell_what_was_done(tmp_path):
    dump = write_dump(tmp_path / "dump", [20, 20])
    chosen = options(dump, tmp_path / "out", idf="corpus")
    job = start(prepare_score(chosen))
    pipeline = beam.Pipeline(runner=FnApiRunner())
    add_score_pipeline(pipeline, job)
    found = pipeline.run().metrics().query()
    counters = {item.key.metric.name: item.committed for item in found["counters"]}
    assert counters["pairs_scored"] == 40
    assert counters["parts_written"] == 2
    assert counters["documents_counted"] == 40
