"""BERTScore on Arrow tables, for engines that call a function on batches of rows.

    table --ScoreBatches(model=...)--> the same table with the score columns of the job

Ray Data, Spark's `mapInArrow` and Hugging Face datasets take it as it is. Nothing here imports
Beam, also where it is unpickled.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from bertscore_beam.dump import columns
from bertscore_beam.dump.columns import check_choosing_columns, check_columns
from bertscore_beam.dump.parquet import SETTINGS_KEY
from bertscore_beam.dump.texts import Rows
from bertscore_beam.idf.idf_tables import load_idf
from bertscore_beam.options.declare import by_name, declared
from bertscore_beam.options.row_options import RowOptions
from bertscore_beam.options.score_options import ScoreOptions
from bertscore_beam.records.settings import EVERY_LANGUAGE, SettingsByLanguage, check_given_idf
from bertscore_beam.run.loading import threads_in_environment
from bertscore_beam.score.loaded_scorers import LoadedScorers, ModelMemory
from bertscore_beam.score.rows import score_table
from bertscore_beam.score.scored_table import metadata_by_language
from bertscore_beam.score.settle import settle_named
from bertscore_core.errors import ConfigError, InputError, unknown_argument
from bertscore_core.scorer_config import ScorerConfig
from bertscore_core.signature import Signature

_BLOCK_ROWS = 20_000
"""Rows scored at a time, which bounds the memory that a large table takes."""


class _Options(RowOptions):
    """Options of `score` that say how rows are scored; the others are about a job."""

    hidden = "idf_key accelerator"


OPTIONS = tuple(option.field for option in declared(_Options))
"""Names of the options that `ScoreBatches` takes."""


class ScoreBatches:
    """Arrow tables -> the same tables with the score columns of `bertscore-beam score`.

    No row is dropped, and the order is kept. A row that cannot be scored has nulls and its reason
    in `bertscore_error`. The metadata of a table name the signature.

    Everything is checked where the object is made; the model is loaded where it is first called,
    once a process, however many objects and calls there are. The backend `auto` means torch if the
    device is not `cpu`, since the device of the workers cannot be seen. Other rows of a table
    change a score in the seventh digit at most in float32, as in the job.

    Examples:
        >>> scored = ScoreBatches(model="all-MiniLM-L6-v2", device="cpu")(table)
    """

    def __init__(self, *, num_threads: int | None = None, **options: Any) -> None:
        """Check and settle everything that does not depend on the rows.

        Args:
            num_threads: Threads of each process on a CPU; None for the environment variable
                `OMP_NUM_THREADS`, which Ray and Spark set to the cores of a task, or for the number
                of cores without it.
            **options: Options of `bertscore-beam score` by name; `OPTIONS` lists them. `idf` is the
                path of a saved table, which becomes part of this object. With `language_column`,
                `languages` names every language that is scored.

        Raises:
            BertScoreError: The options cannot work.
        """
        chosen = _options(options)
        self._num_threads = ScorerConfig(num_threads=num_threads).num_threads
        self._fields = chosen.table_fields
        self._idf = None if chosen.idf == "none" else load_idf(chosen.idf)
        self._settings = settle_named(chosen, threads=None)
        if self._idf is not None:
            self._idf.check_groups(chosen.idf_group)
            check_given_idf(self._idf, self._settings)
        self._memory = ModelMemory(limit=chosen.model_memory, processes=None)

    def __call__(self, table: pa.Table) -> pa.Table:
        """Score the rows of a table.

        Raises:
            InputError: It is not a table, or a column of the options is missing or of a wrong type.
            ConfigError: The table has score columns already, this process has another version of
                the backend than the signature names, or its parent had used CUDA before the fork.
        """
        if not isinstance(table, pa.Table):
            raise InputError(
                f"the rows cannot be scored: got {type(table).__name__}; expected a pyarrow.Table. "
                "Give batch_format='pyarrow' in Ray, with_format('arrow') in datasets; `over` "
                "takes record batches."
            )
        check_columns(table.schema, self._fields.candidate_column, self._fields.reference_column)
        check_choosing_columns(table.schema, self._fields.choosing)
        columns.check_collisions(table.schema)
        settings = self._on_this_worker(self._num_threads or threads_in_environment())
        scorers = _loaded(self._memory)
        blocks = [
            score_table(
                scorers,
                Rows(table.slice(first, _BLOCK_ROWS), self._fields),
                settings=settings,
                idf=self._idf,
            ).table
            for first in range(0, max(table.num_rows, 1), _BLOCK_ROWS)
        ]
        notes = dict(blocks[0].schema.metadata or {})
        del notes[SETTINGS_KEY.encode()]  # for later runs of the job: which rows are scored how
        if settings.by_column:  # a block names those of its own languages; here all, for one schema
            made = metadata_by_language(self.signatures())
            notes |= {name.encode(): text.encode() for name, text in made.items()}
        return pa.concat_tables([block.replace_schema_metadata(notes) for block in blocks])

    def over(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Score record batches one by one, as Spark's `mapInArrow` gives them.

        The column of signatures is plain strings here, since Spark reads no dictionaries.

        Yields:
            The same rows with the score columns, in the schema that `schema` returns.
        """
        for batch in batches:
            scored = self(pa.Table.from_batches([batch]))
            yield from _without_dictionary(scored).combine_chunks().to_batches()

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema that `over` gives rows of a schema; no model is loaded.

        Raises:
            InputError: A column of the options is missing, or has a wrong type.
            ConfigError: There are score columns already.
        """
        return _without_dictionary(self(schema.empty_table())).schema

    def spark_schema(self, schema: Any) -> Any:
        """Return what `mapInArrow` needs for a frame: `frame.mapInArrow(scorer.over, this)`.

        Args:
            schema: The schema of the frame, a `pyspark.sql.types.StructType`.

        Raises:
            InputError: A column of the options is missing, or has a wrong type.
            ConfigError: There are score columns already.
        """
        from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

        # Spark wants to know the zone of timestamps. Its own type has none, so any zone will do.
        return from_arrow_schema(self.schema(to_arrow_schema(schema, timezone="UTC")))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read, by name or path; all others are kept as they are."""
        return self._fields.named()

    def signatures(self) -> dict[str, str]:
        """Return how the scores of each language are made; of all rows under ""."""
        return self._settings.signatures(self._idf)

    def signature(self) -> Signature:
        """Return how the scores are made.

        Raises:
            ConfigError: Each language has a signature of its own; see `signatures`.
        """
        if self._settings.by_column:
            raise ConfigError("each language has a signature of its own here; see `signatures`.")
        return Signature.parse(self.signatures()[EVERY_LANGUAGE])

    def _on_this_worker(self, threads: int | None) -> SettingsByLanguage:
        by_language = {
            language: replace(setting, config=replace(setting.config, num_threads=threads))
            for language, setting in self._settings.by_language.items()
        }
        return replace(self._settings, by_language=by_language)


