"""Planning a run can leave torch, transformers and the model's files to another process."""

import multiprocessing
import pickle
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import pytest

import bertscore_beam.baseline.job
import bertscore_beam.crawl.fetch
import bertscore_beam.score.job  # noqa: F401  with the modules of all errors
from bertscore_beam.options import ScoreOptions
from bertscore_beam.run import KnownWorkers, tokenizer_facts
from bertscore_beam.score import settle_each
from bertscore_core import BertScoreError, ScorerConfig, UnknownModelError

LOCAL = KnownWorkers(is_local=True, threads=1)


def kinds(base: type[BertScoreError]) -> Iterator[type[BertScoreError]]:
    """Yield a class of errors and all below it."""
    yield base
    for below in base.__subclasses__():
        yield from kinds(below)


def test_every_error_on_purpose_goes_from_one_process_to_another():
    classes = set(kinds(BertScoreError))
    assert {"UnknownModelError", "FolderLostError", "FetchError"} <= {
        one.__name__ for one in classes
    }
    for kind in classes:
        error = pickle.loads(pickle.dumps(kind("the model is unknown")))  # noqa: S301
        assert (type(error), str(error)) == (kind, "the model is unknown")


@pytest.mark.process
@pytest.mark.model
def test_another_process_settles_alike(tiny_folder):
    folder = str(tiny_folder("bert"))
    options = ScoreOptions(
        input=("in",), output="out", model=folder, num_layers=1, max_length=16, device="cpu"
    )
    config = ScorerConfig(model=folder, max_length=16)
    unknown = replace(options, model="no-such-model")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        settled = pool.submit(settle_each, options, LOCAL, ("",)).result()
        facts = pool.submit(tokenizer_facts, config).result()
        with pytest.raises(UnknownModelError, match="no-such-model"):
            pool.submit(settle_each, unknown, LOCAL, ("",)).result()
    assert settled == settle_each(options, LOCAL, ("",))
    assert settled.by_language[""].weight_bytes > 0
    assert facts == tokenizer_facts(config) == (settled.by_language[""].signature.tokenizer, 16)
