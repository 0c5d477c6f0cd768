"""How a command prints: `--json` and `--quiet`, which every command takes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from bertscore_beam.options.flags import split_arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How a command prints.

    Attributes:
        json: Standard output is one JSON document, also if the command fails.
        quiet: Standard error has warnings and errors only.
    """

    json: bool = False
    quiet: bool = False

    @classmethod
    def of(cls, arguments: Sequence[str]) -> "Manner":
        """Read the manner from a command line; what follows `--` is Beam's."""
        own, _ = split_arguments(arguments)
        return cls(json="--json" in own, quiet="--quiet" in own)


_MANNER = ContextVar("manner", default=Manner())  # noqa: B039 - it is frozen


def manner() -> Manner:
    """Return how the present command prints."""
    return _MANNER.get()


@contextmanager
def printing(how: Manner) -> Iterator[None]:
    """Print in this manner inside the body."""
    token = _MANNER.set(how)
    try:
        yield
    finally:
        _MANNER.reset(token)
