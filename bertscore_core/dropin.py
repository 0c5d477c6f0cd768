"""The interface of the `bert-score` package: change the import, keep the calls.

Arguments, defaults and return values are those of bert-score 0.3.13. Scores equal its scores at
batch size 1 with slow tokenizers, under transformers 5 too. Where bert-score does something else
than it was asked for, this module raises an error:

- A missing baseline. bert-score returns raw scores under the hash of rescaled ones, or fails after
  all texts were scored.
- An unknown language. bert-score takes a multilingual model without a word.
- A candidate without a reference.
"""

import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from types import ModuleType

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bertscore_core import registry
from bertscore_core.empty_texts import EMPTY_LENGTH
from bertscore_core.errors import ConfigError, InputError, check_package, escape_text
from bertscore_core.explanations.explanation import Explanation, explain_weighted
from bertscore_core.idf import TokenWeights
from bertscore_core.scorer import BertScorer, References, as_list, warn_of_texts, warn_of_weightless
from bertscore_core.scorer_config import ScorerConfig, check_model_name
from bertscore_core.signature import UPSTREAM_VERSION, upstream_hash
from bertscore_core.tokens import TokenizedPairs

# What users import from `bert_score.utils`: tables of models and languages, and the hash.


class _Languages(dict[str, str]):
    """Models by language. An unknown language is an error, not a multilingual model."""

    def __missing__(self, language: str) -> str:
        return registry.model_for_language(language)


lang2model: dict[str, str] = _Languages(registry.known_languages())
"""Default model of each language. Later scorers follow changes that users make here."""

model2layers: dict[str, int] = {
    spec.name: spec.num_layers for spec in registry.known_models() if spec.num_layers is not None
}
"""Layer of each model whose layer is tuned. Later scorers follow additions that users make here."""


def get_hash(
    model: str,
    num_layers: int,
    idf: object,
    rescale_with_baseline: bool,
    use_custom_baseline: bool,
    use_fast_tokenizer: bool,
) -> str:
    """Return bert-score's hash string for these settings."""
    return upstream_hash(
        model=model,
        num_layers=str(num_layers),
        idf=bool(idf),
        rescaled=rescale_with_baseline,
        custom_baseline=use_custom_baseline,
        transformers=version("transformers"),  # the installed one, as in bert-score
        fast_tokenizer=use_fast_tokenizer,
    )


utils = ModuleType("bert_score.utils", "What users reach as `bert_score.utils`.")
vars(utils).update(get_hash=get_hash, lang2model=lang2model, model2layers=model2layers)

# The version that bert-score 0.3.13 reports.
__version__ = UPSTREAM_VERSION

__all__ = ["BERTScorer", "__version__", "plot_example", "score", "utils"]

Triple = tuple[Tensor, Tensor, Tensor]


