"""A file of a crawl, fetched alone."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from bertscore_beam.crawl import Fetched, FetchError, FetchPolicy, fetched
from tests.support.wet import some_pages, wet_bytes

DATA = wet_bytes(some_pages(300))
"""The content of a file to fetch."""

QUICK = FetchPolicy(attempts=4, timeout=0.3, pause=0.02)
"""How it is fetched where a test says nothing else."""


def fetch(path: str, folder: Path, policy: FetchPolicy = QUICK) -> tuple[Fetched, bytes]:
    """Fetch a file; return what is said of it, and its content."""
    with fetched(path, policy, str(folder)) as got:
        content = got.file.read_bytes()
    assert list(folder.iterdir()) == [], "nothing may be left behind"
    return got, content


def fail(path: str, folder: Path, policy: FetchPolicy = QUICK) -> FetchError:
    """Fetch a file that cannot be fetched; return the error."""
    with ExitStack() as stack, pytest.raises(FetchError) as caught:
        stack.enter_context(fetched(path, policy, str(folder)))
    assert not folder.is_dir() or list(folder.iterdir()) == [], "nothing may be left behind"
    return caught.value
