"""Fixtures of the tests of the job."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import fsspec
import pytest

from tests.support.cloud_storage import gcs_bucket
from tests.support.s3 import s3_bucket


@pytest.fixture
def tiny_jobs(tiny_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small jobs score with a tiny model: what becomes of their rows is the question."""
    model = {"model": str(tiny_folder("bert")), "num_layers": 2}
    monkeypatch.setattr("tests.support.jobs.MODEL", model)


@pytest.fixture
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resample less: what that gives is tested in tests/core/stats/test_paired.py."""
    monkeypatch.setattr("bertscore_beam.compare.compare.RESAMPLES", 999)


BUCKETS = {"s3": s3_bucket, "gs": gcs_bucket}


@pytest.fixture(
    params=["local", "memory", *(pytest.param(kind, marks=pytest.mark.process) for kind in BUCKETS)]
)
def output(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return an output folder on each kind of file system."""
    if request.param in BUCKETS:
        with BUCKETS[request.param]() as bucket:
            yield f"{bucket}/out"
    elif request.param == "memory":
        yield f"memory://{uuid.uuid4().hex}"
        fsspec.filesystem("memory").store.clear()
    else:
        yield str(tmp_path / "out")
