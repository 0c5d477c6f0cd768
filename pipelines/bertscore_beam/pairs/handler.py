"""BERTScore inside Beam's RunInference, on single pairs in any pipeline.

    pairs --RunInference(BertScoreModelHandler(config))--> PredictionResults

A pair that cannot be scored gets a reason and no scores; it does not fail its bundle. A bundle
fails if an element has no text field, if the first 1,024 pairs of a process lack one of the fields,
and if the numbers of the encoder overflow, as in float16.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from inspect import signature
from itertools import starmap
from typing import Any, NamedTuple, Optional, TypeAlias

import numpy as np
from apache_beam.ml.inference.base import ModelHandler, PredictionResult

from bertscore_beam.dump import columns
from bertscore_beam.dump.languages import language_of
from bertscore_beam.dump.texts import Text, UnreadableText, answers
from bertscore_beam.idf.idf_tables import IdfTables
from bertscore_beam.idf.owners import key_of_all, keys_of_languages
from bertscore_beam.pairs.pair_configs import (
    ByLanguage,
    ConfigLike,
    Idf,
    settings_here,
    settle_pairs,
)
from bertscore_beam.records.settings import EVERY_LANGUAGE, SettingsByLanguage
from bertscore_beam.run import counters
from bertscore_beam.run.run_step import compute_with, ending_with_the_device
from bertscore_beam.score.loaded_scorers import LoadedScorers, ModelMemory
from bertscore_beam.score.rows import PairTexts, score_texts
from bertscore_beam.score.scored_table import ScoredPairs
from bertscore_core.errors import ConfigError, InputError, unknown_argument
from bertscore_core.idf import IdfTable
from bertscore_core.signature import Signature
from bertscore_core.tokens import is_encodable
from bertscore_core.work import Work

# The fields of pairs: dicts, Rows, NamedTuples, or objects with attributes.

PairLike: TypeAlias = Any
"""A mapping, beam.Row or NamedTuple with the fields, or an object with them as attributes."""


def _read_text(value: object) -> Text:
    if value is None:
        return None
    if not isinstance(value, str):
        return UnreadableText.NOT_TEXT
    return value if is_encodable(value) else UnreadableText.INVALID_UTF8


def _read_references(value: object) -> list[Text] | None:
    if value is None:
        return None
    if isinstance(value, np.ndarray) and value.ndim == 1:  # pandas reads lists in Parquet as arrays
        value = value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return [_read_text(item) for item in value]
    return [_read_text(value)]


def _shape_of(pair: PairLike) -> str:
    # Never its values.
    kind = type(pair).__name__
    return f"a {kind} of {sorted(map(str, pair))}" if isinstance(pair, Mapping) else f"a {kind}"


def _has_field(pair: PairLike, name: str) -> bool:
    return name in pair if isinstance(pair, Mapping) else hasattr(pair, name)


def _field_of(pair: PairLike, name: str) -> Any:
    return pair.get(name) if isinstance(pair, Mapping) else getattr(pair, name, None)


logger = logging.getLogger(__name__)

_BATCH_SIZE = 1024
"""Pairs of a batch. Texts are sorted by length within a batch, so larger batches have less padding:
the embedded model on a CPU scores a third more pairs a second in batches of 1,024 than of 64."""

_BEAM_OPTIONS = {*signature(ModelHandler.__init__).parameters, "env_vars"} - {"self", "kwargs"}
"""Arguments that Beam's class passes on; of others it says nothing."""

# If none of this many pairs has a field, its name is misspelled.
_ENOUGH_PAIRS = 1024


class PairScore(NamedTuple):
    """The scores of one pair, in plain Python; None where there is none.

    Attributes:
        precision: The float32 value, as recall and f1; rescaled when the scorer rescales.
        raw_precision: The value before rescaling, when the scorer rescales.
        best_reference: Index of the reference with the highest F1, if there is a list of them.
        candidate_tokens: Tokens of the candidate, special ones included.
        reference_tokens: Tokens of all its references together.
        text_tokens: Tokens of both that hold text: no special ones.
        unknown: Share of these that the model does not know, such as `[UNK]`.
        truncated: Whether a text was cut to the maximum length.
        windows: Windows of the text with the most of them, if long texts are scored in windows.
        error: Why there are no scores, or why to check them: a value of
            `bertscore_beam.dump.reasons.Reason`.
        signature: How the scores were made, if that depends on the language of the pair.
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
    text_tokens: Optional[int]  # noqa: UP045
    unknown: Optional[float]  # noqa: UP045
    truncated: Optional[bool]  # noqa: UP045
    windows: Optional[int]  # noqa: UP045
    error: Optional[str]  # noqa: UP045
    signature: Optional[str]  # noqa: UP045


def score_column(name: str) -> str:
    """Return the job's column that has the values of a field of `PairScore`."""
    return f"bertscore_{name}"


