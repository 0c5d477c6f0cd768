"""What an encoder was made to do, counted where it is done."""

import dataclasses
from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class Work:
    """Counts of one call; only ever added to.

    Attributes:
        batches: Forward passes.
        tokens: Tokens of the texts encoded.
        padded_tokens: The same with the padding, which is computed as well.
        retries: Forward passes or windows done again in pieces because memory was short.
        lowered_batches: Forward passes under a budget that was lowered because memory was short, in
            this call or before: not the batches that the signature names.
        busy_seconds: Time in which the call had the device.
        idle_seconds: Time from the end of the last call's use of the device to the start of this
            one's: nobody had it. 0 for the first.
    """

    batches: int = 0
    tokens: int = 0
    padded_tokens: int = 0
    retries: int = 0
    lowered_batches: int = 0
    busy_seconds: float = 0.0
    idle_seconds: float = 0.0

    def __add__(self, other: "Work") -> "Work":
        """Return the counts of both."""
        names = [field.name for field in dataclasses.fields(self)]
        return Work(**{name: getattr(self, name) + getattr(other, name) for name in names})

    @property
    def padding(self) -> float:
        """Share of the computed tokens that are padding; 0 without any."""
        return 1 - self.tokens / self.padded_tokens if self.padded_tokens else 0.0
