"""Fixtures every test may use. They need no more than `tests/core` does: torch and transformers.

The second is imported where tests run, and not in the process that hands tests out.
"""

import gc
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings

from tests.support import layers

# Thousands of tests make millions of objects: as commands do, look for garbage less often.
gc.set_threshold(50_000)

# Same examples every run; no deadline, since other work on the machine is no failure.
settings.register_profile("project", deadline=None, derandomize=True, max_examples=60)
settings.register_profile("quick", settings.get_profile("project"), max_examples=40)
settings.register_profile("fuzz", deadline=None, max_examples=10_000)
settings.load_profile("project")


def pytest_configure(config: pytest.Config) -> None:
    """Keep converted encoders for this session alone, in a folder that its processes share.

    The layers of the suite have hooks of their own. Commands that tests start must hear SIGINT,
    which a shell ignores for its background jobs, and SIGHUP, which `nohup` ignores.
    """
    config.pluginmanager.register(layers)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    from bertscore_core.model.kept_encoders import CACHE_VARIABLE

    if CACHE_VARIABLE not in os.environ:
        folder = tempfile.TemporaryDirectory(prefix="bertscore-tests-")
        os.environ[CACHE_VARIABLE] = folder.name
        config.add_cleanup(folder.cleanup)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take Prism, which no package registry has: see pipelines/run/test_engines.py."""
    what = "Beam's Prism runner, as a zip or a program"
    parser.addoption("--prism_location", default=None, metavar="PATH", help=what)


THREADS = torch.get_num_threads()

TORCH_DEVICES = [
    "cpu",
    *([pytest.param("cuda:0", marks=pytest.mark.gpu)] if torch.cuda.is_available() else []),
]


@pytest.fixture(autouse=True, scope="module")
def encoders_are_shared() -> Iterator[None]:
    """Let the scorers of all tests in this process share their encoders and tokenizers."""
    from tests.support.encoders import shared_encoder, shared_tokenizer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bertscore_core.scorer.load_encoder", shared_encoder)
        patch.setattr("bertscore_core.config.load_tokenizer", shared_tokenizer)
        yield


@pytest.fixture(autouse=True)
def threads_are_given_back() -> None:
    """Undo what earlier tests and all shared fixtures chose: it may move the last bit.

    More threads than cores wait for each other, and what follows would take several times as long.
    """
    torch.set_num_threads(THREADS)


@pytest.fixture(autouse=True, scope="session")
def no_machine_dies() -> Iterator[None]:
    """Let this process wait for no disk: a job has thirty files. Commands do as they always do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def one_worker_runs_here() -> Iterator[None]:
    """Let jobs of this process with one worker start no other; commands do as they always do."""
    with pytest.MonkeyPatch.context() as patch:
        if find_spec("apache_beam") is not None:  # tests of the core run where Beam is missing
            from bertscore_beam.run.runner import Runner
            from tests.support import quick_beam

            threads = Runner.threads.fget

            def few_threads(runner: Runner) -> int | None:
                own = threads(runner)
                return own if runner.asked_threads or not own else min(own, THREADS)

            quick_beam.remember(patch)
            quick_beam.run_without(patch)
            patch.setattr(Runner, "threads", property(few_threads))
            patch.setattr("bertscore_beam.run.runner._RESTARTS", 0)
            patch.setattr("bertscore_beam.run.runner.has_accelerator", lambda device: False)
        yield


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let jobs with one worker run their steps in a child, as commands do."""
    from bertscore_beam.run.gpus import has_accelerator

    monkeypatch.setattr("bertscore_beam.run.runner._RESTARTS", 1)
    monkeypatch.setattr("bertscore_beam.run.runner.has_accelerator", has_accelerator)


@pytest.fixture(params=TORCH_DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    """Run a test on the CPU, and on the GPU where there is one."""
    return str(request.param)


@pytest.fixture(scope="session")
def scorer() -> Any:
    """Return a scorer with the embedded model, on the CPU."""
    from bertscore_core import BertScorer, ScorerConfig

    return BertScorer(ScorerConfig(device="cpu"))


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Build the tiny model of a family when it is first asked for. Tests change copies only."""
    from tests.support.tiny_models import build_tiny_model, lacks

    root = tmp_path_factory.mktemp("tiny")

    @cache
    def folder(family: str) -> Path:
        if lacking := lacks(family):
            pytest.skip(lacking)
        return build_tiny_model(family, root / family)

    return folder