class ScoredBatch(NamedTuple):
    """The scores of a batch, in its order, the text of the signature of each, and their counts."""

    scores: list[PairScore]
    signatures: list[str]
    rejected: int
    reasons: Mapping[str, int]
    work: Work


class InferenceModel:
    """The model of RunInference: the loaded scorers, and what was seen so far.

    With `large_model` and `model_copies` it is in another process than the handler: only its
    methods can be called then, also by several threads at once.
    """

    def __init__(
        self,
        fields: Mapping[str, str],
        memory: ModelMemory,
        settings: SettingsByLanguage,
        idf: IdfTables | None,
    ) -> None:
        self._fields, self._settings, self._idf = fields, settings, idf
        self._scorers = LoadedScorers(memory)
        self._signatures = settings.signatures(idf)
        self._fields_seen: set[str] = set()
        self._pairs = 0
        if settings.sole is not None:  # those of languages are loaded when they are needed
            with ending_with_the_device():
                self._scorers(settings.sole)

    def score(self, batch: Sequence[PairLike]) -> ScoredBatch:
        """Score a batch; see `BertScoreModelHandler.run_inference`."""
        self._check_fields(batch)
        given = {
            role: [_field_of(pair, name) for pair in batch] for role, name in self._fields.items()
        }
        candidates, marks = answers(
            [*map(_read_text, given["candidate"])], strip=self._settings.strips_reasoning
        )
        texts = PairTexts.of(candidates, [*map(_read_references, given["reference"])], marks)
        languages, keys = [EVERY_LANGUAGE] * len(batch), key_of_all(len(batch))
        if "language" in given:
            languages = [*map(language_of, given["language"])]
            texts = texts.in_languages(languages, self._settings)
            keys = keys_of_languages(languages)
        with ending_with_the_device():
            scored = score_texts(self._scorers, texts, keys, settings=self._settings, idf=self._idf)
        several = [not isinstance(reference, str) for reference in given["reference"]]
        # The name of the model: "" where a language has no setting, and so no score.
        made = [self._signatures.get(language, "") for language in languages]
        scores = _pair_scores(
            scored,
            several,
            self._settings,
            signatures=made if "language" in given else [None] * len(batch),
        )
        return ScoredBatch(
            [*scores],
            made,
            len(scored.rejected()),
            Counter(filter(None, scored.reasons)),
            scored.work,
        )

    def _check_fields(self, batch: Sequence[PairLike]) -> None:
        """Raise for an element with no text field, and for a field that no element has.

        A missing field counts as null. If none of the first 1,024 pairs of a process has it, its
        name is misspelled. A warning comes before that.
        """
        texts = (self._fields["candidate"], self._fields["reference"])
        for pair in batch:
            present = {name for name in self._fields.values() if _has_field(pair, name)}
            self._fields_seen |= present
            if present.isdisjoint(texts):
                raise InputError(
                    f"an element has neither of the fields: got {_shape_of(pair)}; expected "
                    f"{texts[0]!r} and {texts[1]!r}. Name the right ones with candidate_field and "
                    "reference_field; (key, pair) is for RunInference with "
                    "KeyedModelHandler(BertScoreModelHandler(...))."
                )
        before, self._pairs = self._pairs, self._pairs + len(batch)
        for role, name in self._fields.items():
            if not batch or name in self._fields_seen:
                continue
            if not before:
                logger.warning("no pair so far has the %s field %r; it counts as null", role, name)
            if self._pairs >= _ENOUGH_PAIRS:
                raise InputError(
                    f"no element has the {role} field {name!r}: got {self._pairs} elements, one "
                    f"of them {_shape_of(batch[0])}; expected {name!r} in some. Name the right "
                    f"one with {role}_field; pairs without a {role} have None there."
                )


