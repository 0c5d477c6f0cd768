"""How one attempt to fetch a file fails."""

from pipelines.io.files import mask_credentials

_REASON_LENGTH = 300


class AttemptError(Exception):
    """One attempt failed.

    Attributes:
        permanent: Whether another one is of no use.
        missing: Whether there is no such file.
        wait: Seconds the server asks us to wait.
        factor: How many times the usual pause to wait.
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
        super().__init__(" ".join(mask_credentials(problem).split())[:_REASON_LENGTH])
        self.permanent = permanent
        self.missing = missing
        self.wait = wait
        self.factor = factor


def describe(error: Exception) -> str:
    """Name an error in a line."""
    return f"{type(error).__name__}: {error}"
