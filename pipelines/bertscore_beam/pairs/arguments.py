"""Errors name arguments of Python in the place of the flags that the command line takes."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from bertscore_beam.options.declare import underscored
from bertscore_core.errors import BertScoreError

_ASIDE = re.compile(r" \(--[^()]*\)")
"""Flags in brackets, before which the argument stands: dtype float32 (--dtype float32)."""
_FLAG = re.compile(r"`[^`]*`|(?<![\w'\"-])--([a-z][a-z-]*[a-z])")
"""A flag; or what stands in backquotes, such as a command with flags, which stays."""


@contextmanager
def naming_arguments(**others: str) -> Iterator[None]:
    """Let the errors on purpose that are raised within name arguments, not flags.

    Args:
        **others: What arguments are called here that have another name as options.

    Examples:
        >>> with naming_arguments(reference_column="reference"):
        ...     raise BertScoreError("got no column; name one with --reference-column.")
        Traceback (most recent call last):
        bertscore_core.errors.BertScoreError: got no column; name one with `reference`.
    """
    try:
        yield
    except BertScoreError as error:
        words = _FLAG.sub(
            lambda found: f"`{underscored(found[1])}`" if found[1] else found[0],
            _ASIDE.sub("", str(error)),
        )
        for option, name in others.items():  # but for the first word not in quotes: a value
            words = re.sub(rf"^'{option}'|(?<!')\b{option}\b", name, words)
        error.args = (words,)
        raise
