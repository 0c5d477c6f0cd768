"""The steps of all jobs cross to processes that know no Beam."""

import os
import pickle
import subprocess
import sys

import apache_beam as beam
import pytest
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.pipeline import PipelineVisitor

from bertscore_beam.run.pool import Each
from bertscore_beam.run.run_step import RunDivisible, RunStep
from tests.pipelines.run.test_portable import JOBS
from tests.support.pipelines import pipelines_of

pytestmark = pytest.mark.job

STEPS = {"find_keys", "group_part", "read_lane", "_draw", "_move", "_with_overlap"}
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
    for options in JOBS.values():
        for made in pipelines_of(options):
            by_name |= {f"{made.name}: {name}": one for name, one in steps_of(made.build).items()}
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


def test_a_worker_leaves_the_items_that_the_runner_gives_to_another():
    begun, asked = [], []

    def work(items):
        asked.append(items)
        for item in items:
            begun.append(item)
            yield -item

    step = RunDivisible(Each(work, str))
    step.setup()
    items, places = (1, 2, 3, 4, 5), OffsetRestrictionTracker(OffsetRange(0, 5))
    results = step.process(items, places)
    assert (next(results), begun) == (-1, [1])
    _, given = places.try_split(0.5)
    assert [*results] == [-2]
    third, given = OffsetRestrictionTracker(given).try_split(0.5)
    others = [step.process(items, OffsetRestrictionTracker(left)) for left in (third, given)]
    assert ([*others[0], *others[1]], begun) == ([-3, -4, -5], [*items])
    assert asked == [items, (3,), (4, 5)]  # no file stays open for items of others
    places.check_done()


WORKERS = """
import os, sys
import apache_beam as beam
from bertscore_beam.run.pool import Each
from bertscore_beam.run.run_step import RunStep, prepare_workers

def counted(element):
    import torch
    return [(os.environ["RAYON_NUM_THREADS"], torch.get_num_threads())]

def work(variable, has_torch):
    if variable:
        os.environ |= {"OMP_NUM_THREADS": variable, "RAYON_NUM_THREADS": "2"}
    if has_torch:
        import torch
    with beam.Pipeline(runner="FnApiRunner") as root:
        step = RunStep(Each(counted, str))
        root | beam.Create([0]) | beam.ParDo(step) | beam.Map(lambda found: print(*found))
        prepare_workers(root, threads=1)

for variable in ("", "2", "2,1"):
    for has_torch in (True, False):
        process = os.fork()  # Beam is imported once for all
        if not process:
            work(variable, has_torch)
            sys.stdout.flush()
            os._exit(0)
        os.waitpid(process, 0)
"""


@pytest.mark.process
def test_a_worker_of_a_service_computes_with_the_threads_it_is_told():
    """Unless its environment says otherwise, and whether torch is imported already or not."""
    unset = {"OMP_NUM_THREADS", "RAYON_NUM_THREADS"}
    own = {name: value for name, value in os.environ.items() if name not in unset}
    words = [sys.executable, "-c", WORKERS]
    done = subprocess.run(words, env=own, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["1 1"] * 2 + ["2 2"] * 4, done.stderr
