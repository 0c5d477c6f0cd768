"""How to score: as the user asks for it, `ScorerConfig`; as all workers do it, `WorkerSettings`.

Neither torch nor transformers is needed for it: a process that plans a job need not load them.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Literal

from bertscore_core.baseline import Baseline
from bertscore_core.empty_texts import EMPTY_RULES
from bertscore_core.errors import ConfigError, InputError
from bertscore_core.registry import EMBEDDED_MODEL, model_for_language
from bertscore_core.signature import Signature
from bertscore_core.tokens import REFERENCE_RULES, FloatArray
from bertscore_core.windows import LONG_TEXT_RULES

# The same order of sums for any number of threads, in torch's products on x86 CPUs.

MKL_VARIABLE = "MKL_CBWR"
"""Variable that MKL, torch's library for products on x86, reads at its first product."""

MKL_VALUE = "AUTO,STRICT"
"""This processor's own code, with an order of sums that does not depend on the threads. MKL keeps
it for products of two matrices, and not for batches of them."""

# At import, not when a scorer is made: it has no effect after torch's first product in the process.
# Without it products differed by 3.6e-7 on an Intel Xeon with AMX. A value of the user's own is
# kept. Processors with other instructions may still round the last bit differently. See
# "Conditional numerical reproducibility" in the developer guide of Intel's oneMKL.
os.environ.setdefault(MKL_VARIABLE, MKL_VALUE)

_BACKENDS = ("torch", "openvino")
"""What can run the encoder."""

_CHOICES = {
    "dtype": ("auto", "float32", "bfloat16", "float16"),  # and the keys of `encoder.DTYPES`
    "layer_semantics": ("hidden", "cut"),
    "long_text": LONG_TEXT_RULES,
    "backend": ("auto", *_BACKENDS),
    "attention": ("auto", "sdpa"),
    "references": REFERENCE_RULES,
    "empty": (None, *EMPTY_RULES),
}

_NUMBERS: Mapping[str, Sequence[str]] = {
    "num_layers": (),
    "max_length": ("unlimited", "reference"),
    "max_batch_tokens": (),
    "num_threads": (),
}
"""Fields that are whole numbers, with the words that may stand there instead."""

