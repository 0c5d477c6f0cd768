"""BERTScore inside Beam's RunInference, on single pairs in any pipeline.

    pairs --RunInference(BertScoreModelHandler(config))--> PredictionResults

A pair that cannot be scored gets a reason and no scores; it does not fail its bundle. A bundle
fails if an element has neither field, if the first 1,024 pairs of a process lack one of the fields,
and if the numbers of the encoder overflow, as in float16.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import starmap
from typing import Any, NamedTuple, Optional, TypeAlias

import numpy as np
from apache_beam.ml.inference.base import ModelHandler, PredictionResult

from bertscore_core import (
    BertScorer,
    ConfigError,
    IdfTable,
    InputError,
    ScorerConfig,
    Settings,
    Signature,
    TokenWeights,
    settle,
)
from bertscore_core.config import as_config
from bertscore_core.tokenization import is_encodable
from pipelines.dump import columns
from pipelines.dump.columns import OUTPUT_COLUMNS
from pipelines.dump.texts import Text, UnreadableText
from pipelines.files.credentials import mask_credentials
from pipelines.idf.steps import load_idf
from pipelines.run import counters
from pipelines.score.rows import PairTexts, score_rows
from pipelines.score.scored_pairs import ScoredPairs
from pipelines.scorer import for_unseen_workers, load_scorer

logger = logging.getLogger(__name__)

PairLike: TypeAlias = Any
"""A mapping, beam.Row or NamedTuple with the two fields, or an object with them as attributes."""

BATCH_SIZE = 1024
"""Pairs of a batch. Texts are sorted by length within a batch, so larger batches have less padding:
the embedded model on a CPU scores a third more pairs a second in batches of 1,024 than of 64."""

# If none of so many pairs has a field, its name is misspelled.
_ENOUGH_PAIRS = 1024


class PairScore(NamedTuple):
    """The scores of one pair, in plain Python; None where there is none.

    Attributes:
        precision: The float32 value; rescaled when the scorer rescales.
        recall: The same.
        f1: The same.
        raw_precision: The value before rescaling, when the scorer rescales.
        raw_recall: The same.
        raw_f1: The same.
        best_reference: Index of the reference with the highest F1, if there is a list of them.
        candidate_tokens: Tokens of the candidate, special ones included.
        reference_tokens: Tokens of all its references together.
        truncated: Whether a text was cut to the maximum length.
        windows: Windows of the text with the most of them, if long texts are scored in windows.
        error: Why there are no scores, or why to check them: a value of
            `pipelines.dump.texts.Reason`.
    """

    # Not `float | None`: Beam's schemas silently turn that into a field of any type.
    precision: Optional[float]  # noqa: UP045
    recall: Optional[float]  # noqa: UP045
    f1: Optional[float]  # noqa: UP045
    raw_precision: Optional[float]  # noqa: UP045
    raw_recall: Optional[float]  # noqa: UP045
    raw_f1: Optional[float]  # noqa: UP045
    best_reference: Optional[int]  # noqa: UP045
    candidate_tokens: Optional[int]  # noqa: UP045
    reference_tokens: Optional[int]  # noqa: UP045
    truncated: Optional[bool]  # noqa: UP045
    windows: Optional[int]  # noqa: UP045
    error: Optional[str]  # noqa: UP045


@dataclass(
    frozen=True, kw_only=True, eq=False
)  # no slots: RunInference holds it by a weak reference
class PairScorer:
    """The model of RunInference: a loaded scorer, and the fields seen so far.

    Attributes:
        scorer: The scorer.
        weights: Its token weights.
        model_id: The text of the signature of its scores.
        fields_seen: Names of the fields that some pair has had.
        pairs_without: Number of pairs before the first one with a field, by its name.
    """

    scorer: BertScorer
    weights: TokenWeights
    model_id: str
    fields_seen: set[str] = field(default_factory=set)
    pairs_without: Counter[str] = field(default_factory=Counter)


class BertScoreModelHandler(ModelHandler[PairLike, PredictionResult, PairScorer]):
    """Runs BERTScore inside Beam's RunInference: pairs to `PredictionResult`s.

    A result's `example` is the pair as it came, its `inference` a `PairScore`, and its `model_id`
    the text of the signature: how the score was made. `KeyedModelHandler` around it scores
    (key, pair).

    In float32 the other pairs of a batch change a score in the seventh digit at most, since sums
    are rounded in another order; with `max_batch_size=1` not at all. In bfloat16 and float16 they
    change the third or fourth digit.
    """

    def __init__(
        self,
        config: ScorerConfig | str,
        *,
        candidate_field: str = "candidate",
        reference_field: str = "reference",
        empty: str | None = None,
        idf: IdfTable | str | None = None,
        min_batch_size: int | None = None,
        max_batch_size: int = BATCH_SIZE,
        max_batch_duration_secs: float | None = None,
    ) -> None:
        """Check everything that can be checked here; the model is loaded on the worker.

        Args:
            config: How to score, or the name of a model. If the device is not `cpu`, the backend
                `auto` means torch: the launcher cannot see the device of the workers.
            candidate_field: Field of the candidate: a string.
            reference_field: Field of the reference, or of a list of references.
            empty: The score of a pair with an empty side; see `ScorerConfig.empty`. None: the
                configuration's rule, or `zero` without one. The pair gets its reason in any case.
            idf: Document frequencies for idf weights: a table, which becomes part of the pipeline,
                or the path of a table, which every worker reads.
            min_batch_size: Fewest pairs of a batch, except at the end of a bundle. None:
                `max_batch_size`, so that the batches do not depend on the clock.
            max_batch_size: Most pairs of a batch.
            max_batch_duration_secs: For streams: how long to wait to fill a batch, across bundles.

        Raises:
            BertScoreError: The arguments cannot work, as far as is known without the model.
        """
        smallest = max_batch_size if min_batch_size is None else min_batch_size
        if not 1 <= smallest <= max_batch_size:
            raise ConfigError(
                f"batches of {smallest} to {max_batch_size} pairs cannot be made; expected "
                "1 <= min_batch_size <= max_batch_size."
            )
        super().__init__(
            min_batch_size=smallest,
            max_batch_size=max_batch_size,
            max_batch_duration_secs=max_batch_duration_secs,
        )
        config = as_config(config)
        settings = _settle(replace(config, empty=_empty_rule(config, empty)), idf)
        self._config = settings.config
        self._backend = settings.backend_version
        self._candidate_field = candidate_field
        self._reference_field = reference_field
        self._idf = idf

    @property
    def config(self) -> ScorerConfig:
        """The configuration of the workers, with backend, baseline and idf settled."""
        return self._config

    def signature(self) -> Signature:
        """Return how the scores are made. Reads the weight files, and an idf table given as a path.

        Raises:
            IdfError: The idf table cannot be read, or belongs to another tokenizer.
        """
        return self._signature(settle(self._config), _read_idf(self._idf))

    def load_model(self) -> PairScorer:
        """Load the scorer and the idf table, once a process.

        Raises:
            ConfigError: This worker's backend has another version than the launcher's.
            IdfError: The idf table cannot be read, or belongs to another tokenizer.
        """
        idf = _read_idf(self._idf)
        scorer = load_scorer(self._config, self._backend)
        return PairScorer(
            scorer=scorer,
            weights=scorer.token_weights(idf),
            model_id=self._signature(scorer.settings, idf).format(),
        )

    def run_inference(
        self,
        batch: Sequence[PairLike],
        model: PairScorer,
        inference_args: dict[str, Any] | None = None,
    ) -> list[PredictionResult]:
        """Score one batch and return the results in its order."""
        self._check_fields(batch, model.fields_seen, model.pairs_without)
        references = [_field(pair, self._reference_field) for pair in batch]
        texts = PairTexts.of(
            [read_text(_field(pair, self._candidate_field)) for pair in batch],
            [read_references(reference) for reference in references],
        )
        rows = score_rows(model.scorer, texts, texts.usable, weights=model.weights)
        scored = ScoredPairs.joined(texts.reasons, [rows])
        counters.count_pairs(scored.summary())
        counters.count_work(scored.work)
        several = [not isinstance(reference, str) for reference in references]
        scores = _pair_scores(scored, several, model.scorer.config)
        return [
            PredictionResult(pair, score, model.model_id)
            for pair, score in zip(batch, scores, strict=True)
        ]

    def get_num_bytes(self, batch: Sequence[PairLike]) -> int:
        """Return the size of the candidates in characters; Beam's default pickles every batch."""
        candidates = (_field(pair, self._candidate_field) for pair in batch)
        return sum(len(text) for text in candidates if isinstance(text, str))

    def get_metrics_namespace(self) -> str:
        """Return the namespace of RunInference's own metrics."""
        return counters.NAMESPACE

    def _check_fields(
        self, batch: Sequence[PairLike], seen: set[str], without: Counter[str]
    ) -> None:
        """Raise for an element with neither field, and for a field that no element has.

        A missing field counts as null. If none of the first 1,024 pairs of a process has it, its
        name is misspelled. A warning comes before that.
        """
        names = (self._candidate_field, self._reference_field)
        for pair in batch:
            found = [name for name in names if _has(pair, name)]
            seen.update(found)
            if not found:
                raise InputError(
                    f"an element has neither of the fields: got {_shape(pair)}; expected "
                    f"{names[0]!r} and {names[1]!r}. Name the right ones with candidate_field and "
                    "reference_field; (key, pair) is for RunInference with "
                    "KeyedModelHandler(BertScoreModelHandler(...))."
                )
        for name, role in zip(names, ("candidate", "reference"), strict=True):
            if not batch or name in seen:
                continue
            if not without[name]:
                logger.warning("no pair so far has the %s field %r; it counts as null", role, name)
            without[name] += len(batch)
            if without[name] >= _ENOUGH_PAIRS:
                raise InputError(
                    f"no element has the {role} field {name!r}: got {without[name]} elements, one "
                    f"of them {_shape(batch[0])}; expected {name!r} in some. Name the right "
                    f"one with {role}_field; pairs without a {role} have None there."
                )

    def _signature(self, settings: Settings, idf: IdfTable | None) -> Signature:
        if idf is not None:
            _check_fits(settings, idf)
        return settings.signature(idf)


