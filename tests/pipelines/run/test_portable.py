"""What the jobs ask of a runner: the parts of Beam's model that every portable runner knows."""

import pytest

from bertscore_beam.baseline.baseline_options import BaselineOptions
from bertscore_beam.options.score_options import IdfOptions, ScoreOptions
from bertscore_beam.tune.tune_options import TuneOptions
from tests.support.pipelines import pipeline_proto, pipelines_of

pytestmark = pytest.mark.job

BEAM = ("--runner=PortableRunner", "--job_endpoint=localhost:1", "--environment_type=EXTERNAL")
BEAM = (*BEAM, "--environment_config=localhost:50000")
COMMON = {"output": "out", "beam": BEAM}
KEYED = {**COMMON, "input": ("in",), "idf_key": ("id",)}
JOBS = {
    "score": ScoreOptions(**KEYED, idf="corpus", idf_group=("set",), group_by=("s",)),
    "idf": IdfOptions(**KEYED),
    "baseline": BaselineOptions(**COMMON, languages=("en",), crawl="CC", idf=True),
    "tune": TuneOptions(**COMMON, judgements=("in",), score_column="score", models=("m",)),
}

# What translators of batch pipelines know, beside the stages that workers run: Dataflow, Prism, and
# portable runners: https://beam.apache.org/documentation/runners/capability-matrix/
OF_RUNNERS = {
    "beam:transform:impulse:v1",
    "beam:transform:flatten:v1",
    "beam:transform:group_by_key:v1",
    "beam:transform:reshuffle:v1",
}
# What the workers do themselves, inside stages.
OF_WORKERS = {
    "beam:transform:pardo:v1",
    "beam:transform:window_into:v1",
    "beam:transform:combine_grouped_values:v1",
}
# Combine, which a runner may take apart and need not know.
COMPOSITE = {"beam:transform:combine_per_key:v1"}
# Coders of Beam's model. Runners pass bytes of all others on without reading them.
CODERS = {
    *("beam:coder:bytes:v1", "beam:coder:string_utf8:v1", "beam:coder:varint:v1"),
    *("beam:coder:kv:v1", "beam:coder:iterable:v1", "beam:coder:nullable:v1"),
    "beam:coder:global_window:v1",
}
OF_PYTHON = {"beam:coder:pickled_python:v1", "beam:coder:tuple:v1"}


@pytest.fixture(scope="module", params=JOBS)
def protos(request):
    found = pipelines_of(JOBS[request.param])
    assert found
    return [pipeline_proto(one.runner, one.build) for one in found]


DIVISIBLE = "beam:requirement:pardo:splittable_dofn:v1"
"""Job services take such a step apart; those that divide no work at least run it."""


def test_a_job_requires_little_of_its_runner_and_names_the_workers_of_the_options(protos):
    """No state, no timers, no stable input: those are requirements."""
    for proto in protos:
        scores = any("ScoreSplits" in name for name in proto.components.transforms)
        assert list(proto.requirements) == [DIVISIBLE] * scores
        environments = proto.components.environments.values()
        assert {environment.urn for environment in environments} == {"beam:env:external:v1"}


def does_nothing(step):
    """A composite without steps, which gives what it was given; runners leave it out."""
    return set(step.outputs.values()) <= set(step.inputs.values())


def test_its_steps_are_known_to_every_portable_runner(protos):
    for proto in protos:
        steps = proto.components.transforms.values()
        leaves = [step for step in steps if not step.subtransforms and not does_nothing(step)]
        assert {step.spec.urn for step in leaves} <= OF_RUNNERS | OF_WORKERS
        named = {step.spec.urn for step in steps if step.subtransforms}
        own = {"", "beam:transform:pickled_python:v1", "beam:transform:generic_composite:v1"}
        assert named <= OF_RUNNERS | OF_WORKERS | COMPOSITE | own


def test_its_rows_are_in_one_window_and_in_coders_that_can_be_passed_on(protos):
    for proto in protos:
        coders = {coder.spec.urn for coder in proto.components.coders.values()}
        assert coders <= CODERS | OF_PYTHON
        windows = proto.components.windowing_strategies.values()
        windows = {window.window_fn.urn for window in windows}
        assert windows == {"beam:window_fn:global_windows:v1"}