MaxLength = int | Literal["unlimited", "reference"] | None
"""Tokens a text is cut to, special ones included. None: the tokenizer's own, which must exist;
`unlimited`: no cut; `reference`: the tokenizer's own, and no cut where it states none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerConfig:
    """How to score; every field has the default most people want.

    Attributes:
        model: Registry name, hub id, or folder. None: the language's default model, or the embedded
            default when there is no language either.
        num_layers: Layer whose output is compared. None: the registry's, tuned on WMT16; an error
            if it has none.
        language: Language code; chooses the model and the published baseline.
        idf: Weigh tokens by inverse document frequency. The table is given to `score`, or counted
            from the references of each call.
        rescale: Rescale so that random pairs score about 0.
        baseline: A `LAYER,P,R,F` table to rescale with, as a path or as a `Baseline`; or the path
            of a folder of tables, laid out as LANGUAGE/MODEL.tsv. None: the published one for the
            language and model.
        max_length: Tokens a text is cut to, special ones included; `unlimited`; `reference` for the
            tokenizer's own limit if it has one. None: the tokenizer's own limit.
        long_text: What is done with a text longer than that: `truncate` cuts it; `error` gives its
            pair no scores; `windows` scores all of it, with vectors from overlapping windows of
            `max_length` tokens. See `bertscore_core.tokens`.
        references: What several references give: `best`, the best of each measure, as in
            bert-score; or `mean`, the mean over those with which the candidate has a score.
        strip_reasoning: Take the reasoning of a model off its candidates (`without_reasoning`). One
            of which nothing is left is empty here; in the job and in `ScorePairs` it has no score.
        adds_prefix_space: Put a space before every text. None: as bert-score does.
        empty: What a pair with an empty side scores: `reference` for what bert-score gives it,
            `zero`, or `null` for no score. None: `reference` here, and `zero` in the job and in
            `ScorePairs`. See `bertscore_core.tokens`.
        fast_tokenizer: Make the token ids of transformers 4's fast tokenizer, not of its slow one,
            as bert-score does with `use_fast_tokenizer=True`.
        dtype: Number format of the encoder: `float32`, `bfloat16` or `float16`; or `auto`:
            float32 on a CPU; on a GPU float16 where the model's numbers fit, else bfloat16, or
            float32 if the GPU lacks bfloat16. Tokens are matched in float32.
        device: `auto`, `cpu`, `cuda`, `cuda:N`.
        attention: `auto`, or `sdpa` to pad the texts of a batch on a GPU too.
        backend: What runs the encoder: `torch`, `openvino` (CPU only, an extra), or `auto` for
            OpenVINO on CPUs and architectures where it is known to fit, and torch elsewhere.
        max_batch_tokens: Padded tokens of a forward pass. None: chosen by the kind of device and
            the width of the model, never by the memory that is free. In bfloat16 and float16 it is
            part of the signature.
        all_layers: Score every layer in one pass.
        layer_semantics: What the rows of all layers are: `hidden`, the hidden states, as in
            bert-score's all_layers, or `cut`, what scoring each layer alone gives. They differ if
            a norm follows the last layer (T5, mBART, Pegasus, ModernBERT). A single layer is
            always `cut`.
        num_threads: Threads the encoder may use on a CPU. None: torch's own choice. In a fork of a
            process that has loaded a model it is 1. In float32 it moves at most the last bit, if
            this package was imported before torch's first product.
        revision: Branch, tag or commit on the hub.
        allow_pickle_weights: Whether `.bin` weights may be read, which can run code.
        trust_remote_code: Whether code that comes with the model may run.
    """

    model: str | None = None
    num_layers: int | None = None
    language: str | None = None
    idf: bool = False
    rescale: bool = False
    baseline: str | Baseline | None = None
    max_length: MaxLength = None
    long_text: str = "truncate"
    references: str = "best"
    strip_reasoning: bool = False
    adds_prefix_space: bool | None = None
    empty: str | None = None
    fast_tokenizer: bool = False
    dtype: str = "float32"
    device: str = "auto"
    attention: str = "auto"
    backend: str = "auto"
    max_batch_tokens: int | None = None
    all_layers: bool = False
    layer_semantics: str = "hidden"
    num_threads: int | None = None
    revision: str | None = None
    allow_pickle_weights: bool = False
    trust_remote_code: bool = False

    def __post_init__(self) -> None:
        check_model_name(self.model)
        for name, words in _NUMBERS.items():
            value = getattr(self, name)
            if value is not None and not (isinstance(value, str) and value in words):
                object.__setattr__(self, name, _as_int(name, value, words))
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if not isinstance(value, str | None) or value not in choices:
                expected = ", ".join(choice for choice in choices if choice is not None)
                raise ConfigError(
                    f"unknown {name}: got {value!r}; expected one of {expected}. Leave it out for "
                    "the default."
                )
        if self.long_text != "truncate" and self.max_length == "unlimited":
            raise ConfigError(
                f"long_text {self.long_text} has no effect with max_length unlimited, under which "
                "no text is too long; expected one of the two. Leave one out (--long-text, "
                "--max-length)."
            )
        if self.baseline is not None and not self.rescale:
            raise ConfigError("a baseline was given without rescale; set rescale, or leave it out.")
        for name in ("max_batch_tokens", "num_threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(
                    f"{name} is {value}; expected at least 1. Leave it out for the default."
                )

    @property
    def model_name(self) -> str:
        """The name given, or the default model of the language."""
        if self.model is not None:
            return self.model
        return EMBEDDED_MODEL if self.language is None else model_for_language(self.language)


def _as_int(name: str, value: object, words: Sequence[str]) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):  # numpy has others than int
        raise ConfigError(
            f"{name} cannot be used: got {value!r}; expected "
            f"{' or '.join(('a whole number', *words))}. Leave it out for the default."
        )
    return int(value)


def as_config(config: ScorerConfig | str | None) -> ScorerConfig:
    """Turn the name of a model, or None, into a configuration."""
    return config if isinstance(config, ScorerConfig) else ScorerConfig(model=config)


def check_model_name(model: object) -> None:
    """Check that a model is given by its name, or not at all.

    Raises:
        InputError: it is something else, such as a loaded model.
    """
    if not (model is None or isinstance(model, str | os.PathLike)):
        raise InputError(
            f"the model is a {type(model).__name__}; expected its name or the path of its folder, "
            "as a text. Save a loaded model and its tokenizer to a folder (save_pretrained)."
        )


def model_part(config: ScorerConfig) -> ScorerConfig:
    """Return a configuration without its language and baseline: what a loaded model depends on."""
    return replace(config, model=config.model_name, language=None, rescale=False, baseline=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """The tokens of some rows, on any worker.

    Attributes:
        config: Names the tokenizer and its truncation.
        tokenizer: The tokenizer's fingerprint.
        max_length: Most tokens of a text; longer texts are cut. None for no limit.
    """

    config: ScorerConfig
    tokenizer: str
    max_length: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings(Vocabulary):
    """How some rows are scored, on any worker: see `Settings.for_workers`.

    Nothing of the configuration is left to the machine.

    Attributes:
        signature: How the scores are made, without the fingerprint of a counted idf table.
        weight_bytes: Bytes of its model's weights when it is loaded.
    """

    signature: Signature
    weight_bytes: int

    @property
    def baseline(self) -> FloatArray | None:
        """Precision, recall and F1 that raw scores are rescaled with; None for none. Shape (3,)."""
        table = self.config.baseline
        return table.row(int(self.signature.num_layers)) if isinstance(table, Baseline) else None

    @property
    def label(self) -> str:
        """Digest of the signature: 16 hexadecimal digits."""
        name = self.signature.format().encode("utf-8", "surrogateescape")
        return hashlib.sha256(name).hexdigest()[:16]

    def final_signature(self, idf: str | None) -> Signature:
        """Return the signature with the fingerprint of the idf table, or tables, of its rows."""
        return self.signature if idf is None else replace(self.signature, idf=idf)