class BERTScorer:
    """bert-score's scorer object; see its documentation for the arguments.

    `batch_size` and `nthreads` are accepted and change nothing: batches are planned by token count,
    and scores do not depend on them.

    Attributes:
        baseline_path: The path given; None for the published baseline, which is not a file here.
        use_custom_baseline: Whether a path was given.
    """

    def __init__(
        self,
        model_type: str | None = None,
        num_layers: int | None = None,
        batch_size: int = 64,
        nthreads: int = 4,
        all_layers: bool = False,
        idf: bool = False,
        idf_sents: References | None = None,
        device: str | None = None,
        lang: str | None = None,
        rescale_with_baseline: bool = False,
        baseline_path: str | None = None,
        use_fast_tokenizer: bool = False,
    ) -> None:
        """Load the model. With `idf`, token weights come from `idf_sents` or `compute_idf`.

        Raises:
            ConfigError: there is neither a model nor a language, or the settings cannot be used.
            InputError: the model is not a name.
        """
        check_model_name(model_type)
        if model_type is None:
            if lang is None:
                raise ConfigError("got neither lang nor model_type; expected at least one of them.")
            model_type = lang2model[lang.lower()]
        # As users of bert-score add models: model2layers["path/to/model"] = 9.
        if num_layers is None:
            spec = registry.find_model_spec(model_type)
            if spec is None or spec.num_layers is None:
                num_layers = model2layers.get(model_type)
        config = ScorerConfig(
            model=model_type,
            num_layers=num_layers,
            language=lang,
            idf=idf,
            rescale=rescale_with_baseline,
            baseline=baseline_path if rescale_with_baseline else None,
            max_length="reference",
            device=device or "auto",
            all_layers=all_layers,
            fast_tokenizer=use_fast_tokenizer,
            # bert-score asks only slow tokenizers for the space before the text.
            adds_prefix_space=False if use_fast_tokenizer else None,
        )
        self._scorer = BertScorer(config)
        self.baseline_path = baseline_path
        self.use_custom_baseline = baseline_path is not None
        self._weights: TokenWeights | None = None
        self.batch_size = batch_size
        self.nthreads = nthreads
        self.all_layers = all_layers
        self.device = str(self._scorer.encoder.device)
        if idf_sents is not None:
            self.compute_idf(idf_sents)

    @property
    def lang(self) -> str | None:
        """Language code given."""
        return self._scorer.config.language

    @property
    def idf(self) -> bool:
        """Whether tokens are weighted by inverse document frequency."""
        return self._scorer.config.idf

    @property
    def model_type(self) -> str:
        """Name of the model."""
        return self._scorer.config.model_name

    @property
    def num_layers(self) -> int:
        """Layer whose output is compared."""
        return self._scorer.settings.num_layers

    @property
    def rescale_with_baseline(self) -> bool:
        """Whether scores are rescaled."""
        return self._scorer.config.rescale

    @property
    def use_fast_tokenizer(self) -> bool:
        """Whether texts are tokenised as bert-score does with fast tokenizers."""
        return self._scorer.config.fast_tokenizer

    @property
    def baseline_vals(self) -> Tensor:
        """Baseline of precision, recall and F1. Shape (3,), or (L + 1, 1, 3) for all layers."""
        baseline = self._scorer.baseline
        if baseline is None:
            raise ConfigError("this scorer does not rescale; set rescale_with_baseline=True.")
        if self.all_layers:
            # The shape that bert-score has, which broadcasts with (L + 1, N, 3).
            return _tensor(baseline.rows.astype(np.float32)[:, None])
        return _tensor(baseline.row(self.num_layers))

    @property
    def hash(self) -> str:
        """bert-score's hash string of these settings."""
        return get_hash(
            self.model_type,
            self.num_layers,
            self.idf,
            self.rescale_with_baseline,
            self.use_custom_baseline,
            self.use_fast_tokenizer,
        )

    def compute_idf(self, sents: References) -> None:
        """Count the document frequencies of texts; later calls of `score` use them.

        Raises:
            ConfigError: there are no texts. Every token would have weight 0.
        """
        sents = as_list("idf_sents", sents)
        if not sents:
            raise ConfigError("idf cannot be counted: got no texts; expected at least one.")
        if self._weights is not None:  # as bert-score warns
            warnings.warn("Overwriting the previous importance weights.", stacklevel=2)
        self._weights = self._scorer.count_idf(sents).weights()

    def score(
        self,
        cands: Sequence[str],
        refs: References,
        verbose: bool = False,
        batch_size: int = 64,
        return_hash: bool = False,
    ) -> Triple | tuple[Triple, str]:
        """Score candidates against one reference, or one list of references, each.

        Returns:
            (P, R, F), float32 tensors of shape (N,), or (L + 1, N) for all layers; with
            `return_hash` the pair of these and the hash string. With several references, each
            measure is the best over them.

        Raises:
            ConfigError: `idf` is set and no texts were counted.
            InputError: the texts are not pairs.
        """
        weights = self._token_weights()
        # From here, since bert-score does not count the loading of the model either.
        started = time.perf_counter()
        if verbose:
            print("calculating scores...")
        pairs = self._scorer.tokenize(cands, refs)
        _warn_of_empty(pairs)
        if self.idf:
            warn_of_weightless(pairs, weights)
        scores = self._scorer.score_tokenized(pairs, weights)
        warn_of_texts(scores, cands)
        triple = _tensor(scores.precision), _tensor(scores.recall), _tensor(scores.f1)
        if verbose:
            seconds = time.perf_counter() - started
            rate = len(pairs.references) / seconds
            print(f"done in {seconds:.2f} seconds, {rate:.2f} sentences/sec")
        return (triple, self.hash) if return_hash else triple

    def plot_example(self, candidate: str, reference: str, fname: str = "") -> None:
        """Draw the similarities of two texts, show the drawing, and save it if a name is given.

        Similarities are cosines of all tokens, also of special ones; they are not rescaled.

        Raises:
            ConfigError: matplotlib is not installed, `idf` is set and no texts were counted, or the
                scorer has all layers.
            InputError: an argument is not a text, one has no tokens, or the two are too long
                together.
        """
        check_package("matplotlib.pyplot", "a drawing", "plot")
        import matplotlib.pyplot as plt

        explanation = explain_weighted(
            self._scorer, candidate, [reference], self._token_weights(), idf=self.idf
        )
        _draw(explanation)
        if fname:
            plt.savefig(fname, dpi=100)
            print("Saved figure to file: ", fname)
        plt.show()

    def _token_weights(self) -> TokenWeights:
        if not self.idf:
            return TokenWeights.uniform(self._scorer.tokenizer.zero_weight_ids)
        if self._weights is None:
            raise ConfigError("idf weights are not computed; give idf_sents or call compute_idf.")
        return self._weights

    def __repr__(self) -> str:
        """Show the hash string, as bert-score does."""
        return (
            f"{type(self).__name__}(hash={self.hash}, batch_size={self.batch_size}, "
            f"nthreads={self.nthreads})"
        )


