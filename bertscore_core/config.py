"""How to score: what the user asks for (`ScorerConfig`) and what that means here (`Settings`)."""

import logging
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bertscore_core.architectures import read_architecture
from bertscore_core.baseline import Baseline, find_baseline
from bertscore_core.baseline_files import read_baseline
from bertscore_core.empty_texts import EMPTY_RULES
from bertscore_core.encoder import (
    BACKENDS,
    EncoderOptions,
    check_backend,
    choose_backend,
    device_kind,
    resolve_device,
)
from bertscore_core.errors import BaselineNotFoundError, ConfigError
from bertscore_core.idf import IdfTable
from bertscore_core.layers import check_semantics
from bertscore_core.memory import Budget
from bertscore_core.model_checks import check_positions, settle_layer
from bertscore_core.openvino_runtime import openvino_version
from bertscore_core.packing import can_pack
from bertscore_core.precision import check_computes, check_dtype
from bertscore_core.registry import EMBEDDED_MODEL, model_for_language
from bertscore_core.resolve import ModelFiles, resolve_model
from bertscore_core.signature import ANY_BATCH, Signature
from bertscore_core.tokenization import MaxLength, TextTokenizer, load_tokenizer
from bertscore_core.windows import check_long_text

logger = logging.getLogger(__name__)


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
            `max_length` tokens. See `bertscore_core.windows`.
        adds_prefix_space: Put a space before every text. None: as bert-score does.
        empty: What a pair with an empty side scores: `reference` for what bert-score gives it,
            `zero`, or `null` for no score. None: `reference` here, and `zero` in the job and in
            `ScorePairs`. See `bertscore_core.empty_texts`.
        fast_tokenizer: Make the token ids of transformers 4's fast tokenizer, not of its slow one,
            as bert-score does with `use_fast_tokenizer=True`.
        dtype: Number format of the encoder's matrix products: `float32`, `bfloat16`, `float16`, or
            `tf32` (GPUs only: float32, of which 11 significant bits are multiplied). Everything
            else is in float32.
        device: `auto`, `cpu`, `cuda`, `cuda:N`.
        attention: Attention implementation, by transformers' names, or `auto`.
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
        num_threads: Threads the encoder may use on a CPU. None: torch's own choice. In float32 it
            changes no bit, if this package was imported before torch's first product.
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
        """Refuse values and combinations that are wrong for every model."""
        check_dtype(self.dtype)
        check_semantics(self.layer_semantics)
        check_long_text(self.long_text, self.max_length)
        if self.backend not in ("auto", *BACKENDS):
            raise ConfigError(
                f"unknown backend {self.backend!r}; expected auto, {', '.join(BACKENDS)}."
            )
        if self.empty not in (None, *EMPTY_RULES):
            raise ConfigError(
                f"unknown empty {self.empty!r}; expected one of {', '.join(EMPTY_RULES)}."
            )
        if self.baseline is not None and not self.rescale:
            raise ConfigError("a baseline was given without rescale; set rescale, or leave it out.")
        for name in ("max_batch_tokens", "num_threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} is {value}; expected at least 1.")

    @property
    def model_name(self) -> str:
        """The name given, or the default model of the language."""
        if self.model is not None:
            return self.model
        return EMBEDDED_MODEL if self.language is None else model_for_language(self.language)


