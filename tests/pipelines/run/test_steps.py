"""The steps of all jobs cross to processes that know no Beam."""

import pickle
import subprocess
import sys

import apache_beam as beam
import pytest
from apache_beam.pipeline import PipelineVisitor

from bertscore_beam.run.pool import Each
from bertscore_beam.run.run_step import RunStep
from bertscore_beam.run.runner import Runner
from tests.pipelines.run.test_portable import JOBS

pytestmark = pytest.mark.job

STEPS = {"find_keys", "group_part", "read_lane", "read_pieces"}
"""Functions that are steps by themselves."""


def steps_of(build):
    """Return the steps of a pipeline by the names that Beam knows them by."""
    pipeline, steps = beam.Pipeline(), {}
    build(pipeline)

    class Visitor(PipelineVisitor):
        def visit_transform(self, applied):
            if isinstance(getattr(applied.transform, "fn", None), RunStep):
                steps[applied.full_label] = applied.transform.fn._step

    pipeline.visit(Visitor())
    return steps


@pytest.fixture(scope="module")
def steps():
    by_name = {}
    for kind, options in JOBS.values():
        for stage in kind.sketch(options, Runner.of(options)):
            by_name |= {f"{stage.name}: {name}": one for name, one in steps_of(stage.build).items()}
    return by_name


def parts_of(step):
    """Return what two equal steps have equal; functions that are bound to values have no `==`."""
    if not isinstance(step, Each):
        return step
    bound = step.function
    return bound.func, bound.args, bound.keywords, pickle.dumps(step.name)


def test_a_step_arrives_as_it_was_sent(steps):
    assert steps
    for name, step in steps.items():
        arrived = pickle.loads(pickle.dumps(step))  # noqa: S301 - our own
        assert parts_of(arrived) == parts_of(step), name


def test_a_process_takes_all_steps_without_beam(steps):
    functions = {step.function.func.__name__ for step in steps.values() if isinstance(step, Each)}
    assert functions == STEPS
    others = {type(step).__name__ for step in steps.values()} - {"Each"}
    assert others == {"CountParts", "CountSplits", "ScorePairParts", "ScoreParts", "ScoreSplits"}
    words = (
        "import pickle, sys, bertscore_beam.run.child\n"
        "print(len(pickle.load(sys.stdin.buffer)), 'apache_beam' in sys.modules)"
    )
    data = pickle.dumps(list(steps.values()))
    done = subprocess.run([sys.executable, "-c", words], input=data, capture_output=True)
    assert done.stdout.decode().split() == [str(len(steps)), "False"], done.stderr
