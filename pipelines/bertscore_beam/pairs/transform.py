"""BERTScore as a transform of dicts and Rows, for other people's pipelines.

dicts or Rows --ScorePairs(config)--> the same with score columns after their own
"""

import copy
import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Union, get_args, get_origin, get_type_hints

import apache_beam as beam
from apache_beam.ml.inference.base import PredictionResult, RunInference
from apache_beam.typehints import no_annotations
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.typehints.schemas import named_fields_from_element_type

from bertscore_beam.dump import columns
from bertscore_beam.dump.columns import OUTPUT_COLUMNS
from bertscore_beam.pairs.handler import BertScoreModelHandler, PairScore, score_column
from bertscore_beam.pairs.pair_configs import ByLanguage, ConfigLike
from bertscore_beam.run.beam_options import threads_on_service
from bertscore_core.errors import ConfigError, InputError
from bertscore_core.signature import Signature


class ScorePairs(beam.PTransform):
    """Dicts or Rows -> the same, with score columns after their own.

    The columns are those of the scoring job, as docs/output.md lists them; with `ByLanguage` also
    `bertscore_signature`. `bertscore_best_reference` is None if the reference is a single text, and
    left out if the schema has only single texts. No pair is dropped: a pair that cannot be scored
    has its reason in `bertscore_error` and None in the others.

    A PCollection with a schema (Rows, NamedTuples) gives Rows, and their schema has the columns. A
    PCollection without one may contain dicts, which give dicts, or Rows. All fields pass unchanged.

    Windows are kept, timestamps are not: the pairs of a batch get the end of their window as their
    timestamp, with `max_batch_duration_secs` the time at which the batch was complete. Copy the
    timestamp to a field first if it is needed later.

    Beam cannot encode lone surrogates in strings: every step that encodes such a dict or Row fails.
    """

    def __init__(self, config: ConfigLike | ByLanguage, **options: Any) -> None:
        """Check everything that can be checked here.

        Args:
            config: How to score, as `BertScoreModelHandler` takes it.
            **options: Its other arguments.

        Raises:
            BertScoreError: The arguments cannot work, as far as is known without the model.
        """
        super().__init__()
        self._handler = BertScoreModelHandler(config, **options)

    def signature(self) -> Signature:
        """Return how the scores are made; see `BertScoreModelHandler.signature`."""
        return self._handler.signature()

    def signatures(self) -> dict[str, Signature]:
        """Return how the scores of each language are made."""
        return self._handler.signatures()

    @no_annotations  # the output type depends on the input
    def expand(self, pairs: beam.PCollection[Any]) -> beam.PCollection[Any]:
        """Score the pairs and append the score columns.

        Raises:
            InputError: The schema lacks the fields, or their types cannot be texts.
            ConfigError: The schema already has a score column.
        """
        handler = copy.copy(self._handler)
        if not handler.share_model_across_processes():
            handler.threads = threads_on_service(pairs.pipeline.options)
        roles, configs = handler.fields, handler.configs.values()
        is_rescaled = any(config.rescale for config in configs)
        is_windowed = any(config.long_text == "windows" for config in configs)
        left_out = {
            *(() if is_rescaled else columns.RAW_SCORES.values()),
            *(() if is_windowed else (columns.WINDOWS,)),
            *(() if "language" in roles else (columns.SIGNATURE,)),
        }
        names = [name for name in OUTPUT_COLUMNS if name not in left_out]
        fields = _schema_fields(pairs.element_type)
        if fields is None:
            return (
                pairs
                | "ScoreBatch" >> RunInference(handler)
                | "AddScores" >> beam.Map(_add_scores, names)
            )
        for role, name in roles.items():
            _check_field(fields, name, role)
        _check_collisions(fields)
        if _without_none(fields[roles["reference"]]) is str:
            names.remove(columns.BEST_REFERENCE)
        added = [(name, _COLUMN_TYPES[name]) for name in names]
        return (
            pairs
            | "ScoreBatch" >> RunInference(handler)
            | "AddScores"
            >> beam.Map(_row_with_scores, tuple(fields), names).with_output_types(
                RowTypeConstraint.from_fields([*fields.items(), *added])
            )
        )


_COLUMN_TYPES = {score_column(name): kind for name, kind in get_type_hints(PairScore).items()}


def _add_scores(result: PredictionResult, names: Sequence[str]) -> Any:
    pair = result.example
    if isinstance(pair, Mapping):
        _check_collisions(pair)
        return {**pair, **_columns_of(result.inference, names)}
    if not hasattr(pair, "_asdict"):
        raise InputError(
            f"a pair cannot get columns: got an element of type {type(pair).__name__}; expected "
            "dicts, beam.Rows or NamedTuples. Convert it before, or use RunInference with "
            "BertScoreModelHandler, which takes anything with the two attributes."
        )
    fields = pair._asdict()
    _check_collisions(fields)
    return beam.Row(**fields, **_columns_of(result.inference, names))


def _row_with_scores(
    result: PredictionResult, fields: Sequence[str], names: Sequence[str]
) -> beam.Row:
    own = {name: getattr(result.example, name) for name in fields}
    return beam.Row(**own, **_columns_of(result.inference, names))


def _columns_of(score: PairScore, names: Sequence[str]) -> dict[str, Any]:
    values = {score_column(name): value for name, value in score._asdict().items()}
    return {name: values[name] for name in names}


def _schema_fields(element_type: Any) -> dict[str, Any] | None:
    try:
        return dict(named_fields_from_element_type(element_type))
    except TypeError:
        return None


def _check_field(fields: Mapping[str, Any], name: str, role: str) -> None:
    if name not in fields:
        near = difflib.get_close_matches(name, fields, n=1)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        raise InputError(
            f"no {role} field {name!r}: got the fields {list(fields)}; expected {name!r} among "
            f"them. {hint}Name the right one with {role}_field."
        )
    fits, expected = _holds_text(fields[name]), "a string"
    if role == "reference":
        fits, expected = _holds_texts(fields[name]), "a string or a list of them"
    if not fits:
        raise InputError(
            f"the {role} field {name!r} holds no texts: got type {fields[name]}; expected "
            f"{expected}. Convert it, or name another one with {role}_field."
        )


def _check_collisions(fields: Iterable[str]) -> None:
    taken = [name for name in OUTPUT_COLUMNS if name in fields]
    if taken:
        raise ConfigError(
            f"the pairs already have score columns: got {', '.join(taken)}; expected none of the "
            "names that ScorePairs gives. Drop or rename these fields before it."
        )


def _without_none(kind: Any) -> Any:
    # The type inside an Optional; other types unchanged.
    kinds = [item for item in get_args(kind) if item is not type(None)]
    return kinds[0] if get_origin(kind) is Union and len(kinds) == 1 else kind


def _holds_text(kind: Any) -> bool:
    # A type that a schema cannot express is Any.
    return _without_none(kind) in (str, Any)


def _holds_texts(kind: Any) -> bool:
    inner = _without_none(kind)
    return _holds_text(inner) or (get_origin(inner) is Sequence and _holds_text(*get_args(inner)))