def read_text(value: object) -> Text:
    """Return the text of a field, None for a null, or why it cannot be read."""
    if value is None:
        return None
    if not isinstance(value, str):
        return UnreadableText.NOT_TEXT
    return value if is_encodable(value) else UnreadableText.INVALID_UTF8


def read_references(value: object) -> list[Text] | None:
    """Return the references of a field, one or several, None for a null. Shape (references,)."""
    if value is None:
        return None
    if isinstance(value, np.ndarray) and value.ndim == 1:  # pandas reads lists in Parquet as arrays
        value = value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return [read_text(item) for item in value]
    return [read_text(value)]


def _settle(config: ScorerConfig, idf: IdfTable | str | None) -> Settings:
    """Check a configuration, and settle what could differ between workers."""
    if config.all_layers:
        raise ConfigError(
            "a pair has one score here: got all_layers; expected a single layer. Give num_layers."
        )
    if config.idf and idf is None:
        raise ConfigError(
            "idf needs a table: got idf=True without one; expected document frequencies counted "
            "beforehand, since a stream has no end to count up to. Make a table with "
            "`bertscore-beam idf` and give its path as idf."
        )
    config = for_unseen_workers(replace(config, idf=idf is not None))
    settings = settle(config)
    if isinstance(idf, IdfTable):
        _check_fits(settings, idf)
    baseline = settings.baseline  # it has been read, so workers need not reach its file
    return replace(settings, config=replace(config, backend=settings.backend, baseline=baseline))


