"""What a configuration (`scorer_config`) means with the files of its model: `Settings`."""

import logging
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any, cast

from bertscore_core.baseline import Baseline, find_baseline, read_baseline
from bertscore_core.errors import BaselineNotFoundError, ConfigError
from bertscore_core.idf import IdfTable
from bertscore_core.model.architectures import read_architecture
from bertscore_core.model.encoder import (
    check_openvino,
    choose_backend,
    choose_dtype,
    device_kind,
    resolve_device,
)
from bertscore_core.model.layers import check_layer
from bertscore_core.model.memory import Budget
from bertscore_core.model.openvino_runtime import openvino_version
from bertscore_core.model.packing import can_pack
from bertscore_core.model.resolve import ModelFiles, resolve_model
from bertscore_core.scorer_config import MaxLength, ScorerConfig, WorkerSettings
from bertscore_core.signature import ANY_BATCH, Signature
from bertscore_core.tokenizer.tokenization import TextTokenizer, load_tokenizer

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A configuration, and what the model's files decide of it. No weight is loaded.

    Attributes:
        config: The configuration with all of that decided, and the values of the baseline: other
            processes score by it in the same way.
        tokenizer: The model's, its truncation length and prefix space decided.
        hidden_size: Length of an embedding, H.
        packs: Whether texts are laid end to end, and not padded: on a GPU, for the architectures of
            `packing.POSITIONS`.
    """

    config: ScorerConfig
    files: ModelFiles
    tokenizer: TextTokenizer
    hidden_size: int
    packs: bool

    @property
    def num_layers(self) -> int:
        """Layer to score."""
        return cast("int", self.config.num_layers)

    @property
    def backend(self) -> str:
        """What runs the encoder: `torch` or `openvino`."""
        return self.config.backend

    @property
    def baseline(self) -> Baseline | None:
        """What to rescale with; None for raw scores."""
        return cast("Baseline | None", self.config.baseline)

    def budget(self) -> Budget:
        """Return the initial memory bounds. A scorer lowers its own if memory is too small."""
        return Budget.for_device(
            device_kind(self.config.device),
            self.config.max_batch_tokens,
            hidden_size=self.hidden_size,
        )

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
        batches = ("packed-" if self.packs else "") + self.budget().label
        is_exact = config.dtype == "float32"
        return Signature(
            model=self.files.name,
            weights=self.files.weights_digest(),
            num_layers="all" if config.all_layers else str(self.num_layers),
            layer_semantics=config.layer_semantics if config.all_layers else "cut",
            tokenizer=self.tokenizer.fingerprint,
            prefix_space="yes" if self.tokenizer.adds_prefix_space else "no",
            max_length="unlimited" if length is None else str(length),
            long_text=config.long_text,
            references=config.references,
            reasoning="stripped" if config.strip_reasoning else "kept",
            idf="none" if idf is None else idf.fingerprint,
            baseline="none" if baseline is None else f"{baseline.name}@{baseline.fingerprint}",
            empty=self.empty,
            dtype=config.dtype + ("" if is_exact or self.backend == "openvino" else "-true"),
            # In other formats scores depend on the batch by more than rounding in float32.
            batch_tokens=ANY_BATCH if is_exact else batches,
            attention=config.attention,
            backend=self.backend_version,
            version=version("bertscore-beam"),
            torch=version("torch").partition("+")[0],  # without the build, such as +cpu
            transformers=version("transformers"),
        )

    def for_workers(self) -> WorkerSettings:
        """Return what every worker needs to know. Reads the weight files."""
        return WorkerSettings(
            config=self.config,
            signature=self.signature(),
            tokenizer=self.tokenizer.fingerprint,
            max_length=self.tokenizer.max_length,
            weight_bytes=self.files.loaded_bytes(),
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
    config = with_dtype(config, files)
    architecture = read_architecture(files, trust_remote_code=config.trust_remote_code)
    num_layers = _settle_layer(config.num_layers, files, all_layers=config.all_layers)
    tokenizer = _settle_tokenizer(config, files)
    backend = _settle_backend(config, files, tokenizer)
    config = replace(config, num_layers=num_layers, backend=backend)
    settings = Settings(
        config=config,
        files=files,
        tokenizer=tokenizer,
        hidden_size=int(architecture.hidden_size),
        packs=_settle_packing(config, files, architecture),
    )
    return share_model(settings, config)


def share_model(settings: Settings, config: ScorerConfig) -> Settings:
    """Return settings with the language and the baseline of a configuration.

    Both must be equal in all else (`model_part`).

    Raises:
        BaselineNotFoundError: there is nothing to rescale with.
        ConfigError: the baseline was made with another model, or has too few rows.
    """
    files, own = settings.files, settings.config
    baseline = _settle_baseline(config, files)
    if baseline is not None:  # fails if the table has too few rows
        baseline.row(files.depth if config.all_layers else settings.num_layers)
    # The digest reads all weights, perhaps gigabytes, so only if there is one to compare it with.
    if baseline is not None and baseline.made_with is not None:
        baseline.check_model(files.weights_digest())
    decided = {name: getattr(own, name) for name in ("num_layers", "dtype", "backend")}
    return replace(settings, config=replace(config, **decided, baseline=baseline))


def with_dtype(config: ScorerConfig, files: ModelFiles) -> ScorerConfig:
    """Return a configuration with the number format that `auto` stands for."""
    if config.dtype != "auto":
        return config
    return replace(config, dtype=choose_dtype(files.model_type, config.device))


def settle_tokenizer(config: ScorerConfig) -> TextTokenizer:
    """Find and check the tokenizer alone. Counting idf needs no layer and no backend."""
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
    _check_positions(config.max_length, files)
    return load_tokenizer(
        files,
        max_length=config.max_length,
        adds_prefix_space=config.adds_prefix_space,
        trust_remote_code=config.trust_remote_code,
        fast=config.fast_tokenizer,
        in_windows=config.long_text == "windows",
    )


def _settle_backend(config: ScorerConfig, files: ModelFiles, tokenizer: TextTokenizer) -> str:
    if config.backend == "auto":
        return choose_backend(files, config, tokenizer.longest_input)
    if config.backend == "openvino":
        check_openvino(config.dtype, resolve_device(config.device))
    return config.backend


def _settle_packing(config: ScorerConfig, files: ModelFiles, architecture: Any) -> bool:
    # Not on a CPU: with torch it took 5% longer there.
    own_code = config.trust_remote_code and files.has_own_code
    return (
        config.backend == "torch"
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
        path, language = str(config.baseline), config.language
        return read_baseline(path, language, lambda: files.name, idf=config.idf)
    # Published baselines are only of models in the registry, so a folder cannot have one.
    if config.language is not None and files.spec is None:
        raise BaselineNotFoundError(
            f"no baseline is published for {files.name}, which is not in the registry; expected a "
            "table of its own. Give a LAYER,P,R,F table as baseline, or score without rescaling."
        )
    if config.language is None:
        raise BaselineNotFoundError(
            "rescaling needs a language or a baseline: got neither. Give the language, such as en, "
            "or a LAYER,P,R,F table as baseline (--baseline PATH)."
        )
    return find_baseline(config.language, files.name)


# Checks of what is asked for against what a model has: positions and layers.


def _check_positions(max_length: MaxLength, files: ModelFiles) -> None:
    # Else the encoder would fail at the first long text, perhaps hours into a run.
    positions = files.positions
    if positions is None:
        return
    if max_length == "unlimited":
        raise ConfigError(
            f"max_length unlimited cannot be used with {files.name}, whose encoder has positions "
            f"for {positions} tokens and none beyond; expected a number up to that. Leave "
            "max_length out to cut texts, add long_text windows (--long-text windows) to score "
            "all of them, or choose a model that compares positions, such as T5, XLNet or DeBERTa."
        )
    if isinstance(max_length, int) and max_length > positions:
        raise ConfigError(
            f"max_length {max_length} is more than {files.name} has positions for; expected "
            f"at most {positions}."
        )


def _settle_layer(num_layers: int | None, files: ModelFiles, *, all_layers: bool) -> int:
    known = files.spec.num_layers if files.spec is not None else None
    num_layers = known if num_layers is None else num_layers
    if num_layers is not None:
        check_layer(num_layers, files.depth, files.name)
        return num_layers
    if all_layers:
        return files.depth
    state = "no layer is known for" if files.spec is None else "no layer has been tuned for"
    raise ConfigError(
        f"{state} {files.name}: got no num_layers; expected 0 (the embeddings) to {files.depth}. "
        "Find the one that agrees best with people (on judged texts: `bertscore-beam tune "
        f"--judgements FILE --score-column NAME --models {files.name} --registry layers.json "
        "--output tuned`) and give its file as registry (--registry), or give num_layers "
        f"(--num-layers). For a first try take {files.depth * 2 // 3}, two thirds of the depth, "
        "which often does well but was not checked for this model."
    )