_MOST_NUMBERS = 40 * 40
"""Most cells with numbers: they would not be read in more, and drawing them takes minutes."""
_MOST_INCHES = 40.0


def _draw(explanation: Explanation) -> None:
    """Draw the similarity matrix of a candidate and its reference on a new figure of pyplot.

    Raises:
        InputError: A text has no tokens.
    """
    import matplotlib.pyplot as plt

    (pair,) = explanation.pairs
    if not pair.similarities.size:
        raise InputError(
            "there is nothing to draw: got a text without tokens; expected tokens in both. Give "
            "two texts that are not empty."
        )
    rows, columns = pair.similarities.shape
    cell = min(0.7, _MOST_INCHES / max(rows, columns))
    _, axes = plt.subplots(
        figsize=(max(columns * cell, 4) + 3, max(rows * cell, 1) + 3), layout="constrained"
    )
    image = axes.imshow(pair.similarities, cmap="Blues", vmin=0, vmax=1)
    size = min(10.0, cell * 40)
    for axis, text in ((axes.xaxis, pair.reference), (axes.yaxis, pair.candidate)):
        labels = [escape_text(token) for token in text.tokens]
        # A token may hold dollar signs, which would begin a formula.
        axis.set_ticks(range(len(labels)), labels, parse_math=False, fontsize=size)
    plt.setp(axes.get_xticklabels(), rotation=45, ha="right", rotation_mode="anchor")
    axes.set_xlabel("Reference (tokenized)")
    axes.set_ylabel("Candidate (tokenized)")
    scores = "precision {:.4f}   recall {:.4f}   F1 {:.4f}".format(*pair.scores)
    rescaled = "" if explanation.baseline is None else " (rescaled)"
    axes.set_title(f"Similarity Matrix\n{scores}{rescaled}")
    axes.figure.colorbar(image)
    if rows * columns > _MOST_NUMBERS:
        return
    for (row, column), value in np.ndenumerate(pair.similarities):
        color = "k" if value < 0.5 else "w"  # readable on light and on dark cells
        axes.text(column, row, f"{value:.3f}", ha="center", va="center", color=color)


def _tensor(values: npt.NDArray[np.float32]) -> Tensor:
    with torch.inference_mode(False):  # else it could not be changed, nor used with gradients
        return torch.from_numpy(values)


