"""The settings of a scoring run for its workers."""

from dataclasses import dataclass

from bertscore_core import ScorerConfig, Signature
from pipelines.dump.columns import TableFields
from pipelines.run.folder import OutputFolder
from pipelines.score.summary import RunGoal


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreSpec:
    """The settings of a scoring run for its workers.

    Attributes:
        run: Identifies this run; a new one for each.
        folder: Output folder of the run.
        config: How to score.
        fields: The columns of texts.
        signature: How the scores are made, without the fingerprint of a counted idf table.
        max_length: Most tokens of a text; longer texts are cut. None for no limit.
        digest: Digest of the run's identity, in the record of every part.
        goal: What the totals are compared with at the end of the run.
        detached: Whether no launcher waits for the end of the job.
    """

    run: str
    folder: OutputFolder
    config: ScorerConfig
    fields: TableFields
    signature: Signature
    max_length: int | None
    digest: str
    goal: RunGoal
    detached: bool = False
