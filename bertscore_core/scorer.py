"""BertScorer: texts checked, tokenized, encoded, matched, and their scores rescaled."""

import copy
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial, wraps
from threading import RLock
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch

from bertscore_core import tokens
from bertscore_core.baseline import Baseline, rescale
from bertscore_core.config import Settings, settle, share_model, with_dtype
from bertscore_core.empty_texts import EMPTY_LENGTH, are_empty, score_empty
from bertscore_core.errors import ConfigError, InputError
from bertscore_core.idf import IdfTable, TokenWeights
from bertscore_core.match.embedding import EmbeddedTexts, Engine, embed, plan_embedding
from bertscore_core.match.kernel import score_pairs
from bertscore_core.model.device import DeviceQueue
from bertscore_core.model.encoder import Encoder, load_encoder
from bertscore_core.model.lost_device import noticing_a_lost_device
from bertscore_core.model.switches import set_threads, undisturbed
from bertscore_core.reasoning import without_reasoning
from bertscore_core.scorer_config import ScorerConfig, as_config, model_part
from bertscore_core.signature import Signature
from bertscore_core.stats.caveats import caveat_messages, caveats_of_values
from bertscore_core.stats.scores import Scores
from bertscore_core.tokenizer.tokenization import TextTokenizer
from bertscore_core.work import Work

logger = logging.getLogger(__name__)

# The texts that a caller gives: checked, grouped by candidate, and numbered.

References = Sequence[str] | Sequence[Sequence[str]]
"""One text for each candidate, or a list of texts for each."""


def as_list(name: str, texts: object) -> list[Any]:
    """Return texts that have positions as a list; `name` says what they are.

    Raises:
        InputError: they have none: a text, a dict, a table, a set, a generator.
    """
    if isinstance(texts, str):
        raise InputError(f"{name} is one text; expected a list of texts. Put it in a list.")
    listed = _by_position(texts)
    if listed is None:
        raise InputError(
            f"{name} is a {type(texts).__name__}, whose texts have no positions; expected a list, "
            "a tuple, an array or one column of a table. Make a list of the texts, in their order."
        )
    return listed


def _by_position(values: object) -> list[Any] | None:
    if type(values) is list:
        return values
    if isinstance(values, Sequence) and not isinstance(values, str | bytes | bytearray):
        return list(values)
    # Arrays, and columns of tables: Arrow, pandas and Polars, numpy.
    for name in ("to_pylist", "to_list", "tolist"):
        convert = getattr(values, name, None)
        if callable(convert) and isinstance(listed := convert(), list):
            return listed
    return None


def _as_groups(references: object) -> list[list[Any]]:
    # What is not a list of texts is the one text of its group, and refused if it is not a text.
    return [
        [group] if (listed := _by_position(group)) is None else listed
        for group in as_list("references", references)
    ]


def _check_texts(candidates: list[Any], groups: list[list[Any]]) -> None:
    if len(candidates) != len(groups):
        raise InputError(
            f"got {len(candidates)} candidates and {len(groups)} references; expected one "
            "reference, or one list of references, for every candidate."
        )
    if _all_are_texts(candidates, groups):
        return
    for position, (candidate, references) in enumerate(zip(candidates, groups, strict=True)):
        for side, text in [("candidate", candidate), *(("reference", text) for text in references)]:
            if not isinstance(text, str):
                raise _not_a_text_error(position, side, text)
            if not tokens.is_encodable(text):
                raise InputError(
                    f"pair {position} holds a lone surrogate, which is not a character; expected "
                    "valid Unicode. Decode the source with errors='replace'."
                )
        if not references:
            raise InputError(
                f"pair {position} has an empty list of references; expected at least one. Leave "
                "the pair out."
            )


def _all_are_texts(candidates: list[Any], groups: list[list[Any]]) -> bool:
    # Loops inside the interpreter, which holds up other threads ten times less than one in Python.
    if not all(groups):
        return False
    try:
        for texts in (candidates, *groups):  # both refuse what is not a text
            if not all(map(str.isascii, texts)) and not all(map(tokens.is_encodable, texts)):
                return False
    except TypeError:  # something is not a text
        return False
    return True


