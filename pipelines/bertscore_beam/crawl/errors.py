"""Errors of crawl files: one attempt to fetch failed, or the file cannot be read."""

from typing import Literal

from bertscore_beam.files.credentials import mask_credentials
from bertscore_core.errors import BertScoreError

CrawlFileReason = Literal[
    "empty", "bad_start", "truncated", "corrupt", "broken_record", "broken_records", "no_pages"
]

_PROBLEM_LENGTH = 300


class CrawlFileError(BertScoreError):
    """A crawl file cannot be read to its end.

    Attributes:
        reason: What is wrong, in one word, for counting.
    """

    def __init__(self, message: str, reason: CrawlFileReason = "corrupt") -> None:
        super().__init__(message)
        self.reason: CrawlFileReason = reason


class AttemptError(Exception):
    """One attempt to fetch a file failed.

    Attributes:
        permanent: Whether a further attempt is useless.
        missing: Whether there is no such file.
        wait: Seconds the server asks us to wait.
        factor: By how much to multiply the usual pause.
    """

    def __init__(
        self,
        problem: str,
        *,
        permanent: bool = False,
        missing: bool = False,
        wait: float = 0.0,
        factor: float = 1.0,
    ) -> None:
        super().__init__(" ".join(mask_credentials(problem).split())[:_PROBLEM_LENGTH])
        self.permanent = permanent
        self.missing = missing
        self.wait = wait
        self.factor = factor


def describe(error: Exception) -> str:
    """Return the kind of an error and what it says."""
    return f"{type(error).__name__}: {error}"
