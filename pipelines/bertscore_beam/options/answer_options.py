"""Options of the commands that answer a question about what is there, and run no job."""

import os
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from bertscore_beam.options.declare import Columns, Flag, Options, Run, declared
from bertscore_beam.options.row_options import IDF_WORDS, RowOptions
from bertscore_beam.options.values import check_group_columns, is_text_name
from bertscore_core.errors import ConfigError
from bertscore_core.stats.intervals import check_confidence


@dataclass(frozen=True, kw_only=True)
class GroupsOptions(Options):
    """Print rows, mean scores and their errors of each group of a finished run."""

    example = "bertscore-beam groups scores --by system language"
    daily: ClassVar = {"what to show": "run by confidence output"}

    run: Annotated[Run, "Output folder of `score` or `rescale`."]
    by: Annotated[
        Columns, "Columns of groups, by name or dotted path; by default all rows are one group."
    ] = ()
    confidence: Annotated[float, "Of the intervals."] = 0.95
    output: Annotated[
        str | None,
        Flag(metavar="FILE", short="-o"),
        "Write all groups to this file: .parquet, .pq or .csv.",
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_group_columns(self.by)
        check_confidence(self.confidence)


@dataclass(frozen=True, kw_only=True)
class ExplainOptions(RowOptions):
    """Work out the score of rows of a run, or of two texts, token by token."""

    example = "bertscore-beam explain scores --worst 5"
    daily: ClassVar = {
        "rows of a run": "run row worst best",
        "two texts": "candidate reference model language",
        "the page": "output",
    }
    hidden = (
        "language_column languages reference_column candidate_column idf_key idf_group registry "
        "allow_shared_baseline model_memory attention max_batch_tokens"
    )
    of_runs: ClassVar = frozenset(
        ("model", "revision", "idf", "baseline", "device", "backend", "allow_pickle_weights")
    )
    """Those that may be given with a run as well: where its files are now, and what computes."""

    run: Annotated[str | None, Flag(metavar="RUN", position=True), "Output folder of `score`."] = (
        None
    )
    row: Annotated[
        tuple[str, ...],
        Flag(metavar="FILE:N"),
        "Rows of the run: an input file, and a position in it from 0.",
    ] = ()
    worst: Annotated[int | None, Flag(metavar="N", least=1), "The N rows with the lowest F1."] = (
        None
    )
    best: Annotated[int | None, Flag(metavar="N", least=1), "The N rows with the highest F1."] = (
        None
    )
    candidate: Annotated[
        str | None, Flag(metavar="TEXT", short="-c", blank=True), "A candidate, without a run."
    ] = None
    reference: Annotated[
        tuple[str, ...], Flag(metavar="TEXT", short="-r", blank=True), "Its reference, or several."
    ] = ()
    output: Annotated[
        str | None, Flag(metavar="FILE", short="-o"), "Write a page, FILE.html, and print nothing."
    ] = None

    @classmethod
    def _meant(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Refuse what a run has decided already, also if it is given like the default."""
        if values.get("run") is None:
            return values
        if values.get("idf") in IDF_WORDS:
            raise ConfigError(
                f"--idf {values['idf']} cannot be given with a run: got no path; expected that of "
                "the run's idf table, if it has one. Leave it out: the run's own is used."
            )
        own = [option for option in declared(RowOptions) if option.name not in cls.of_runs]
        if fixed := [option.word for option in own if option.field in values]:
            raise ConfigError(
                f"a row is explained with the settings of its run: got {', '.join(fixed)}; "
                "expected none of these. Leave them out, or explain the two texts with -c and -r."
            )
        return values

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.run is None:
            self._check_for_texts()
        else:
            self._check_for_run()

    def _check_rescale(self) -> None:
        if self.run is None:  # a run says itself whether it is rescaled
            super()._check_rescale()

    def _check_for_texts(self) -> None:
        if self.candidate is None or not self.reference:
            raise ConfigError(
                "there is nothing to explain: got no run, and not both texts; expected RUN and its "
                "rows, or -c TEXT and -r TEXT."
            )
        texts = (self.candidate, *self.reference)
        if all(is_text_name(text) and os.path.isfile(text) for text in texts):
            raise ConfigError(
                f"-c and -r take texts: got names of files, {self.candidate!r} first; expected the "
                "texts themselves. Files go to: bertscore-beam score -c HYP.txt -r REF.txt"
            )
        if self.row or self.worst is not None or self.best is not None:
            raise ConfigError(
                "--row, --worst and --best choose rows of a run: got none; expected its folder. "
                "Write bertscore-beam explain RUN --row FILE:N."
            )
        if self.idf == "corpus":
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
        if not self.row and self.worst is None and self.best is None:
            raise ConfigError(
                "no row was chosen: got a run alone; expected rows of it. Add --worst 5, --best 5 "
                "or --row FILE:N."
            )


@dataclass(frozen=True, kw_only=True)
class CheckOptions(Options):
    """Tell by the exit status whether the run of a folder is done and its parts are there."""

    example = "bertscore-beam check scores && echo done"
    daily: ClassVar = {"what to look at": "run parts"}

    run: Annotated[Run, "Output folder of `score`, `rescale`, `baseline` or `tune`."]
    parts: Annotated[
        bool, "Read all parts of a scoring run, and check that no byte has changed."
    ] = False


@dataclass(frozen=True, kw_only=True)
class ModelsOptions(Options):
    """Print the registry of models: names, layers, languages and baselines."""

    example = "bertscore-beam models"


@dataclass(frozen=True, kw_only=True)
class TablesOptions(Options):
    """Compare two baseline tables, or the common tables of two folders."""

    example = "bertscore-beam baseline compare published build/baselines"
    daily: ClassVar = {"what to compare": "a b language model"}

    a: Annotated[
        str,
        Flag(metavar="A", position=True),
        "A table, the output folder of a baseline job, or the word `published`.",
    ]
    b: Annotated[str, Flag(metavar="B", position=True), "The same; differences are B - A."]
    language: Annotated[str | None, Flag(metavar="CODE"), "Compare this language only."] = None
    model: Annotated[str | None, Flag(metavar="NAME"), "Compare this model only."] = None
