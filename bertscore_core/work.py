"""Counts of the work that an encoder did."""

from dataclasses import dataclass

from bertscore_core.sums import Sums


@dataclass(slots=True, kw_only=True)
class Work(Sums):
    """Counts of one call. They only grow.

    Attributes:
        batches: Forward passes.
        planned_tokens: Tokens of the texts to encode; some may be encoded again.
        tokens: Tokens encoded, in each window of a long text.
        padded_tokens: The same with padding, which is computed, too.
        retries: Forward passes or blocks of pairs repeated in pieces because memory was too small.
        lowered_batches: Forward passes under a budget that was lowered because memory was too
            small, in this call or before. They are not the batches that the signature names.
        busy_seconds: Time in which the device computed for the call.
        idle_seconds: Time in which the device waited before work of the call, after the work that
            it had before, of any scorer that shares its queue. 0 before the first.
        late_seconds: Time in which the host queued work that a GPU had begun already, and may have
            waited for; `busy_seconds` has it, too.
        waited_seconds: Time in which the call waited for its turn to queue work, and for results.
    """

    batches: int = 0
    planned_tokens: int = 0
    tokens: int = 0
    padded_tokens: int = 0
    retries: int = 0
    lowered_batches: int = 0
    busy_seconds: float = 0.0
    idle_seconds: float = 0.0
    late_seconds: float = 0.0
    waited_seconds: float = 0.0

    @property
    def share(self) -> float:
        """Share of the planned tokens that is encoded, from 0 to 1."""
        return min(self.tokens / self.planned_tokens, 1.0) if self.planned_tokens else 0.0

    @property
    def padding(self) -> float:
        """Share of the computed tokens that are padding, 0 if there are none."""
        return 1 - self.tokens / self.padded_tokens if self.padded_tokens else 0.0
