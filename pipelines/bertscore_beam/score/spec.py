"""What the workers of a run need to know of it: of scoring, `ScoreSpec`."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bertscore_beam.dump.columns import TableFields
from bertscore_beam.files.versions import NOT_THERE
from bertscore_beam.idf.idf_tables import SavedIdf
from bertscore_beam.metrics.own import OwnMetric
from bertscore_beam.records.earlier_run import ReusableRun
from bertscore_beam.records.group_notes import GroupedBy
from bertscore_beam.records.records import own_file
from bertscore_beam.records.settings import SettingsByLanguage
from bertscore_beam.records.summary import RunStart
from bertscore_beam.run.folder import RUN_FILE, OutputFolder, run_to_bytes
from bertscore_beam.run.publication import Head, staging
from bertscore_beam.score.loaded_scorers import ModelMemory

# Names of what is staged for the workers of a run: see `own_file`.
PLAN, PENDING, NOTES = "plan.pq", "pending.pq", "run.json"

_SHARE = 1000
"""Splits of a share, about: one worker holds the records of their parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """A run that stages parts and publishes them, as its workers know it, and its launcher.

    It has no plan, records or names of parts: those of many splits are large.

    Attributes:
        run: Identifies this run, a new one for each: the token of what it publishes.
        before: The head of the folder before the run was planned; None without one.
        folder: Output folder of the run.
        identity: What must be equal for two runs to share the output folder.
        fields: Columns of the rows.
        digest: Digest of the run's identity, in the record of every part.
        start: What is known of the run before its work, and its gates.
        is_over_success: Whether the folder held a success then.
        replaces: Whether nothing of what is published stays.
        detached: Whether no launcher waits for the end of the job.
        group_by: Columns whose values are the groups of the summary; none for no groups.
        metrics: Metrics of other libraries that rows have as well.
        own_metrics: Metrics of one's own, the same.
        keep_input: Whether the rows of imports stay when the run is a success.
    """

    run: str
    before: Head | None
    folder: OutputFolder
    identity: Mapping[str, str]
    fields: TableFields
    digest: str
    start: RunStart
    is_over_success: bool = False
    replaces: bool = False
    detached: bool = False
    group_by: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    own_metrics: tuple[OwnMetric, ...] = ()
    keep_input: bool = True

    @property
    def below(self) -> str:
        """Where it stages, below the folder."""
        return staging(self.before, overwrite=self.replaces)

    def write_notes(self, content: Mapping[str, Any]) -> None:
        """Stage `_run.json`. A folder that holds nothing yet gets it now: it says whose it is."""
        own = {"run": self.run, "identity": dict(self.identity)}
        notes = run_to_bytes({**own, **content, **own})
        self.folder.write(own_file(self.run, NOTES), notes)
        if self.before is None:
            self.folder.replace_version(RUN_FILE, notes, NOT_THERE)

    @property
    def shares(self) -> int:
        """Into how many shares its splits are put when all have been tried."""
        return 1 + self.start.parts // _SHARE

    def share_of(self, part_name: str) -> int:
        """Return the number of the share of a split."""
        return zlib.crc32(part_name.encode("utf-8", "surrogateescape")) % self.shares

    @property
    def has_groups(self) -> bool:
        """Whether more is known of its rows than sums: of groups, or of metrics."""
        return bool(self.group_by or self.metric_names)

    @property
    def grouped_by(self) -> GroupedBy:
        """How its rows are grouped at the end."""
        language = self.fields.language
        return GroupedBy(by=tuple(self.group_by), language=language, metrics=self.metric_names)

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The names of all metrics."""
        return (*self.metrics, *(metric.name for metric in self.own_metrics))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreSpec(RunSpec):
    """A scoring run.

    Attributes:
        settings: How the rows of each language are scored.
        idf: Its idf tables.
        model_memory: How much memory the models of a worker may take.
        reuse: The earlier run that rows take their scores from; None for none.
        num_chunks: How many share the work; None if the number of workers is not known.
        corpus: Digest of the corpus, by versions of its files.
        tables: See `FolderDiff.stay`.
        accelerator: GPU for the workers that score; None for none.
        notes: `Plan.notes`.
        plans: Digests of the plans that were written for the workers, by name.
    """

    settings: SettingsByLanguage
    idf: SavedIdf = field(default_factory=SavedIdf)
    model_memory: ModelMemory = field(default_factory=ModelMemory)
    reuse: ReusableRun | None = None
    num_chunks: int | None = None
    corpus: str = ""
    tables: tuple[str, ...] = ()
    accelerator: str | None = None
    notes: tuple[str, ...] = ()
    plans: Mapping[str, str] = field(default_factory=dict)

    @property
    def looks(self) -> bool:
        """Whether the folder has other parts than those that are done, damaged ones included."""
        others = self.start.rows_at_risk + self.start.parts_damaged
        return others > 0 and not self.replaces

    def plan(self, name: str) -> tuple[str, str]:
        """Return the path of a plan, and its digest; "" before it is written."""
        return self.folder.path(own_file(self.run, name)), self.plans.get(name, "")
