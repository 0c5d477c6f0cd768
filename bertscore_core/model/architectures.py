"""What a model's configuration says about its architecture, before any weight is loaded."""

import logging
from typing import Any

import transformers

from bertscore_core.errors import ModelLoadError
from bertscore_core.model.resolve import ModelFiles

logger = logging.getLogger(__name__)

# Numbers under the names of GPT-2's configuration, which own code of encoders often takes over, and
# the attributes that hold them.
_SIZES = {
    "n_embd": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "n_inner": "intermediate_size",
    "layer_norm_epsilon": "layer_norm_eps",
}

# Listed by transformers as writers of text, not as fillers of gaps, though they read both ways.
_READ_BOTH_WAYS = {"xlnet", "bert-generation"}

_warned: set[str] = set()


def read_architecture(files: ModelFiles, *, trust_remote_code: bool = False) -> Any:
    """Read the configuration of an encoder; no weight is loaded.

    Logs a warning if the model reads texts from left to right.

    Raises:
        ModelLoadError: transformers does not know the architecture, or only by code that comes
            with the model and may not run; or it is not a text encoder; or it takes the sizes that
            the configuration states under other names.
    """
    # A known architecture runs transformers' own code, unless the user trusts that of the model.
    known = files.model_type in transformers.CONFIG_MAPPING
    if files.has_own_code and not known and not trust_remote_code:
        raise own_code_error(
            files, f"model_type {files.model_type!r}; expected an architecture that it knows"
        )
    try:
        architecture = transformers.AutoConfig.from_pretrained(
            files.folder, local_files_only=True, trust_remote_code=trust_remote_code
        )
    except Exception as error:
        raise ModelLoadError(
            f"the configuration of {files.name} cannot be loaded from {files.folder}: {error}"
        ) from error
    if not isinstance(getattr(architecture, "hidden_size", None), int):
        raise ModelLoadError(
            f"{files.name} is not a text encoder: got model_type {files.model_type!r}, which has "
            "no hidden_size of its own but several models in one, such as one for images beside "
            "one for text; expected one encoder, or an encoder-decoder. Choose another model, or "
            "save its text encoder in a folder of its own and give that."
        )
    if not (files.has_own_code and trust_remote_code):
        _check_sizes(files, architecture)
    if reads_left_to_right(architecture) and files.name not in _warned:
        _warned.add(files.name)  # once a process
        logger.warning(
            "%s reads texts from left to right: a token's vector knows only the tokens before it. "
            "BERTScore was made for encoders that read both ways.%s",
            files.name,
            " The code that comes with it, which may read otherwise, was not run."
            if files.has_own_code and not trust_remote_code
            else "",
        )
    return architecture


def own_code_error(files: ModelFiles, problem: str) -> ModelLoadError:
    """Make the error for a model that needs code of its own."""
    note = files.spec.note if files.spec is not None and files.spec.own_code else ""
    return ModelLoadError(
        f"{files.name} comes with code of its own, of which nothing was run, and transformers "
        f"cannot load it without: got {problem}. "
        + (f"Registry: {note}. " if note else "")
        + "Choose another model; or read that code, and allow it by name in the library "
        "(trust_remote_code=True). The job never runs such code."
    )


def reads_left_to_right(architecture: Any) -> bool:
    """Tell whether a token's vector depends on earlier tokens only, as in a decoder."""
    if getattr(architecture, "is_encoder_decoder", False):
        return False  # its encoder is used
    if getattr(architecture, "is_decoder", False):
        return True
    kind = type(architecture)
    # EmbeddingGemma has the architecture of a decoder, and this switch.
    both_ways = getattr(architecture, "use_bidirectional_attention", None) in (True, "all")
    return (
        kind in transformers.MODEL_FOR_CAUSAL_LM_MAPPING
        and kind not in transformers.MODEL_FOR_MASKED_LM_MAPPING
        and architecture.model_type not in _READ_BOTH_WAYS
        and not both_ways
    )


def has_local_layers(architecture: Any) -> bool:
    """Tell whether some layers let a token see only the tokens near it, as in ModernBERT."""
    return "sliding_attention" in (getattr(architecture, "layer_types", None) or ())


def _check_sizes(files: ModelFiles, architecture: Any) -> None:
    """Refuse sizes stated under names of other code that would not be used.

    Nomic's files state `n_embd`, for example, while transformers' architecture of that name reads
    `hidden_size` and would take a default.
    """
    stated = {_SIZES[name]: files.config[name] for name in _SIZES if files.config.get(name)}
    used: dict[str, Any] = {name: getattr(architecture, name, None) for name in stated}
    if files.config.get("rotary_emb_base"):
        parameters = getattr(architecture, "rope_parameters", None) or {}
        stated["rope_theta"] = files.config["rotary_emb_base"]
        used["rope_theta"] = parameters.get("rope_theta")
    for name, value in stated.items():
        if used[name] is not None and used[name] != value:
            raise ModelLoadError(
                f"{files.name} states a number under a name that transformers' "
                f"{files.model_type!r} does not read: got {name} {value} in config.json; expected "
                f"{used[name]}, which would be used instead. Give a checkpoint in the form of "
                "transformers; or, if the model comes with code, read it and allow it by name in "
                "the library (trust_remote_code=True)."
            )
