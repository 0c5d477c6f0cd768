"""Encoders that tests share, since loading and compiling one takes seconds; and a hub cache."""

import shutil
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from bertscore_core.model.encoder import Encoder, load_encoder
from bertscore_core.model.resolve import ModelFiles
from bertscore_core.scorer_config import ScorerConfig
from bertscore_core.tokenizer.tokenization import TextTokenizer, load_tokenizer

_MOST = 64
_MATTER = (
    "num_layers", "all_layers", "layer_semantics", "dtype", "device", "attention", "backend",
    "trust_remote_code",
)  # fmt: skip
"""What of a configuration an encoder depends on."""
_encoders: OrderedDict[Any, tuple[Encoder, Any]] = OrderedDict()


def shared_encoder(
    files: ModelFiles, config: ScorerConfig, *, packs: bool = False, longest: int | None = None
) -> Encoder:
    """Do what `load_encoder` does, once for the same arguments.

    The one that was not used for longest is dropped when there are too many.

    Raises:
        AssertionError: A test has changed the encoder, and another one would score with that.
    """
    if config.backend != "openvino":  # torch does not look at it
        config, longest = replace(config, backend="torch"), None
    facts = [getattr(config, name) for name in _MATTER]
    key = (_stamps(files), *facts, packs, longest, torch.get_num_threads())
    if key not in _encoders:
        made = load_encoder(files, config, packs=packs, longest=longest)
        _encoders[key] = made, _state(made)
        if len(_encoders) > _MOST:
            _encoders.popitem(last=False)
    _encoders.move_to_end(key)
    encoder, state = _encoders[key]
    assert _state(encoder) == state, f"a test has changed the encoder of {files.name}"
    return encoder


def _state(encoder: Encoder) -> Any:
    """Return what changes when a module of a torch model, or one of its weights, does."""
    model = encoder.model
    if model is None:
        return None
    weights = [(weight.data_ptr(), weight.dtype, weight._version) for weight in model.parameters()]
    return [id(module) for module in model.modules()], weights


_tokenizers: dict[Any, TextTokenizer] = {}


def shared_tokenizer(files: ModelFiles, **options: Any) -> TextTokenizer:
    """Do what `load_tokenizer` does, once for the same files and options."""
    key = (_stamps(files), files.name, *sorted(options.items()))
    if key not in _tokenizers:
        _tokenizers[key] = load_tokenizer(files, **options)
    return _tokenizers[key]


def _stamps(files: ModelFiles) -> tuple[tuple[Path, int, int], ...]:
    """Return what changes when a file of a model does."""
    paths = (*files.weight_files, *sorted(files.folder.iterdir()))
    return tuple((path, path.stat().st_mtime_ns, path.stat().st_size) for path in paths)


def cache_model(folder: Path, name: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a model into a hub cache of its own, as after a download; return the snapshot.

    This process uses that cache, offline, until `monkeypatch` undoes it.
    """
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(root))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    place = root / f"models--{name.replace('/', '--')}"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text("abc")
    return shutil.copytree(folder, place / "snapshots" / "abc")