def score(
    cands: Sequence[str],
    refs: References,
    model_type: str | None = None,
    num_layers: int | None = None,
    verbose: bool = False,
    idf: bool | Mapping[int | None, float] = False,
    device: str | None = None,
    batch_size: int = 64,
    nthreads: int = 4,
    all_layers: bool = False,
    lang: str | None = None,
    return_hash: bool = False,
    rescale_with_baseline: bool = False,
    baseline_path: str | None = None,
    use_fast_tokenizer: bool = False,
) -> Triple | tuple[Triple, str]:
    """Score candidates with a model that is loaded for this call.

    The arguments are those of `BERTScorer`, and:
        idf: True counts the references of this call; a mapping gives the weight of each token id
            (an empty one counts as False).

    Returns:
        (P, R, F), or ((P, R, F), hash) with `return_hash`; see `BERTScorer.score`.

    Raises:
        ConfigError: the settings cannot be used; nothing was scored.
        InputError: the texts are not pairs.
    """
    scorer = BERTScorer(
        model_type=model_type,
        num_layers=num_layers,
        batch_size=batch_size,
        nthreads=nthreads,
        all_layers=all_layers,
        idf=bool(idf),
        device=device,
        lang=lang,
        rescale_with_baseline=rescale_with_baseline,
        baseline_path=baseline_path,
        use_fast_tokenizer=use_fast_tokenizer,
    )
    if idf and isinstance(idf, Mapping):  # an empty mapping is false, as in bert-score
        scorer._weights = TokenWeights.from_mapping(idf, num_ids=scorer._scorer.tokenizer.num_ids)
    elif idf:
        scorer.compute_idf(refs)
    return scorer.score(cands, refs, verbose, batch_size, return_hash)


def plot_example(
    candidate: str,
    reference: str,
    model_type: str | None = None,
    num_layers: int | None = None,
    lang: str | None = None,
    rescale_with_baseline: bool = False,
    baseline_path: str | None = None,
    use_fast_tokenizer: bool = False,
    fname: str = "",
) -> None:
    """Draw where the score of two texts comes from; see `BERTScorer.plot_example`."""
    BERTScorer(
        model_type=model_type,
        num_layers=num_layers,
        lang=lang,
        rescale_with_baseline=rescale_with_baseline,
        baseline_path=baseline_path,
        use_fast_tokenizer=use_fast_tokenizer,
    ).plot_example(candidate, reference, fname)


_REPLACED = "bert_score"


def replace_bert_score() -> ExitStack:
    """Let all code of this process that imports `bert_score` from now on get this module.

    Call it before that code is imported (`evaluate.load("bertscore")`): what has taken names of the
    real package keeps them. That package need not be installed.

    Returns:
        A context manager. Its end, or `close()`, puts back what was there before. Of several, the
        last one ends first.

    Examples:
        >>> with replace_bert_score():
        ...     import bert_score
        >>> bert_score.BERTScorer is BERTScorer
        True
    """
    before = _taken_out()
    sys.modules.update({_REPLACED: sys.modules[__name__], utils.__name__: utils})
    replaced = ExitStack()
    replaced.callback(sys.modules.update, before)
    replaced.callback(_taken_out)  # first, since callbacks are called from the last on
    return replaced


def _taken_out() -> dict[str, ModuleType]:
    """Take the package and all its modules out of those that are imported."""
    names = [name for name in sys.modules if name.partition(".")[0] == _REPLACED]
    return {name: sys.modules.pop(name) for name in names}


def _warn_of_empty(pairs: TokenizedPairs) -> None:
    """Print the warnings of bert-score, once each. It treats any text of two tokens as empty."""
    empty = pairs.texts.lengths == EMPTY_LENGTH
    for side, texts, word in (
        ("candidate", pairs.candidates, "BERTscores"),  # spelled so in bert-score
        ("reference", pairs.references, "BERTScores"),
    ):
        if np.any(empty[texts]):
            message = f"Warning: Empty {side} sentence detected; setting raw {word} to 0."
            print(message, file=sys.stderr)
