"""A file of a crawl, fetched alone."""

import tempfile
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from bertscore_beam.crawl import Fetched, FetchError, FetchPolicy, fetched
from tests.support.wet import some_pages, wet_bytes

DATA = wet_bytes(some_pages(300))
"""The content of a file to fetch."""

QUICK = FetchPolicy(attempts=4, timeout=0.3, pause=0.02)
"""How it is fetched where a test says nothing else."""


def fetch(path: str, folder: Path, policy: FetchPolicy = QUICK) -> tuple[Fetched, bytes]:
    """Fetch a file through a folder; return what is said of it, and its content."""
    with copies_in(folder), fetched(path, policy) as got:
        content = got.file.read_bytes()
    assert list(folder.iterdir()) == [], "nothing may be left behind"
    return got, content


def fail(
    path: str, folder: Path, policy: FetchPolicy = QUICK, kind: type[Exception] = FetchError
) -> Any:
    """Fetch a file that cannot be fetched; return the error."""
    folder.mkdir(exist_ok=True)
    with copies_in(folder), ExitStack() as stack, pytest.raises(kind) as caught:
        stack.enter_context(fetched(path, policy))
    assert list(folder.iterdir()) == [], "nothing may be left behind"
    return caught.value


def copies_in(folder: Path) -> AbstractContextManager[object]:
    """Let copies of fetched files be made in a folder."""
    return mock.patch.object(tempfile, "tempdir", str(folder))
