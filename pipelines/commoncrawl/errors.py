"""What a crawl file can have wrong with it."""

from typing import Literal

from bertscore_core.errors import BertScoreError

Reason = Literal["empty", "bad_start", "truncated", "corrupt", "broken_record", "no_pages"]


class CrawlFileError(BertScoreError):
    """A crawl file cannot be read to its end.

    Attributes:
        reason: What is wrong, in one word, for counting.
    """

    def __init__(self, message: str, reason: Reason = "corrupt") -> None:
        super().__init__(message)
        self.reason: Reason = reason
