"""Checks of what is asked for against what a model has: positions and layers."""

from bertscore_core.errors import ConfigError
from bertscore_core.layers import check_layer
from bertscore_core.resolve import ModelFiles
from bertscore_core.scorer_config import MaxLength


def check_positions(max_length: MaxLength, files: ModelFiles) -> None:
    """Check that the encoder has a position for every token of the longest text asked for.

    Args:
        max_length: Tokens of the longest text, as asked for.
        files: The model's files.

    Raises:
        ConfigError: it has not.
    """
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


def settle_layer(num_layers: int | None, files: ModelFiles, *, all_layers: bool) -> int:
    """Return the layer to score.

    Args:
        num_layers: The layer asked for; None for that of the registry.
        files: The model's files.
        all_layers: Whether every layer is scored.

    Raises:
        ConfigError: it does not exist, or none is known for the model.
    """
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
        "Find the one that agrees best with people (`bertscore-beam tune` on judged texts) and "
        "give its file (--registry), or give a layer (--num-layers; num_layers in the library). "
        f"For a first try take {files.depth * 2 // 3}, two thirds of the depth, which often does "
        "well but was not checked for this model."
    )
