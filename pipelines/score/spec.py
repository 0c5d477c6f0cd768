"""The settings of a scoring run for its workers."""

from dataclasses import dataclass

from pipelines.dump.columns import TableFields
from pipelines.run.folder import OutputFolder
from pipelines.runs.source import EarlierSource
from pipelines.score.settings import RunSettings
from pipelines.score.summary import RunGoal


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreSpec:
    """The settings of a scoring run for its workers.

    Attributes:
        run: Identifies this run; a new one for each.
        folder: Output folder of the run.
        settings: How the rows of each language are scored.
        fields: The columns of texts.
        digest: Digest of the run's identity, in the record of every part.
        goal: What the totals are compared with at the end of the run.
        detached: Whether no launcher waits for the end of the job.
        reuse: The earlier run that rows take their scores from; None for none.
    """

    run: str
    folder: OutputFolder
    settings: RunSettings
    fields: TableFields
    digest: str
    goal: RunGoal
    detached: bool = False
    reuse: EarlierSource | None = None
