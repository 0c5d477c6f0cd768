"""What children of a run raise arrives in the launcher."""

import pickle
from collections.abc import Iterator

import bertscore_beam.baseline.job
import bertscore_beam.crawl.fetch
import bertscore_beam.score.job  # noqa: F401  with the modules of all errors
from bertscore_core import BertScoreError


def kinds(base: type[BertScoreError]) -> Iterator[type[BertScoreError]]:
    """Yield a class of errors and all below it."""
    yield base
    for below in base.__subclasses__():
        yield from kinds(below)


def test_every_error_on_purpose_goes_from_one_process_to_another():
    classes = set(kinds(BertScoreError))
    assert {"UnknownModelError", "JobStillRunsError", "FetchError"} <= {
        one.__name__ for one in classes
    }
    for kind in classes:
        error = pickle.loads(pickle.dumps(kind("the model is unknown")))  # noqa: S301
        assert (type(error), str(error)) == (kind, "the model is unknown")