def _options(given: Mapping[str, Any]) -> RowOptions:
    taken, known = by_name(_Options), by_name(ScoreOptions)
    for name in given:
        option = known.get(name.replace("-", "_"))
        if option is None:
            raise unknown_argument(name, list(OPTIONS))
        if option.name not in taken:
            raise ConfigError(
                f"ScoreBatches does not take {name!r}: it is about a job and its output folder; "
                f"expected options of how rows are scored: {', '.join(OPTIONS)}. Leave it out, or "
                "run the job."
            )
    options = _Options.from_mapping(given, "the arguments")
    if len(options.candidate_column) > 1:
        raise ConfigError(
            f"rows have one candidate here: got the columns {list(options.candidate_column)}; "
            "expected the name of one. Make a row of each candidate, or run the job."
        )
    if options.idf == "corpus":
        raise ConfigError(
            "idf cannot be counted here: got 'corpus'; expected the path of a saved table, since "
            "no process sees all rows. Make one with `bertscore-beam idf`."
        )
    if options.language_column is not None and options.languages is None:
        raise ConfigError(
            "languages are missing: got language_column without them; expected a mapping, since "
            "no process sees all rows before they are scored. Give languages={'en': {}, ...}."
        )
    return options


def _without_dictionary(table: pa.Table) -> pa.Table:
    number = table.schema.get_field_index(columns.SIGNATURE)
    if number < 0:
        return table
    return table.set_column(number, columns.SIGNATURE, table[columns.SIGNATURE].cast(pa.string()))


_SCORERS: dict[tuple[int, ModelMemory], LoadedScorers] = {}
"""By process. Models from before a fork are kept, since OpenVINO waits for their threads when they
are deleted."""


def _loaded(memory: ModelMemory) -> LoadedScorers:
    # All objects of a process share its models.
    return _SCORERS.setdefault((os.getpid(), memory), LoadedScorers(memory))
