"""Scorers in other processes: in forks of one that has scored, and pickled on their way there."""

import copy
import pickle
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
import pytest
import torch

from bertscore_core import BERTScorer, BertScorer, ConfigError, ScorerConfig
from bertscore_core.model.encoder import load_encoder, resolve_device
from tests.core.conftest import write_table

pytestmark = pytest.mark.model

TEXTS = [f"{number} old stones" for number in range(9)]


def there_and_back(scorer):
    return pickle.loads(pickle.dumps(scorer))  # noqa: S301 - our own


def arrays(scores):
    return np.stack([scores.precision, scores.recall, scores.f1])


FORKS = """
import multiprocessing, sys, warnings
import torch
from bertscore_core import BERTScorer, BertScorer, ConfigError, ScorerConfig, score

warnings.simplefilter("ignore", DeprecationWarning)
texts = [f"{number} old stones on a hill " * 4 for number in range(12)]

def made(backend):
    return BertScorer(ScorerConfig(
        model=sys.argv[1], num_layers=2, device="cpu", backend=backend, num_threads=2
    ))

def f1_of(scorer):
    return scorer.score(texts, texts[::-1]).f1.tolist()

def of_own(backend):
    return f1_of(made(backend)), torch.get_num_threads()

def of_drop_in(_):
    return score(
        texts, texts[::-1], model_type=sys.argv[1], num_layers=2, device="cpu"
    )[2].tolist()

def of_parents(_):
    try:
        return f1_of(scorer)
    except ConfigError as error:
        return str(error)

def without(_):
    return torch.get_num_threads()

def ask(question, given=None):
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.map_async(question, [given]).get(timeout=60)[0]

for backend in ("openvino", "torch"):
    scorer = made(backend)
    expected = f1_of(scorer)
    assert ask(of_own, backend) == (expected, 1), "a scorer of its own"
    assert ask(f1_of, scorer) == expected, "a pickled scorer"
    assert "was forked from process" in ask(of_parents)
    assert ask(without) == 2 == torch.get_num_threads()
assert ask(of_drop_in) == of_drop_in(None), "the drop-in"
"""


@pytest.mark.process
def test_a_fork_of_a_process_that_has_scored_answers_with_a_scorer_of_its_own(tiny_folder):
    """Torch has its threads in the parent alone: with more than one, the fork waited for ever."""
    asked = [sys.executable, "-c", FORKS, str(tiny_folder("bert"))]
    done = subprocess.run(asked, timeout=300, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr


def test_a_fork_of_a_process_that_has_used_cuda_is_told_to_spawn(monkeypatch):
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)
    for device in ("auto", "cuda", "cuda:1"):
        with pytest.raises(ConfigError, match=r"forked from one that has used CUDA.* 'spawn'"):
            BertScorer(ScorerConfig(device=device))
    assert resolve_device("cpu") == torch.device("cpu")


def test_threads_that_use_a_pickled_scorer_first_load_its_model_once(scorer, monkeypatch):
    loaded = []

    def load(*given, **options):
        loaded.append(load_encoder(*given, **options))
        time.sleep(0.2)
        return loaded[-1]

    monkeypatch.setattr("bertscore_core.scorer.load_encoder", load)
    # Before Python 3.12 it has a lock.
    monkeypatch.setattr(vars(BertScorer)["_engine"], "lock", nullcontext(), raising=False)
    arrived = there_and_back(scorer)
    with ThreadPoolExecutor(2) as threads:
        encoders = list(threads.map(lambda _: arrived.encoder, range(2)))
    assert encoders == [arrived.encoder] * 2 == loaded * 2


def test_a_pickled_scorer_loads_its_model_when_it_is_first_used(scorer):
    arrived = there_and_back(there_and_back(scorer))
    assert list(vars(arrived)) == ["_asked"]
    assert len(pickle.dumps(arrived)) == len(pickle.dumps(scorer)) < 1000
    np.testing.assert_array_equal(
        arrays(arrived.score(TEXTS, TEXTS[::-1])), arrays(scorer.score(TEXTS, TEXTS[::-1]))
    )
    assert arrived.signature() == scorer.signature()


def test_a_pickled_scorer_keeps_its_number_format(tiny_scorer, monkeypatch):
    """Where it arrives, another GPU may stand for another one."""
    made = tiny_scorer(dtype="auto")
    monkeypatch.setattr("bertscore_core.config.choose_dtype", lambda *_: "bfloat16")
    arrived = there_and_back(made)
    assert (arrived.config.dtype, arrived.config.backend) == ("float32", "auto")
    assert arrived.config == made.config
    assert arrived.signature() == made.signature()


def test_a_pickled_scorer_has_its_baseline_with_it(tiny_scorer, tmp_path):
    table = write_table(tmp_path / "tables" / "table.tsv")
    scorer = tiny_scorer(rescale=True, baseline=str(table))
    other = scorer.sharing_model(scorer.config)
    table.unlink()
    for made in (scorer, other):
        arrived = there_and_back(made)
        assert arrived.signature() == made.signature()
        np.testing.assert_array_equal(
            arrays(arrived.score(TEXTS, TEXTS[::-1])), arrays(made.score(TEXTS, TEXTS[::-1]))
        )


def test_a_copy_shares_the_model(scorer):
    for made in (scorer, there_and_back(scorer)):
        assert copy.copy(made)._engine is made._engine


def test_a_pickled_scorer_of_the_drop_in_keeps_its_weights():
    scorer = BERTScorer("all-MiniLM-L6-v2", idf=True, idf_sents=TEXTS, device="cpu")
    arrived = there_and_back(scorer)
    assert repr(arrived) == repr(scorer)
    found, expected = (made.score(TEXTS, TEXTS[::-1]) for made in (arrived, scorer))
    assert all(map(torch.equal, found, expected))