def _not_a_text_error(position: int, side: str, value: object) -> InputError:
    is_nan = isinstance(value, (float, np.floating)) and np.isnan(value)  # missing, to pandas
    kind = type(value).__name__ + (" (nan)" if is_nan else "")
    missing = is_nan or value is None
    cure = "Fill what is missing, or leave the pair out." if missing else "Convert it."
    return InputError(
        f"pair {position} contains a value that is not a string: got a {side} of type {kind}; "
        f"expected str. {cure}"
    )


def _number_texts(
    candidates: Sequence[str], groups: Sequence[Sequence[str]]
) -> tuple[list[str], tokens.IntArray, tokens.IntArray, tokens.IntArray]:
    # The distinct texts, references first, in order of appearance.
    numbers: dict[str, int] = {}
    reference_ids = [numbers.setdefault(text, len(numbers)) for group in groups for text in group]
    candidate_ids = [numbers.setdefault(text, len(numbers)) for text in candidates]
    return (
        list(numbers),
        np.array(candidate_ids, dtype=np.int64),
        np.array(reference_ids, dtype=np.int64),
        np.array([len(group) for group in groups], dtype=np.int64),
    )


# From the scores of each candidate with each reference to the scores of candidates.
#
# matching --flat--> texts without weight --> rules for empty texts --> best over references
#     --> rescaling --> Scores


