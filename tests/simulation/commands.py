"""What simulated launchers are told to do, in small real plans, and what must come of it."""

import atexit
import hashlib
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.dump.columns import KEY, OUTPUT_COLUMNS, TableFields
from bertscore_beam.dump.digests import RowDigests
from bertscore_beam.dump.splits import Split
from bertscore_beam.dump.texts import Rows
from bertscore_beam.records.resume import job_identity
from bertscore_beam.run.identity import identity_digest
from bertscore_beam.run.runner import Runner
from bertscore_beam.score.kept_plan import PLANS_FOLDER
from bertscore_beam.score.loaded_scorers import LoadedScorers
from bertscore_beam.score.prepare import ScorePlan, plan_score
from bertscore_beam.score.scored_table import ScoredTable
from bertscore_beam.score.spec import ScoreSpec
from bertscore_beam.score.steps import SplitScorer
from bertscore_core.work import Work
from tests.support.dumps import SCHEMA, pair_rows
from tests.support.jobs import job_options
from tests.support.tiny_models import build_tiny_model

ROWS = 6
FIELDS = TableFields(candidate_column="candidate", reference_column="reference")
SETTINGS = (1, 2)
VERSIONS = ("first", "other text", "other column")
"""The input as it was at first, with another text in a row, and with another value beside one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What a launcher is told to do.

    Attributes:
        layers: The setting: parts of all settings have the same sizes.
        version: The input as the launcher finds it.
        split_rows: Rows of a part.
        overwrite: Whether scores of other settings are replaced.
    """

    layers: int = 1
    version: str = VERSIONS[0]
    split_rows: int = 2
    overwrite: bool = False


@cache
def _dump(version: str) -> Path:
    """Write the input as it is in one version; its name is the same in all."""
    rows = pair_rows(ROWS)
    if version == "other text":
        rows["candidate"][3] = rows["candidate"][3][::-1]
    if version == "other column":
        rows["id"][3] = 103
    folder = _temporary_folder()
    pq.write_table(pa.table(rows, schema=SCHEMA), folder / "shard.parquet")
    return folder


@cache
def _model() -> str:
    return str(build_tiny_model("bert", _temporary_folder()))


def _temporary_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="bertscore-simulation-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def _planned(command: Command) -> ScorePlan:
    chosen = job_options(
        _dump(command.version),
        Path(tempfile.gettempdir(), "bertscore-simulation", "out"),
        split_rows=command.split_rows,
        model=_model(),
        num_layers=command.layers,
        backend="torch",
        overwrite=command.overwrite,
    )
    return plan_score(chosen, Runner.of(chosen))


def planned(command: Command, output: str) -> ScorePlan:
    """Return the checked plan of a command, for an output folder."""
    made = _planned(command)
    options = replace(made.options, output=output)
    # Its own name depends on where the input lies, and would differ whenever a seed is played.
    digest = hashlib.sha256(f"{command.version} {command.split_rows}".encode()).hexdigest()[:32]
    kept_as = f"{PLANS_FOLDER}/{digest}.pq"
    return replace(made, options=options, output=output, started=1e9, kept_as=kept_as)


@cache
def job_digest(layers: int) -> str:
    """Return the digest of a setting, as the records of its parts have it."""
    made = _planned(Command(layers=layers, overwrite=True))
    return identity_digest(job_identity(made.settings, made.fields, "none"))


def know(commands: Iterable[Command]) -> None:
    """Plan what would otherwise be planned, or looked up, inside a world, where it takes steps."""
    for command in commands:
        for one in (command, replace(command, overwrite=True)):
            _planned(one)
            expected(one)
    for layers in SETTINGS:
        job_digest(layers)
        signature(layers)


scored_so_far: dict[tuple[str, str, RowDigests], ScoredTable] = {}
"""What was scored, by setting, part and digests of the rows."""
_scorers: dict[str, LoadedScorers] = {}
_score_rows = SplitScorer.score  # as it is outside of a world


def score_once(spec: ScoreSpec, split: Split, rows: Rows) -> ScoredTable:
    """Score the rows of a split with a real model, once for each setting and rows."""
    digests = RowDigests.of(rows)
    key = (spec.digest, split.part_name, digests)
    if key not in scored_so_far:
        scorers = _scorers.setdefault(spec.digest, LoadedScorers())
        # What the clock has measured would differ in each process that replays a seed.
        scored_so_far[key] = replace(
            _score_rows(SplitScorer(spec, scorers), split, rows, None, {}), work=Work()
        )
    return scored_so_far[key]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRows:
    """What a part holds.

    Attributes:
        setting: Its signature.
        rows: Its rows without scores.
        digests: Their digests.
    """

    setting: str
    rows: tuple[tuple[object, ...], ...]
    digests: RowDigests


@lru_cache(maxsize=10_000)
def rows_of(data: bytes) -> PartRows:
    """Read a part."""
    table = pq.read_table(BytesIO(data))
    columns = table.select(
        [name for name in table.column_names if name not in (*OUTPUT_COLUMNS, KEY)]
    )
    setting = table.schema.metadata[b"bertscore.signature"].decode()
    return PartRows(
        setting=setting,
        rows=tuple(zip(*(column.to_pylist() for column in columns.columns), strict=True)),
        digests=RowDigests.of(Rows(columns.replace_schema_metadata(), FIELDS)),
    )


@cache
def signature(layers: int) -> str:
    """Return the signature of a setting."""
    sole = _planned(Command(layers=layers, overwrite=True)).settings.sole
    assert sole is not None
    return sole.signature.format()


@cache
def expected(command: Command) -> tuple[str, frozenset[tuple[object, ...]]]:
    """Return the signature and the rows that a folder must hold after a command."""
    table = pq.read_table(_dump(command.version) / "shard.parquet")
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return signature(command.layers), frozenset(rows)