def as_config(config: ScorerConfig | str | None) -> ScorerConfig:
    """Turn the name of a model, or None, into a configuration."""
    return ScorerConfig(model=config) if isinstance(config, str) else config or ScorerConfig()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A configuration, and what the model's files decide of it. No weight is loaded.

    Attributes:
        config: What was asked for.
        files: The model's files.
        tokenizer: Its tokenizer, truncation length and prefix space decided.
        num_layers: Layer to score.
        baseline: What to rescale with, or None.
        backend: What runs the encoder: `torch` or `openvino`.
        hidden_size: Length of an embedding, H.
        packs: Whether texts are laid end to end, and not padded: on a GPU, for the architectures of
            `packing.POSITIONS`.
    """

    config: ScorerConfig
    files: ModelFiles
    tokenizer: TextTokenizer
    num_layers: int
    baseline: Baseline | None
    backend: str
    hidden_size: int
    packs: bool

    @property
    def encoder_options(self) -> EncoderOptions:
        """How the encoder is to be loaded."""
        config = self.config
        return EncoderOptions(
            num_layers=self.num_layers,
            all_layers=config.all_layers,
            layer_semantics=config.layer_semantics,
            dtype=config.dtype,
            device=config.device,
            attention=config.attention,
            packs=self.packs,
            backend=self.backend,
            num_threads=config.num_threads,
            max_length=self.tokenizer.longest_input,
            trust_remote_code=config.trust_remote_code,
        )

    def budget(self) -> Budget:
        """Return the initial memory bounds. A scorer lowers its own if memory is too small."""
        return Budget.for_device(
            device_kind(self.config.device),
            self.config.max_batch_tokens,
            hidden_size=self.hidden_size,
        )

    @property
    def _batches(self) -> str:
        """The batches, as the signature names them."""
        return ("packed-" if self.packs else "") + self.budget().label

    @property
    def empty(self) -> str:
        """What a pair with an empty side scores: one of `EMPTY_RULES`."""
        return self.config.empty or "reference"

    @property
    def backend_version(self) -> str:
        """What runs the encoder, with its version unless the signature has a field for it."""
        return self.backend if self.backend == "torch" else f"openvino-{openvino_version()}"

    def signature(self, idf: IdfTable | None = None) -> Signature:
        """Return the signature of scores made with these settings. Reads the weight files."""
        config, baseline = self.config, self.baseline
        length = self.tokenizer.longest_input
        return Signature(
            model=self.files.name,
            weights=self.files.weights_digest(),
            num_layers="all" if config.all_layers else str(self.num_layers),
            layer_semantics=config.layer_semantics if config.all_layers else "cut",
            tokenizer=self.tokenizer.fingerprint,
            prefix_space="yes" if self.tokenizer.adds_prefix_space else "no",
            max_length="unlimited" if length is None else str(length),
            long_text=config.long_text,
            idf="none" if idf is None else idf.fingerprint,
            baseline="none" if baseline is None else f"{baseline.name}@{baseline.fingerprint}",
            empty=self.empty,
            dtype=config.dtype,
            # In other formats scores depend on the batch by more than rounding in float32.
            batch_tokens=ANY_BATCH if config.dtype == "float32" else self._batches,
            attention=config.attention,
            backend=self.backend_version,
            version=version("bertscore-beam"),
            torch=version("torch").partition("+")[0],  # without the build, such as +cpu
            transformers=version("transformers"),
        )


def settle(config: ScorerConfig) -> Settings:
    """Find and check everything a configuration names, without loading the encoder.

    Raises:
        UnknownModelError: the model cannot be found.
        UnknownLanguageError: the language has no default model.
        BaselineNotFoundError: there is nothing to rescale with.
        ConfigError: the layer does not exist or is not known for this model, no maximum length is
            known, the backend cannot run this, or the baseline was made with another model.
        ModelLoadError: the model's files cannot be used, or its architecture is not known.
    """
    files = _settle_files(config)
    architecture = read_architecture(files, trust_remote_code=config.trust_remote_code)
    num_layers = settle_layer(config.num_layers, files, all_layers=config.all_layers)
    tokenizer = _settle_tokenizer(config, files)
    backend = _settle_backend(config, files, tokenizer)
    settings = Settings(
        config=config,
        files=files,
        tokenizer=tokenizer,
        num_layers=num_layers,
        baseline=None,
        backend=backend,
        hidden_size=int(architecture.hidden_size),
        packs=_settle_packing(config, files, architecture, backend),
    )
    return _with_baseline(settings, config)


def share_model(settings: Settings, config: ScorerConfig) -> Settings:
    """Settle a configuration that has the model of settled ones, and another language or baseline.

    Raises:
        BaselineNotFoundError: there is nothing to rescale with.
        ConfigError: the configuration differs in more, or its baseline cannot be used.
    """
    if not has_same_model(settings.config, config):
        raise ConfigError(
            f"{config.model_name} cannot be scored with the encoder of {settings.files.name}: got "
            "a configuration that differs in more than language and baseline; expected the rest to "
            "be equal. Load it by itself."
        )
    return _with_baseline(settings, config)


def has_same_model(one: ScorerConfig, other: ScorerConfig) -> bool:
    """Tell whether two configurations differ in nothing but language and baseline."""
    return model_part(one) == model_part(other)


def model_part(config: ScorerConfig) -> ScorerConfig:
    """Return a configuration without its language and baseline: what a loaded model depends on."""
    return replace(config, model=config.model_name, language=None, rescale=False, baseline=None)


def _with_baseline(settings: Settings, config: ScorerConfig) -> Settings:
    files = settings.files
    baseline = _settle_baseline(config, files)
    if baseline is not None:  # fails if the table has too few rows
        baseline.row(files.depth if config.all_layers else settings.num_layers)
    # The digest reads all weights, perhaps gigabytes, so only if there is one to compare it with.
    if baseline is not None and baseline.made_with is not None:
        baseline.check_model(files.weights_digest())
    return replace(settings, config=config, baseline=baseline)


def settle_tokenizer(config: ScorerConfig) -> TextTokenizer:
    """Find and check the tokenizer alone. Counting idf needs no layer and no backend.

    Raises:
        UnknownModelError: the model cannot be found.
        UnknownLanguageError: the language has no default model.
        ConfigError: no maximum length is known, or it is more than the encoder has positions for.
        ModelLoadError: the tokenizer's files cannot be used, or the architecture is not known.
    """
    files = _settle_files(config)
    read_architecture(files, trust_remote_code=config.trust_remote_code)
    return _settle_tokenizer(config, files)


def _settle_files(config: ScorerConfig) -> ModelFiles:
    return resolve_model(
        config.model_name,
        revision=config.revision,
        allow_pickle_weights=config.allow_pickle_weights,
    )


def _settle_tokenizer(config: ScorerConfig, files: ModelFiles) -> TextTokenizer:
    check_positions(config.max_length, files)
    return load_tokenizer(
        files,
        max_length=config.max_length,
        adds_prefix_space=config.adds_prefix_space,
        trust_remote_code=config.trust_remote_code,
        fast=config.fast_tokenizer,
        in_windows=config.long_text == "windows",
    )


def _settle_backend(config: ScorerConfig, files: ModelFiles, tokenizer: TextTokenizer) -> str:
    check_computes(config.dtype, device_kind(config.device))
    if config.backend == "auto":
        return choose_backend(
            files,
            dtype=config.dtype,
            device=config.device,
            max_length=tokenizer.longest_input,
            own_code=config.trust_remote_code,
        )
    if config.backend != "torch":
        check_backend(config.backend, dtype=config.dtype, device=resolve_device(config.device))
    return config.backend


def _settle_packing(
    config: ScorerConfig, files: ModelFiles, architecture: Any, backend: str
) -> bool:
    """Tell whether texts are laid end to end. The device may be missing on this machine.

    On a CPU it does not pay: with torch it took 5% longer.
    """
    own_code = config.trust_remote_code and "auto_map" in files.config
    return (
        backend == "torch"
        and config.attention == "auto"
        and device_kind(config.device).type == "cuda"
        and can_pack(architecture, own_code=own_code)
    )


def _settle_baseline(config: ScorerConfig, files: ModelFiles) -> Baseline | None:
    if not config.rescale:
        return None
    if isinstance(config.baseline, Baseline):
        config.baseline.check_values()
        return config.baseline
    if config.baseline is not None:
        return read_baseline(Path(config.baseline), config.language, files.name, idf=config.idf)
    # Published baselines are only of models in the registry, so a folder cannot have one.
    if config.language is not None and files.spec is None:
        raise BaselineNotFoundError(
            f"no baseline is published for {files.name}, which is not in the registry; expected a "
            "table of its own. Give a LAYER,P,R,F table as baseline, or score without rescaling."
        )
    if config.language is None:
        raise BaselineNotFoundError(
            "rescaling needs a language or a baseline: got neither. Give the language (--lang en), "
            "or a LAYER,P,R,F table (--baseline PATH)."
        )
    return find_baseline(config.language, files.name)
