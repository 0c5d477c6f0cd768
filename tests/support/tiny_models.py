"""Tiny random encoders of every architecture, the same bytes wherever they are built.

tiny_families.yaml is the table of them, tiny_corpus.txt what their vocabularies are made from.

The golden scores were computed with the reference implementation on transformers 4 and are
compared with ours on transformers 5, so both sides must hold the same model without sharing a
file. Weights are therefore a pure function of (family, parameter name, shape): integers from a
hash, scaled by powers of two, which gives identical float32 values on every platform. They do not
depend on any library's initialisation or random generator.
"""

from __future__ import annotations

import copy
import hashlib
import math
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import transformers
import yaml
from safetensors.numpy import load_file, save_file
from transformers import CONFIG_MAPPING, AutoConfig, AutoModel

from tests.support.tiny_tokenizers import WRITERS, write_json

_TABLE = yaml.safe_load(Path(__file__).with_name("tiny_families.yaml").read_text(encoding="utf-8"))
FAMILIES: tuple[str, ...] = tuple(_TABLE["golden"])
"""The architectures that bert-score knows, with golden scores."""

MODERN: tuple[str, ...] = tuple(_TABLE["modern"])
"""Encoders that people use now and bert-score does not know."""

LAYERS, MAX_LENGTH = 3, 48

_TIED = {
    "encoder.embed_tokens.weight": "shared.weight",
    "decoder.embed_tokens.weight": "shared.weight",
    "encoder.word_embeddings.weight": "word_embeddings.weight",
    "decoder.word_embeddings.weight": "word_embeddings.weight",
}
"""Parameters that checkpoints leave out because they are the same as another one."""

_COMPUTED = ("position_ids", "token_type_ids", "embed_positions.weight_table")


def write_tokenizer(family: str, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Write the vocabulary of a family; return its config and tokenizer_config, to be changed."""
    row = copy.deepcopy({**_TABLE["golden"], **_TABLE["modern"]}[family])
    if "vocabulary" in row:
        WRITERS[row["vocabulary"].pop("kind")](folder, **row["vocabulary"])
    return row["config"], row["tokenizer"]


def lacks(family: str) -> str:
    """Say what this environment lacks to load a family; "" for nothing."""
    row = {**_TABLE["golden"], **_TABLE["modern"]}[family]
    kind = row["config"]["model_type"]
    if kind not in CONFIG_MAPPING:
        return f"transformers {transformers.__version__} does not know {kind}"
    if kind == "xlm" and find_spec("sacremoses") is None:
        return "sacremoses is not installed"
    if row.get("vocabulary", {}).get("kind") == "unigram":
        try:
            import_module("sentencepiece.sentencepiece_model_pb2")
        except Exception as error:  # protobuf's VersionError, by any of its names
            return f"sentencepiece and protobuf do not fit each other: {error}"
    return ""


def build_tiny_model(family: str, folder: Path) -> Path:
    """Write configuration, weights and tokenizer of one tiny encoder; return the folder.

    Note that the reference implementation loads an encoder as T5 if its path contains "t5", so give
    it a relative path there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config, tokenizer_config = write_tokenizer(family, folder)
    write_json(folder / "config.json", config)
    write_json(folder / "tokenizer_config.json", tokenizer_config)
    model: Any = AutoModel.from_config(AutoConfig.from_pretrained(folder))
    weights = {
        name: _values(family, name, tuple(tensor.shape))
        for name, tensor in model.state_dict().items()
        if not name.endswith(_COMPUTED) and _TIED.get(name) not in model.state_dict()
    }
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def weights_digest(folder: Path) -> str:
    """Digest of all weights: their names, shapes and float32 bytes, in the order of their names."""
    digest = hashlib.sha256()
    for name, values in sorted(load_file(folder / "model.safetensors").items()):
        digest.update(f"{name}{values.shape}".encode())
        digest.update(np.ascontiguousarray(values, dtype="<f4").tobytes())
    return digest.hexdigest()[:16]


def tokenizer_digest(folder: Path) -> str:
    """Digest of configuration and vocabulary files.

    Sentencepiece models are left out: their normalisation table is compiled by the installed
    sentencepiece, whose versions lay it out differently.
    """
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.suffix in (".json", ".txt", ".tokenizer"):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _uniform(family: str, name: str, count: int) -> np.ndarray:
    """Draw float32 values in [-1, 1), multiples of 2^-15, from a hash of the name."""
    seed = f"{family}/{name}".encode()
    data = hashlib.shake_256(seed).digest(2 * count)
    return np.frombuffer(data, dtype="<i2").astype(np.float32) / np.float32(2**15)


def _values(family: str, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Choose the values of one parameter, by its role.

    Norm weights lie near 1, so that a model's output is well scaled; token embeddings are wide and
    matrices keep the variance of what they multiply, so that cosines of different tokens spread
    from negative to high values and every layer moves them.
    """
    draw = _uniform(family, name, math.prod(shape)).reshape(shape)
    lower = name.lower()
    if "norm" in lower and len(shape) == 1:
        return 1 + draw / 8 if name.endswith("weight") else draw / 16
    if "position" in lower and len(shape) == 2:
        return draw / 2
    if "embed" in lower or "shared" in lower or "word_" in lower:
        return draw * 2 if len(shape) == 2 else draw / 16
    if len(shape) < 2:
        return draw / 8
    fan_in = math.prod(shape[1:])
    return draw * np.float32(2.0 ** round(1 - math.log2(fan_in) / 2))