class BertScoreModelHandler(ModelHandler[PairLike, PredictionResult, InferenceModel]):
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
        config: ConfigLike | ByLanguage,
        *,
        candidate_field: str = "candidate",
        reference_field: str = "reference",
        empty: str | None = None,
        idf: Idf = None,
        min_batch_size: int | None = None,
        max_batch_size: int = _BATCH_SIZE,
        **options: Any,
    ) -> None:
        """Check everything that can be checked here; the model is loaded on the worker.

        Args:
            config: How to score, or the name of a model; or a `ByLanguage` with one of these for
                each language. If the device is not `cpu`, the backend `auto` means torch: the
                launcher cannot see the device of the workers.
            candidate_field: Field of the candidate: a string.
            reference_field: Field of the reference, or of a list of references.
            empty: The score of a pair with an empty side; see `ScorerConfig.empty`. None: the
                configuration's rule, or `zero` without one. The pair gets its reason in any case.
            idf: Document frequencies for idf weights: a table, or those of languages, which become
                part of the pipeline; or the path of a file of them, which every worker reads.
            min_batch_size: Fewest pairs of a batch, except at the end of a bundle. None:
                `max_batch_size`, so that the batches do not depend on the clock.
            max_batch_size: Most pairs of a batch.
            **options: The other options of Beam's `ModelHandler`. `max_batch_duration_secs`, for
                streams: how long to wait to fill a batch, across bundles. `large_model=True`, or
                `model_copies=N`: so many models a machine, which its processes share.

        Raises:
            BertScoreError: The arguments cannot work, as far as is known without the model.
        """
        smallest = max_batch_size if min_batch_size is None else min_batch_size
        if not 1 <= smallest <= max_batch_size:
            raise ConfigError(
                f"batches of {smallest} to {max_batch_size} pairs cannot be made; expected "
                "1 <= min_batch_size <= max_batch_size."
            )
        for name in options:
            if name not in _BEAM_OPTIONS:
                raise unknown_argument(name, sorted(_BEAM_OPTIONS))
        super().__init__(min_batch_size=smallest, max_batch_size=max_batch_size, **options)
        self.idf = IdfTables.of(idf) if isinstance(idf, IdfTable) else idf
        self.configs = settle_pairs(config, empty=empty, idf=self.idf)
        self.fields = {"candidate": candidate_field, "reference": reference_field}
        self.threads: int | None = None  # of each process; else what torch or the config says
        self._memory = ModelMemory()
        if isinstance(config, ByLanguage):
            self.fields["language"] = config.field
            self._memory = config.model_memory

    def signature(self) -> Signature:
        """Return how the scores are made. Reads the weight files, and an idf table given as a path.

        Raises:
            ConfigError: Each language has a signature of its own; see `signatures`.
            IdfError: The idf table cannot be read, or belongs to another tokenizer.
        """
        if "language" in self.fields:
            raise ConfigError("each language has a signature of its own here; see `signatures`.")
        return self.signatures()[EVERY_LANGUAGE]

    def signatures(self) -> dict[str, Signature]:
        """Return how the scores of each language are made; see `signature`.

        Raises:
            IdfError: An idf table cannot be read, is missing, or belongs to another tokenizer.
        """
        settings, idf = settings_here(self.configs, self.idf)
        return {
            language: Signature.parse(text) for language, text in settings.signatures(idf).items()
        }

    def load_model(self) -> InferenceModel:
        """Load the scorer and the idf table, once a process; with languages when they are needed.

        Raises:
            IdfError: An idf table cannot be read, is missing, or belongs to another tokenizer.
        """
        if self.threads is not None:
            compute_with(self.threads)
        return InferenceModel(self.fields, self._memory, *settings_here(self.configs, self.idf))

    def run_inference(
        self,
        batch: Sequence[PairLike],
        model: InferenceModel,
        inference_args: dict[str, Any] | None = None,
    ) -> list[PredictionResult]:
        """Score one batch and return the results in its order."""
        found = model.score(batch)
        counters.count_pairs(
            scored=len(found.scores) - found.rejected,
            rejected=found.rejected,
            reasons=found.reasons,
        )
        counters.count_work(found.work)
        return [
            PredictionResult(pair, score, signature)
            for pair, score, signature in zip(batch, found.scores, found.signatures, strict=True)
        ]

    def get_num_bytes(self, batch: Sequence[PairLike]) -> int:
        """Return the size of the candidates in characters; Beam's default pickles every batch."""
        candidates = (_field_of(pair, self.fields["candidate"]) for pair in batch)
        return sum(len(text) for text in candidates if isinstance(text, str))

    def get_metrics_namespace(self) -> str:
        """Return the namespace of RunInference's own metrics."""
        return counters.NAMESPACE


def _pair_scores(
    scored: ScoredPairs,
    several: Sequence[bool],
    settings: SettingsByLanguage,
    signatures: Sequence[str | None],
) -> Iterator[PairScore]:
    by_column = scored.by_column(rescaled=settings.rescaled, windowed=settings.windowed)
    nothing = [None] * len(scored)
    best = by_column[columns.BEST_REFERENCE].tolist()
    encoded = set(scored.rows.tolist())
    values = {name: column.tolist() for name, column in by_column.items()} | {
        columns.BEST_REFERENCE: [
            index if is_list else None for index, is_list in zip(best, several, strict=True)
        ],
        columns.ERROR: scored.reasons,
        columns.SIGNATURE: [
            signature if row in encoded else None for row, signature in enumerate(signatures)
        ],
    }
    made = (values.get(score_column(name), nothing) for name in PairScore._fields)
    return starmap(PairScore, zip(*made, strict=True))
