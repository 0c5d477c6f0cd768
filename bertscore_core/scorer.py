"""BertScorer: tokenizer, encoder, weights, matching and rescaling combined."""

import copy
from collections.abc import Sequence

import numpy as np
import torch

from bertscore_core.assembly import assemble, check_finite, too_long
from bertscore_core.baseline import Baseline
from bertscore_core.config import Settings, settle, share_model
from bertscore_core.device_loss import noticing_a_lost_device
from bertscore_core.device_queue import DeviceQueue
from bertscore_core.embedding import EmbeddedTexts, Engine, embed, plan_embedding
from bertscore_core.encoder import Encoder, load_encoder
from bertscore_core.errors import ConfigError
from bertscore_core.given_texts import References, as_groups, check_texts, number_texts
from bertscore_core.idf import DocumentFrequencies, IdfTable, TokenWeights, Weightings
from bertscore_core.kernel import score_pairs
from bertscore_core.memory import Budget
from bertscore_core.optimal import check_optimal
from bertscore_core.scorer_config import ScorerConfig, as_config
from bertscore_core.scores import Scores
from bertscore_core.signature import Signature
from bertscore_core.tokenization import TextTokenizer
from bertscore_core.tokenized_pairs import TokenizedPairs
from bertscore_core.tokens import (
    IntArray,
    TextPairs,
    TokenizedTexts,
)
from bertscore_core.work import Work