def _empty_rule(config: ScorerConfig, given: str | None) -> str:
    """Return the rule for empty texts; it can be given in two places."""
    if None not in (config.empty, given) and config.empty != given:
        raise ConfigError(
            f"the rule for empty texts is given twice: got empty={given!r}, and {config.empty!r} "
            "in the configuration; expected one. Leave one of them out."
        )
    return given or config.empty or "zero"


def _check_fits(settings: Settings, idf: IdfTable) -> None:
    idf.check_fits(settings.tokenizer.fingerprint, settings.tokenizer.max_length)


def _read_idf(idf: IdfTable | str | None) -> IdfTable | None:
    return load_idf(idf).only(mask_credentials(idf)) if isinstance(idf, str) else idf


def _shape(pair: PairLike) -> str:
    """Describe the type and the fields of an element, never its values."""
    kind = type(pair).__name__
    return f"a {kind} of {sorted(map(str, pair))}" if isinstance(pair, Mapping) else f"a {kind}"


def _has(pair: PairLike, name: str) -> bool:
    return name in pair if isinstance(pair, Mapping) else hasattr(pair, name)


def _field(pair: PairLike, name: str) -> Any:
    """Return a field of a pair; a missing field counts as null."""
    return pair.get(name) if isinstance(pair, Mapping) else getattr(pair, name, None)


def _pair_scores(
    scored: ScoredPairs, several: Sequence[bool], config: ScorerConfig
) -> Iterator[PairScore]:
    """Yield the scores of each pair, with a best reference if there is a list of references."""
    by_column = scored.by_column(rescaled=config.rescale, windowed=config.long_text == "windows")
    nothing = [None] * len(scored)
    best = by_column[columns.BEST_REFERENCE].tolist()
    values = {name: column.tolist() for name, column in by_column.items()} | {
        columns.BEST_REFERENCE: [
            index if is_list else None for index, is_list in zip(best, several, strict=True)
        ],
        columns.ERROR: scored.reasons,
    }
    return starmap(
        PairScore, zip(*(values.get(name, nothing) for name in OUTPUT_COLUMNS), strict=True)
    )
