"""The settings of a scoring run for its workers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bertscore_beam.dump.columns import TableFields
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.runs.source import EarlierSource
from bertscore_beam.score.scorers import ModelMemory
from bertscore_beam.score.settings import RunSettings
from bertscore_beam.score.summary import RunGoal


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreSpec:
    """The settings of a scoring run for its workers.

    Attributes:
        run: Identifies this run; a new one for each.
        folder: Output folder of the run.
        settings: How the rows of each language are scored.
        identity: What must be equal for two runs to share the output folder.
        fields: The columns of texts.
        digest: Digest of the run's identity, in the record of every part.
        goal: What the totals are compared with at the end of the run.
        model_memory: How much memory the models of a worker may take.
        detached: Whether no launcher waits for the end of the job.
        reuse: The earlier run that rows take their scores from; None for none.
        group_by: Columns whose values are the groups of the summary; none for no groups.
        index: Whether the run ends with an index of its rows for later runs.
        workers: How many runs of splits are worked on at the same time; None if that is not known.
        record_generation: Generation of the packs that the run writes of its records.
    """

    run: str
    folder: OutputFolder
    settings: RunSettings
    identity: Mapping[str, str]
    fields: TableFields
    digest: str
    goal: RunGoal
    model_memory: ModelMemory = field(default_factory=ModelMemory)
    detached: bool = False
    reuse: EarlierSource | None = None
    group_by: tuple[str, ...] = ()
    index: bool = True
    workers: int | None = None
    record_generation: int = 1