class BertScorer:
    """Score candidates against references with one loaded model.

    Example:
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
        self.settings: Settings = settle(as_config(config))
        if self.config.num_threads is not None:
            torch.set_num_threads(self.config.num_threads)
        with noticing_a_lost_device():
            self.encoder: Encoder = load_encoder(self.settings.files, self.settings.encoder_options)
        self.queue = DeviceQueue.of(self.encoder.device) if queue is None else queue
        self._budget: Budget = self.settings.budget()

    def sharing_model(self, config: ScorerConfig) -> "BertScorer":
        """Return a scorer for another language or baseline that shares this one's encoder.

        Raises:
            ConfigError: the configuration differs in more, or there is nothing to rescale with.
        """
        other = copy.copy(self)
        other.settings = share_model(self.settings, config)
        return other

    def __repr__(self) -> str:
        """Show how it scores."""
        signature = self.settings.signature()
        rescaled = "" if signature.baseline == "none" else f", baseline={signature.baseline!r}"
        return (
            f"BertScorer(model={signature.model!r}, num_layers={signature.num_layers}, "
            f"idf={self.config.idf}{rescaled}, dtype={signature.dtype!r}, "
            f"backend={signature.backend!r})"
        )

    @property
    def config(self) -> ScorerConfig:
        """What was asked for."""
        return self.settings.config

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
        """Count the document frequencies of references; each one is a document.

        Args:
            references: One text each, or a list of texts each.
            corpus: Name of the references, kept in the table.
        """
        flat = [text for group in as_groups(references) for text in group]
        return IdfTable(
            frequencies=DocumentFrequencies.from_tokens(self.tokenizer.encode(flat)),
            tokenizer=self.tokenizer.fingerprint,
            max_length=self.tokenizer.max_length,
            corpus=corpus,
        )

    def score(
        self,
        candidates: Sequence[str],
        references: References,
        *,
        idf: IdfTable | None = None,
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
            `bertscore_core.empty_texts`.

        Raises:
            InputError: lengths differ, a list of references is empty, a value is not a text, or a
                text has lone surrogates. The message names the pair.
            IdfError: the idf table belongs to another tokenizer or truncation.

        References:
            Zhang et al. 2020, section 3; bert-score 0.3.13 at batch size 1.
        """
        # Once, since a generator can be read only once, and idf is counted before scoring.
        references = as_groups(references)
        if idf is None and self.config.idf:
            check_texts(candidates, references)
            idf = self.count_idf(references)
        # Before anything is encoded: a table that does not fit must not cost the time of scoring.
        weights = self.token_weights(idf)
        return self.score_tokenized(self.tokenize(candidates, references), weights)

    def score_weighted(
        self, candidates: Sequence[str], references: References, weights: TokenWeights
    ) -> Scores:
        """Score with the given token weights; otherwise like `score`."""
        return self.score_tokenized(self.tokenize(candidates, references), weights)

    def token_weights(self, idf: IdfTable | None) -> TokenWeights:
        """Return the token weights of an idf table; without a table, those of scoring without idf.

        Raises:
            ConfigError: a table was given to a scorer without idf.
            IdfError: the idf table belongs to another tokenizer or truncation.
        """
        if idf is None:
            return TokenWeights.uniform(self.tokenizer.zero_weight_ids, of_nothing=0.0)
        if not self.config.idf:
            raise ConfigError("an idf table was given to a scorer without idf; set idf=True.")
        idf.check_fits(self.tokenizer.fingerprint, self.tokenizer.max_length)
        return idf.weights()

    def tokenize(self, candidates: Sequence[str], references: References) -> TokenizedPairs:
        """Do the part of `score` that needs no encoder. Arguments and errors are the same."""
        groups = as_groups(references)
        check_texts(candidates, groups)
        texts, candidate_ids, reference_ids, counts = number_texts(candidates, groups)
        return TokenizedPairs(
            texts=self.tokenizer.encode(texts),
            candidates=candidate_ids,
            references=reference_ids,
            counts=counts,
        )

    def score_tokenized(
        self, pairs: TokenizedPairs, weights: TokenWeights, work: Work | None = None
    ) -> Scores:
        """Score what `tokenize` returned. Only this part uses the encoder's device.

        Threads may share a scorer: they use the device one at a time, and tokenise in parallel.

        Args:
            pairs: The pairs to score.
            weights: Token weights.
            work: Where the work of the device is counted.

        Raises:
            ConfigError: the encoder's numbers are not finite, for example after an overflow.
            DeviceLostError: the GPU has failed; this process cannot use it again.
        """
        return self.score_with_each(pairs, [weights], work)[0]

    def score_with_each(
        self,
        pairs: TokenizedPairs,
        weightings: Sequence[TokenWeights],
        work: Work | None = None,
        *,
        optimal: bool = False,
    ) -> list[Scores]:
        """Score with each of several token weights; texts are encoded and matched once.

        Args:
            pairs: The pairs to score.
            weightings: Token weights, at least one.
            work: Where the work of the device is counted.
            optimal: Assign each token to at most one token of the other text, and not greedily. No
                signature names such scores. It needs scipy, and takes far longer.

        Returns:
            The scores with each weighting; greedy ones are those of `score_tokenized`, to the bit.

        Raises:
            ConfigError: the encoder's numbers are not finite, or scipy is missing.
            DeviceLostError: the GPU has failed; this process cannot use it again.
        """
        if optimal:
            check_optimal()
        lengths, flat_pairs = pairs.texts.lengths, pairs.flat()
        # Without any token there is no vector to compare; such pairs keep the 0 they begin with.
        has_tokens = (lengths[flat_pairs.candidates] > 0) & (lengths[flat_pairs.references] > 0)
        chosen = has_tokens & ~np.repeat(too_long(pairs, self.settings), pairs.counts)
        shape = (len(weightings), self.encoder.num_outputs, len(flat_pairs), 3)
        every = np.zeros(shape, dtype=np.float32)
        work = Work() if work is None else work
        wanted = flat_pairs.select(chosen)
        work.planned_tokens += self._planned_tokens(wanted)
        with noticing_a_lost_device():
            every[:, :, chosen] = score_pairs(
                self._engine, wanted, Weightings(tuple(weightings)), work, optimal=optimal
            )
        found = []
        for flat, weights in zip(every, weightings, strict=True):
            check_finite(
                flat,
                flat_pairs,
                weights,
                model=self.settings.files.name,
                dtype=self.config.dtype,
            )
            found.append(assemble(flat, pairs, self.settings, of_nothing=weights.of_nothing))
        return found

    def embed(
        self, texts: TokenizedTexts, needed: IntArray, weights: TokenWeights
    ) -> EmbeddedTexts:
        """Return the unit-length embeddings of some texts, as they are matched.

        Args:
            texts: The texts.
            needed: Indices of those to embed, each with at least one token.
            weights: Token weights.
        """
        engine, work = self._engine, Work()
        plan = plan_embedding(engine, texts, needed, weights)
        with noticing_a_lost_device(), self.queue.turn(work):
            return embed(engine, plan, work)

    @property
    def _engine(self) -> Engine:
        return Engine(
            encoder=self.encoder,
            queue=self.queue,
            budget=self._budget,
            pad_id=self.tokenizer.pad_id,
            shape=self.tokenizer.windows,
        )

    def _planned_tokens(self, pairs: TextPairs) -> int:
        """Return how many tokens are encoded for pairs, each distinct text once."""
        lengths = pairs.texts.lengths[np.unique([pairs.candidates, pairs.references])]
        shape = self.tokenizer.windows
        return int(lengths.sum()) if shape is None else shape.encoded_tokens(lengths)
