"""Options of `bertscore-beam tune`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from bertscore_beam.dump.columns import METRICS
from bertscore_beam.options.declare import Column, Flag, Names
from bertscore_beam.options.language_map import MaxLength, Revision
from bertscore_beam.options.metric_names import MetricOptions
from bertscore_beam.options.row_options import EncoderOptions, StripReasoning
from bertscore_beam.options.run_options import InputFormat, Output, RunOptions
from bertscore_core.errors import ConfigError, check_package

_ALL_LAYERS = "all"
_QUICK_METRICS = ("bleu", "chrf++", "rougel")
"""Without TER, which alone takes longer than the others together."""
_ALL_METRICS = ("all",)
_NO_METRICS = ("none",)
_DEFAULT_RESAMPLES = 1_000
_DEFAULT_MIN_ROWS = 30
"""Below this the interval of a correlation is so wide that no layer can be told from another."""
_LEAST_HYBRIDS = 100
"""As many are chosen from at a time."""
_EXTRA = ("jinja2", "vl_convert", "sacrebleu", "rouge_score", "MeCab")
"""Packages of the extra `tune`, as they are imported; sacrebleu cuts Japanese with MeCab."""


_OfRows = Literal["pearson", "spearman", "kendall", "auc"]
_OfSystems = Literal["system_pearson", "system_accuracy", "system_soft_accuracy"]

STATISTICS: Mapping[str, str] = {
    **dict.fromkeys(("pearson", "spearman", "kendall", "darr"), "people"),
    **dict.fromkeys(("item_kendall", "item_accuracy"), "people items"),
    **dict.fromkeys(("system_pearson", "system_accuracy"), "people systems"),
    "system_soft_accuracy": "people systems items",
    "auc": "labels",
}
"""The statistics in their order in the results, and what each needs of the judgements."""


@dataclass(frozen=True, kw_only=True)
class TuneOptions(MetricOptions, EncoderOptions, RunOptions):
    """Find the model, layer and weighting whose scores agree best with people."""

    example = "bertscore-beam tune --judgements wmt.csv --score-column human --by lp --output tuned"
    daily: ClassVar = {
        "input and output": "judgements output registry",
        "columns": "score_column label_column candidate_column reference_column by system key",
        "what to compare": "models layers idf metrics choose_by",
        "where it runs": "device workers dry_run",
    }

    output: Output[str]
    judgements: Annotated[
        tuple[str, ...], "Files, folders or globs of texts with judgements of people."
    ]
    score_column: Annotated[
        str | None,
        "Column of people's scores: numbers, higher for better texts. Not needed with "
        "label_column.",
    ] = None
    label_column: Annotated[
        str | None,
        "Column of labels, 1 or true for a paraphrase and 0 or false for none: the area under the "
        "ROC curve is computed.",
    ] = None
    lower_is_better: Annotated[
        bool, "The scores of people count errors, such as edits: they are negated."
    ] = False
    models: Annotated[
        Names,
        "Models to compare, by hub id, local folder or registry name; separated by spaces or "
        "commas. By default the embedded model.",
    ] = ()
    layers: Annotated[
        tuple[str, ...],
        Flag(metavar="LAYER", split=True),
        "Layers to compare, separated by spaces or commas; `all` for every layer. They cost "
        "nothing more: all layers come from one pass.",
    ] = (_ALL_LAYERS,)
    idf: Annotated[
        Literal["both", "none", "corpus"],
        "Weights of tokens: `none`, `corpus` to count over the references of the judgements, or "
        "`both`.",
    ] = "both"
    candidate_column: Annotated[str, "Column of the candidates, by name or dotted path."] = (
        "candidate"
    )
    reference_column: Annotated[
        str, "Column of the references: a text or a list of texts in each row."
    ] = "reference"
    strip_reasoning: StripReasoning = False
    by: Annotated[
        Column,
        "Column of groups, such as languages or language pairs. Agreement is computed in each "
        "group, and averaged over the groups; each group has its own idf table.",
    ] = None
    system_column: Annotated[
        str | None,
        Flag(metavar="COLUMN", name="system"),
        "Column of the systems that wrote the candidates: agreement by system as well.",
    ] = None
    item_column: Annotated[
        str | None,
        Flag(metavar="COLUMN", name="key"),
        "Column of the items, such as source sentences, for which several systems wrote "
        "candidates: agreement within each item as well.",
    ] = None
    metrics: Annotated[
        Names,
        "Other metrics on the same rows: bleu, chrf, chrf++, ter, rougel, and functions as in "
        "`score`; `all` of the former, or `none`. TER must be asked for: it takes longer than the "
        "other three together.",
    ] = _QUICK_METRICS
    source_column: Annotated[
        str | None,
        "Column of the texts that the candidates were made from, by name or dotted path, for "
        "functions in metrics that take sources.",
    ] = None
    language: Annotated[
        str | None,
        Flag(also=("lang",)),
        "Language of the texts, by which BLEU, TER and ROUGE-L cut words; by default the name of "
        "each group, if it is a code such as zh or a direction such as en-zh.",
    ] = None
    choose_by: Annotated[
        Literal[_OfRows, _OfSystems] | None,
        "Statistic by which a layer is recommended; by default pearson, or auc without a column of "
        "scores.",
    ] = None
    hybrids: Annotated[
        int,
        Flag(least=0),
        "Number of hybrid systems to sample, which take each item's candidate from a system at "
        "random; the paper takes 10,000. Needs systems and items.",
    ] = 0
    resamples: Annotated[int, Flag(least=100), "Number of samples of a bootstrap."] = (
        _DEFAULT_RESAMPLES
    )
    seed: Annotated[int, Flag(least=0), "Number that decides about samples and hybrids."] = 0
    differences: Annotated[
        int,
        Flag(least=0),
        "Number of rows to list on which people and F1, or F1 and BLEU, differ most.",
    ] = 20
    registry: Annotated[
        str | None,
        "File to write the recommended layer of each model to; `score --registry` reads it. Layers "
        "of other models in the file stay.",
    ] = None
    max_length: MaxLength = None
    revision: Revision = None
    input_format: InputFormat = "auto"
    split_rows: Annotated[int, Flag(least=1), "Most rows that a worker scores at a time."] = 5_000
    min_rows: Annotated[int, Flag(least=3), "Fewest usable judgements of each group."] = (
        _DEFAULT_MIN_ROWS
    )

    @property
    def chosen_layers(self) -> tuple[int, ...] | None:
        """Layers to compare, each once, from the lowest on; None for all."""
        return None if self.layers == (_ALL_LAYERS,) else tuple(sorted({*map(int, self.layers)}))

    @property
    def chosen_metrics(self) -> tuple[str, ...]:
        """The metrics to compute."""
        if self.metrics == _ALL_METRICS:
            return tuple(METRICS)
        return () if self.metrics == _NO_METRICS else self.metrics

    @property
    def columns(self) -> dict[str, tuple[str, str | None]]:
        """Columns beside the texts: the option and the name, or None, by what they hold."""
        return {
            "people": ("--score-column", self.score_column),
            "labels": ("--label-column", self.label_column),
            "groups": ("--by", self.by),
            "systems": ("--system", self.system_column),
            "items": ("--key", self.item_column),
        }

    @property
    def weightings(self) -> tuple[str, ...]:
        """The idf weights to compare, in the order in which scores are kept."""
        return ("none", "corpus") if self.idf == "both" else (self.idf,)

    @property
    def statistic(self) -> str:
        """Statistic by which a layer is recommended."""
        return self.choose_by or ("auc" if self.score_column is None else "pearson")

    def __post_init__(self) -> None:
        """Check combinations of options as well."""
        super().__post_init__()
        self._check(
            "candidate_column",
            self.candidate_column != self.reference_column,
            "a name other than the reference column's",
            "Texts compared with themselves all score 1.",
        )
        self._check(
            "layers",
            self.layers == (_ALL_LAYERS,)
            or all(text.isascii() and text.isdecimal() for text in self.layers),
            "'all', or numbers of layers",
            "Write --layers 4 5 6.",
        )
        self._check_metric_names(", or 'all' or 'none' alone")
        self._check_statistics()

    def check_packages(self) -> None:
        """Check for those of the extra."""
        for name in _EXTRA:
            check_package(name, "tune", "tune")

    def _check_statistics(self) -> None:
        if self.score_column is None and self.label_column is None:
            raise ConfigError(
                "--score-column is missing: got no column of people's scores, and none of labels; "
                "expected one of them. Give --score-column NAME, or --label-column NAME."
            )
        needed = {
            "choose_by": STATISTICS[self.statistic],
            "lower_is_better": "people" if self.lower_is_better else "",
            "hybrids": "people systems items" if self.hybrids else "",
        }
        for name, needs in needed.items():
            columns = [self.columns[what] for what in needs.split()]
            lacking = " and ".join(option for option, column in columns if column is None)
            cure = f"Add {lacking}, or leave it out."
            self._check(name, not lacking, "it only with the columns that it needs", cure)
        self._check(
            "hybrids",
            not 0 < self.hybrids < _LEAST_HYBRIDS,
            f"at least {_LEAST_HYBRIDS}, or 0 for none",
            "Sample more, or leave it out.",
        )