def assemble(
    flat: tokens.FloatArray,
    pairs: tokens.TokenizedPairs,
    settings: Settings,
    *,
    weightless_score: float,
) -> Scores:
    """Combine the scores of each group of references, rescale, and add facts about pairs.

    Args:
        flat: Precision, recall and F1 of each candidate with each of its references; NaN where all
            tokens of a text weigh 0. Shape (layers, P, 3).
        pairs: N candidates and their P references.
        settings: The rules for empty and long texts, and what to rescale with.
        weightless_score: What replaces NaN where no side is empty; see `TokenWeights`.
    """
    encoded, counts = pairs.texts, pairs.counts
    starts = np.cumsum(counts) - counts
    sides, is_empty = pairs.flat(), are_empty(encoded, settings.tokenizer.empty_ids)
    no_candidate, no_reference = is_empty[sides.candidates], is_empty[sides.references]
    is_short = encoded.lengths == EMPTY_LENGTH
    empty = no_candidate | no_reference
    all_empty, rule = tokens.reduce_groups(np.logical_and, empty, starts), settings.empty
    # Empty texts have a rule of their own.
    weightless = np.isnan(flat) & ~empty[:, None]
    texts = encoded.lengths - encoded.count(settings.tokenizer.textless_ids)
    unknown = encoded.count(settings.tokenizer.unknown_ids)
    is_unknown = (texts > 0) & (unknown == texts)
    of_unknown = (weightless[..., 0] & is_unknown[sides.candidates]) | (
        weightless[..., 1] & is_unknown[sides.references]
    )
    flat = score_empty(np.where(weightless, np.float32(weightless_score), flat), empty, rule)
    # Each measure by itself, as bert-score does.
    combined = tokens.over_references(flat, starts, settings.config.references)
    is_too_long = _too_long(pairs, settings)
    unscored = is_too_long | all_empty if rule == "null" else is_too_long
    raw = np.where(unscored[None, :, None], np.float32(np.nan), combined)
    baseline = _baseline_rows(settings)
    final = raw if baseline is None else rescale(raw, baseline)
    lengths = encoded.lengths.astype(np.int32)
    best = tokens.first_highest(flat[..., 2], starts).astype(np.int32)
    counted = is_short[sides.candidates] | is_short[sides.references] | empty
    unweighted = weightless.any(axis=(0, 2)) | empty

    def of_layers(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return rows if settings.config.all_layers else rows[0]

    return Scores(
        precision=of_layers(final[..., 0]),
        recall=of_layers(final[..., 1]),
        f1=of_layers(final[..., 2]),
        raw_precision=of_layers(raw[..., 0]),
        raw_recall=of_layers(raw[..., 1]),
        raw_f1=of_layers(raw[..., 2]),
        best_reference=of_layers(best),
        candidate_tokens=lengths[pairs.candidates],
        reference_tokens=tokens.reduce_groups(np.add, lengths[pairs.references], starts).astype(
            np.int32
        ),
        text_tokens=pairs.over_all(np.add, texts).astype(np.int32),
        unknown_tokens=pairs.over_all(np.add, unknown).astype(np.int32),
        truncated=pairs.over_all(np.logical_or, encoded.truncated) & ~is_too_long,
        too_long=is_too_long,
        windows=_windows(pairs, settings),
        empty_candidate=tokens.reduce_groups(np.logical_or, no_candidate, starts),
        empty_reference=tokens.reduce_groups(np.logical_and, no_reference, starts),
        # Not those that are really empty: under `zero` only they score 0.
        counted_as_empty=tokens.reduce_groups(np.logical_and, counted, starts) & ~all_empty,
        only_special=tokens.reduce_groups(np.logical_and, unweighted, starts)
        & ~(all_empty | np.isnan(weightless_score)),
        unknown_weighs_nothing=tokens.reduce_groups(np.logical_or, of_unknown.any(axis=0), starts)
        & np.isnan(raw[..., :2]).any(axis=(0, 2)),
    )


def warn_of_texts(scores: Scores, candidates: Sequence[str]) -> None:
    """Log a warning if 5% of all tokens are unknown, or 1% of the candidates hold reasoning."""
    texts = as_list("candidates", candidates)
    share = sum(without_reasoning(text) is not text for text in texts) / max(len(texts), 1)
    caveats = caveats_of_values(scores.unknown, 0, reasoning=share)
    for message in caveat_messages(caveats).values():
        logger.warning("%s", message)


def _too_long(pairs: tokens.TokenizedPairs, settings: Settings) -> tokens.BoolArray:
    if settings.config.long_text != "error":
        return np.zeros(len(pairs.counts), dtype=np.bool_)
    return pairs.over_all(np.logical_or, pairs.texts.truncated)


def _check_positions(pairs: tokens.TokenizedPairs, settings: Settings) -> None:
    # Of what bert-score cuts nowhere; all else was checked when the tokenizer was loaded.
    positions = settings.files.positions
    if positions is None or settings.tokenizer.longest_input is not None:
        return
    longest = pairs.over_all(np.maximum, pairs.texts.lengths)
    if (longest > positions).any():
        pair, name = int(np.argmax(longest > positions)), settings.files.name
        raise ConfigError(
            f"a text of pair {pair} is too long for {name}: got {longest[pair]} tokens; expected "
            f"at most {positions}, since its encoder has no more positions. Its tokenizer states "
            f"no maximum length at which texts are cut: write model_max_length into its "
            f"tokenizer_config.json, or use BertScorer with max_length={positions}."
        )


_MEND = "Mend the model's weights, or choose another model."

_CURES = {
    "float16": "Numbers above 65,504 do not fit into it: choose dtype bfloat16 (--dtype bfloat16).",
    "bfloat16": "Choose dtype float32 (--dtype float32).",
    "float32": _MEND,
}
"""What to do if numbers are not finite. bfloat16 has the range of float32."""


def _check_finite(
    flat: tokens.FloatArray,
    pairs: tokens.TextPairs,
    weights: TokenWeights,
    *,
    model: str,
    dtype: str,
) -> None:
    # No score (layers, P, 3) may be NaN although the weights of its text have a sum.
    for measure, texts in ((0, pairs.candidates), (1, pairs.references)):
        for pair in np.flatnonzero(np.isnan(flat[..., measure]).any(axis=0)):
            if _have_a_sum(weights.of(pairs.texts.row(int(texts[pair])))):
                raise ConfigError(
                    f"the encoder's numbers are not finite in {dtype}: got none that can be "
                    f"compared for pair {pair} from {model}; expected finite ones. {_CURES[dtype]}"
                )


def _have_a_sum(weights: tokens.FloatArray) -> bool:
    # A user's weights may be negative and cancel out; in float32 a sum is rarely exactly 0 then.
    return bool(abs(weights.sum()) > 1e-6 * np.abs(weights).sum())


def warn_of_weightless(pairs: tokens.TokenizedPairs, weights: TokenWeights) -> None:
    """Log a warning if idf gives no token of any reference a weight."""
    references = np.unique(pairs.references)
    if len(references) and not weights.of(pairs.texts.gather(references)).any():
        logger.warning(
            "idf gives no token of the references a weight, so recall is NaN and F1 is 0: a token "
            "that is in every counted text weighs nothing. Count idf on more and different texts, "
            "or leave it out."
        )


def _windows(pairs: tokens.TokenizedPairs, settings: Settings) -> tokens.TokenIds:
    shape = settings.tokenizer.windows
    if shape is None:
        return np.ones(len(pairs.counts), dtype=np.int32)
    return pairs.over_all(np.maximum, shape.counts(pairs.texts.lengths)).astype(np.int32)


def _baseline_rows(settings: Settings) -> tokens.FloatArray | None:
    if settings.baseline is None:
        return None
    if settings.config.all_layers:
        return settings.baseline.rows.astype(np.float32)[:, None, :]
    return settings.baseline.row(settings.num_layers)


def _match_halved(
    score_all: Callable[[tokens.TextPairs], tokens.FloatArray], pairs: tokens.TextPairs
) -> tokens.FloatArray:
    # Precision is recall the other way round.
    halved, places, mirrored = pairs.without_mirrored()
    scores = score_all(halved)[:, :, places]
    scores[:, :, mirrored] = scores[:, :, mirrored][..., [1, 0, 2]]
    return scores


Made = TypeVar("Made")

_making = RLock()


def _once(make: Callable[[Any], Made]) -> cached_property[Made]:
    """Return a `cached_property` that is made once, whichever threads ask for it first."""
    name = make.__name__

    def made(scorer: Any) -> Made:
        own = vars(scorer)
        with _making:
            if name not in own:
                own[name] = make(scorer)
            return cast("Made", own[name])

    return cached_property(wraps(make)(made))


class BertScorer:
    """Score candidates against references with one loaded model.

    Examples:
        >>> scorer = BertScorer()                                          # doctest: +SKIP
        >>> scorer.score(["a cat sat"], [["the cat sat", "a cat"]]).f1     # doctest: +SKIP
    """

    def __init__(
        self, config: ScorerConfig | str | None = None, *, queue: DeviceQueue | None = None
    ) -> None:
        """Settle the configuration and load the model. It raises all errors of a configuration.

        Args:
            config: How to score, or the name of a model; the embedded default model when None.
            queue: The queue of the device, if several scorers take turns on it.
        """
        self._asked = as_config(config)
        engine = self._engine  # loads the model
        if queue is not None:
            self._engine = replace(engine, queue=queue)

    # What was unpickled has its configuration alone. It settles that, and loads the model, when it
    # is first used.

    @_once
    def settings(self) -> Settings:
        """The configuration, and what the model's files decide of it."""
        return settle(self._asked)

    @_once
    def _engine(self) -> Engine:
        """The loaded model, the queue of its device, and the bounds of memory."""
        settings = self.settings
        set_threads(settings.config.num_threads)
        with noticing_a_lost_device():
            encoder = load_encoder(
                settings.files,
                settings.config,
                packs=settings.packs,
                longest=settings.tokenizer.longest_input,
            )
        return Engine(
            encoder=encoder,
            queue=DeviceQueue.of(encoder.device),
            budget=settings.budget(),
            pad_id=settings.tokenizer.pad_id,
            shape=settings.tokenizer.windows,
        )

    @property
    def encoder(self) -> Encoder:
        """The loaded model."""
        return self._engine.encoder

    @property
    def queue(self) -> DeviceQueue:
        """The queue of the encoder's device."""
        return self._engine.queue

    def __getstate__(self) -> dict[str, ScorerConfig]:
        if "settings" not in vars(self):
            return {"_asked": self._asked}
        # With the values of the baseline, whose file another machine may lack.
        return {"_asked": replace(self.config, baseline=self.baseline)}

    def __copy__(self) -> "BertScorer":
        other = object.__new__(type(self))
        vars(other).update(vars(self), settings=self.settings, _engine=self._engine)
        return other

    def sharing_model(self, config: ScorerConfig) -> "BertScorer":
        """Return a scorer for another language or baseline that shares this one's encoder.

        Raises:
            ConfigError: the configuration differs in more, or there is nothing to rescale with.
        """
        config = with_dtype(config, self.settings.files)
        # What was asked for, on both sides: left open by one alone, it may stand for another thing.
        if model_part(self.config) != model_part(config):
            raise ConfigError(
                f"{config.model_name} cannot be scored with the encoder of "
                f"{self.settings.files.name}: got a configuration that differs in more than "
                "language and baseline; expected the rest to be equal. Load it by itself."
            )
        other = copy.copy(self)
        other._asked, other.settings = config, share_model(self.settings, config)
        return other

    def __repr__(self) -> str:
        signature = self.settings.signature()
        rescaled = "" if signature.baseline == "none" else f", baseline={signature.baseline!r}"
        return (
            f"BertScorer(model={signature.model!r}, num_layers={signature.num_layers}, "
            f"idf={self.config.idf}{rescaled}, dtype={signature.dtype!r}, "
            f"backend={signature.backend!r})"
        )

    @property
    def config(self) -> ScorerConfig:
        """What was asked for, with the number format that `auto` stands for."""
        return replace(self._asked, dtype=self.settings.config.dtype)

    @property
    def tokenizer(self) -> TextTokenizer:
        """The model's tokenizer, with the rules of bert-score."""
        return self.settings.tokenizer

    @property
    def baseline(self) -> Baseline | None:
        """What scores are rescaled with."""
        return self.settings.baseline

    def signature(self, idf: IdfTable | None = None) -> Signature:
        """Return the signature of this scorer's scores; see `Settings.signature`."""
        return self.settings.signature(idf)

    def count_idf(self, references: References, corpus: str = "") -> IdfTable:
        """Count the document frequencies of references, each a document; `corpus` names them."""
        groups = _as_groups(references)
        _check_texts([""] * len(groups), groups)
        flat = [text for group in groups for text in group]
        return self.tokenizer.count_documents(flat, corpus)

    def score(
        self, candidates: Sequence[str], references: References, *, idf: IdfTable | None = None
    ) -> Scores:
        """Score N candidates, each against its reference or references.

        Args:
            candidates: N texts.
            references: N texts, or N non-empty lists of texts. With several references, precision,
                recall and F1 are each the best over the list, as in bert-score. They may come from
                different references, so F1 need not be 2PR / (P + R). `best_reference` is that of
                F1.
            idf: Document frequencies for token weights. Without them, a scorer with `idf=True`
                counts the references of this call.

        Returns:
            Scores in input order. With idf, a text in which no token has weight gives NaN, as in
            bert-score. Without idf such a text holds nothing but special tokens, and scores 0 where
            bert-score gives NaN; see `Scores.only_special`. A text without any token, not even a
            special one, scores 0 before rescaling. For empty texts see `ScorerConfig.empty` and
            `bertscore_core.tokens`.

        Raises:
            InputError: lengths differ, a list of references is empty, a value is not a text, or a
                text has lone surrogates. The message names the pair.
            IdfError: the idf table belongs to another tokenizer or truncation.
            ConfigError: this process was forked from the one that loaded the model; or a text that
                nothing cuts (`max_length="reference"`) has more tokens than the model positions.

        References:
            Zhang et al. 2020, section 3; bert-score 0.3.13 at batch size 1.
        """
        pairs = self.tokenize(candidates, references)
        if idf is None and self.config.idf:
            idf = self.count_idf(references)
        weights = self.token_weights(idf)
        if idf is not None:
            warn_of_weightless(pairs, weights)
        scores = self.score_tokenized(pairs, weights)
        warn_of_texts(scores, () if self.config.strip_reasoning else candidates)
        return scores

    def token_weights(self, idf: IdfTable | None) -> TokenWeights:
        """Return the token weights of an idf table; without a table, those of scoring without idf.

        Raises:
            ConfigError: a table was given to a scorer without idf.
            IdfError: the idf table belongs to another tokenizer or truncation.
        """
        if idf is None:
            return TokenWeights.uniform(self.tokenizer.zero_weight_ids, weightless_score=0.0)
        if not self.config.idf:
            raise ConfigError("an idf table was given to a scorer without idf; set idf=True.")
        idf.check_fits(self.tokenizer.fingerprint, self.tokenizer.max_length)
        return idf.weights()

    def tokenize(self, candidates: Sequence[str], references: References) -> tokens.TokenizedPairs:
        """Do the part of `score` that needs no encoder. Arguments and errors are the same."""
        candidates, groups = as_list("candidates", candidates), _as_groups(references)
        _check_texts(candidates, groups)
        if self.config.strip_reasoning:
            candidates = [*map(without_reasoning, candidates)]
        texts, candidate_ids, reference_ids, counts = _number_texts(candidates, groups)
        pairs = tokens.TokenizedPairs(
            texts=self.tokenizer.encode(texts),
            candidates=candidate_ids,
            references=reference_ids,
            counts=counts,
        )
        _check_positions(pairs, self.settings)
        return pairs

    def score_tokenized(
        self, pairs: tokens.TokenizedPairs, weights: TokenWeights, work: Work | None = None
    ) -> Scores:
        """Score what `tokenize` returned. Only this part uses the encoder's device.

        Threads may share a scorer: they use the device one at a time, and tokenise in parallel. The
        work of the device is counted in `work`.

        Raises:
            ConfigError: the encoder's numbers are not finite, for example after an overflow.
            DeviceLostError: the GPU has failed; this process cannot use it again.
        """
        return self.score_with_each(pairs, [weights], work)[0]

    def score_with_each(
        self,
        pairs: tokens.TokenizedPairs,
        weightings: Sequence[TokenWeights],
        work: Work | None = None,
    ) -> list[Scores]:
        """Score with each of several token weights; texts are encoded and matched once.

        Args:
            pairs: What `tokenize` returned.
            weightings: At least one.
            work: Where the work of the device is counted.

        Returns:
            The scores with each weighting: those of `score_tokenized`, to the bit.

        Raises:
            ConfigError: the encoder's numbers are not finite.
            DeviceLostError: the GPU has failed; this process cannot use it again.
        """
        lengths, flat_pairs = pairs.texts.lengths, pairs.flat()
        # Without any token there is no vector to compare; such pairs keep the 0 they begin with.
        has_tokens = (lengths[flat_pairs.candidates] > 0) & (lengths[flat_pairs.references] > 0)
        chosen = has_tokens & ~np.repeat(_too_long(pairs, self.settings), pairs.counts)
        shape = (len(weightings), self.encoder.num_outputs, len(flat_pairs), 3)
        every = np.zeros(shape, dtype=np.float32)
        work = Work() if work is None else work
        wanted = flat_pairs.select(chosen)
        work.planned_tokens += self._planned_tokens(wanted)
        with noticing_a_lost_device(), self.computing():
            score_all = partial(score_pairs, self._engine, weightings=weightings, work=work)
            # Of texts that are compared with each other, each pair is there twice.
            halve = self.config.references == "mean"
            every[:, :, chosen] = _match_halved(score_all, wanted) if halve else score_all(wanted)
        results, settings = [], self.settings
        for flat, weights in zip(every, weightings, strict=True):
            _check_finite(
                flat, flat_pairs, weights, model=settings.files.name, dtype=settings.config.dtype
            )
            results.append(
                assemble(flat, pairs, settings, weightless_score=weights.weightless_score)
            )
        return results

    def embed(
        self, texts: tokens.TokenizedTexts, needed: tokens.IntArray, weights: TokenWeights
    ) -> EmbeddedTexts:
        """Return the unit-length embeddings, as they are matched, of the texts `needed`."""
        engine, work = self._engine, Work()
        plan = plan_embedding(engine, texts, needed, [weights])
        with noticing_a_lost_device(), self.computing(), self.queue.turn(work):
            return embed(engine, plan, work)

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Compute in inference mode, and put aside what else is set in torch for this thread."""
        with undisturbed(self.encoder.device), torch.inference_mode():
            yield

    def _planned_tokens(self, pairs: tokens.TextPairs) -> int:
        lengths = pairs.texts.lengths[pairs.used_texts()]
        shape = self.tokenizer.windows
        return int(lengths.sum()) if shape is None else shape.encoded_tokens(lengths)
