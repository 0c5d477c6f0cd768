"""Options of the commands that answer a question about what is there, and run no job."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from bertscore_beam.options.declare import COLUMNS, RUN, Options
from bertscore_beam.options.score_options import IDF_WORDS, ScoreOptions
from bertscore_beam.options.values import check_group_columns
from bertscore_core.errors import ConfigError
from bertscore_core.stats.intervals import check_confidence


@dataclass(frozen=True, kw_only=True)
class GroupsOptions(Options):
    """Print rows, mean scores and their errors of each group of a finished run.

    Attributes:
        run: Output folder of `score` or `rescale`.
        by: Columns of groups, by name or dotted path; by default all rows are one group.
        confidence: Of the intervals.
        output: Write all groups to this file: .parquet, .pq or .csv.
    """

    example = "bertscore-beam groups scores --by system language"
    daily: ClassVar = {"what to show": "run by confidence output"}

    run: str = field(metadata=RUN)
    by: tuple[str, ...] = field(default=(), metadata=COLUMNS)
    confidence: float = 0.95
    output: str | None = field(default=None, metadata={"metavar": "FILE", "short": "-o"})

    def __post_init__(self) -> None:
        check_group_columns(self.by)
        check_confidence(self.confidence)


@dataclass(frozen=True, kw_only=True)
class ExplainOptions(Options):
    """Work out the score of rows of a run, or of two texts, token by token.

    Attributes:
        run: Output folder of `score`.
        row: Rows of the run: an input file, and a position in it from 0.
        worst: The N rows with the lowest F1.
        best: The N rows with the highest F1.
        candidate: A candidate, without a run.
        reference: Its reference, or several.
        output: Write FILE.html, FILE.png or FILE.svg, and print nothing.
        scoring: Options of `score` that were given, by field.
    """

    example = "bertscore-beam explain scores --worst 5"
    daily: ClassVar = {
        "rows of a run": "run row worst best",
        "two texts": "candidate reference model language",
        "the page": "output",
    }
    borrowed = (
        ScoreOptions,
        "model num_layers language revision max_length long_text idf rescale baseline empty dtype "
        "device backend allow_pickle_weights",
    )
    of_runs: ClassVar = frozenset(
        ("model", "revision", "idf", "baseline", "device", "backend", "allow_pickle_weights")
    )
    """Those that may be given with a run as well: where its files are now, and what computes."""

    run: str | None = field(default=None, metadata=RUN)
    row: tuple[str, ...] = field(default=(), metadata={"metavar": "FILE:N"})
    worst: int | None = field(default=None, metadata={"metavar": "N"})
    best: int | None = field(default=None, metadata={"metavar": "N"})
    candidate: str | None = field(default=None, metadata={"metavar": "TEXT", "short": "-c"})
    reference: tuple[str, ...] = field(default=(), metadata={"metavar": "TEXT", "short": "-r"})
    output: str | None = field(default=None, metadata={"metavar": "FILE", "short": "-o"})
    scoring: Mapping[str, Any] = field(default_factory=dict, metadata={"internal": True})

    def __post_init__(self) -> None:
        if self.run is None:
            self._check_for_texts()
        else:
            self._check_for_run()

    def _check_for_texts(self) -> None:
        if self.candidate is None or not self.reference:
            raise ConfigError(
                "there is nothing to explain: got no run, and not both texts; expected RUN and its "
                "rows, or -c TEXT and -r TEXT."
            )
        if self.row or self.worst is not None or self.best is not None:
            raise ConfigError(
                "--row, --worst and --best choose rows of a run: got none; expected its folder. "
                "Write bertscore-beam explain RUN --row FILE:N."
            )
        if self.scoring.get("idf") == "corpus":
            raise ConfigError(
                "--idf corpus cannot weigh two texts: got no corpus; expected the path of a table. "
                "Count one with `bertscore-beam idf`."
            )

    def _check_for_run(self) -> None:
        if self.candidate is not None or self.reference:
            raise ConfigError(
                "a run has texts of its own: got -c or -r beside it; expected one of the two. "
                "Leave the run out to explain two texts."
            )
        self._check_least(worst=1, best=1)
        if not self.row and self.worst is None and self.best is None:
            raise ConfigError(
                "no row was chosen: got a run alone; expected rows of it. Add --worst 5, --best 5 "
                "or --row FILE:N."
            )
        if self.scoring.get("idf") in IDF_WORDS:
            raise ConfigError(
                f"--idf {self.scoring['idf']} cannot weigh rows of a run: expected the path of the "
                "table that weighed them. Leave it out: the run has its own."
            )
        fixed = [name for name in self.scoring if name not in self.of_runs]
        if fixed:
            flags = ", ".join("--" + name.replace("_", "-") for name in fixed)
            raise ConfigError(
                f"a row is explained with the settings of its run: got {flags}; expected none of "
                "these. Leave them out, or explain the two texts with -c and -r."
            )


@dataclass(frozen=True, kw_only=True)
class CheckOptions(Options):
    """Tell by the exit status whether the run of an output folder is done and its parts are there.

    Attributes:
        run: Output folder of `score`, `rescale`, `baseline` or `tune`.
        parts: Read all parts of a scoring run, and check that no byte has changed.
    """

    example = "bertscore-beam check scores && echo done"
    daily: ClassVar = {"what to look at": "run parts"}

    run: str = field(metadata=RUN)
    parts: bool = False


@dataclass(frozen=True, kw_only=True)
class ModelsOptions(Options):
    """Print the registry of models: names, layers, languages and baselines."""

    example = "bertscore-beam models"


@dataclass(frozen=True, kw_only=True)
class TablesOptions(Options):
    """Compare two baseline tables, or the common tables of two folders.

    Attributes:
        a: A table, the output folder of a baseline job, or the word `published`.
        b: The same; differences are B - A.
        language: Compare this language only.
        model: Compare this model only.
    """

    example = "bertscore-beam baseline compare published build/baselines"
    daily: ClassVar = {"what to compare": "a b language model"}

    a: str = field(metadata={"metavar": "A", "position": True})
    b: str = field(metadata={"metavar": "B", "position": True})
    language: str | None = field(default=None, metadata={"metavar": "CODE"})
    model: str | None = field(default=None, metadata={"metavar": "NAME"})
