"""The models that benchmarks run: the embedded one, and random ones of well-known shapes.

Random weights cost as much as trained ones. Models are saved once below build/bench-models, in a
form that transformers 4 and 5 both read, with tokenizers that make one token of every word of
`tests.benchmarks.texts`, as those of the real models do of common words.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tokenizers import pre_tokenizers
from transformers import AutoConfig, AutoModel
from transformers.utils import logging

from bertscore_core.model import resolve_model
from tests.benchmarks.harness import Shape
from tests.benchmarks.texts import WORDS
from tests.support.tiny_tokenizers import write_json

FOLDER = Path("build/bench-models")


@dataclass(frozen=True, slots=True)
class BenchModel:
    """A model ready to be scored with.

    Attributes:
        name: Its name below `folder`, which the peer loads it by: the peer looks into the path.
        folder: Folder that holds the models.
        shape: What it computes up to the layer scored.
    """

    name: str
    folder: Path
    shape: Shape

    @property
    def path(self) -> Path:
        """The model's own folder."""
        return self.folder / self.name


def prepare(name: str) -> BenchModel:
    """Return a model by its name in `BUILDERS`, made now if it is not there yet."""
    folder = FOLDER.resolve()
    build, shape = BUILDERS[name]
    _once(folder / name, build)
    return BenchModel(name, folder, shape)


def prepare_narrow(name: str) -> BenchModel:
    """Return a model with the tokenizer and the depth of another one, and hardly any width.

    Args:
        name: `roberta-large` at its layer 17, or `embedded`.
    """
    layers = BUILDERS[name][1].layers
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2}
    build = roberta if name == "roberta-large" else _bert_base
    folder = FOLDER.resolve() / "narrow"
    _once(folder / name, partial(build, num_hidden_layers=layers, **sizes))
    return BenchModel(name, folder, Shape(layers, 16, 16))


def _once(target: Path, build: Callable[[Path], None]) -> None:
    """Make a folder whole or not at all."""
    if target.exists():
        return
    draft = target.with_name(f".{target.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    build(draft)
    draft.rename(target)


def _embedded(target: Path) -> None:
    source = resolve_model("all-MiniLM-L6-v2").folder
    for path in source.iterdir():
        if path.is_file():
            (target / path.name).symlink_to(path.resolve())


def _bert_base(target: Path, **sizes: int) -> None:
    source = resolve_model("all-MiniLM-L6-v2").folder
    shutil.copy(source / "vocab.txt", target)
    config = {
        "model_type": "bert",
        "vocab_size": 30522,
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "max_position_embeddings": 512,
        "pad_token_id": 0,
    }
    tokenizer_config = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": True,
        "model_max_length": 512,
    }
    _save(target, config | sizes, tokenizer_config)


def roberta(target: Path, **sizes: int) -> None:
    """Write roberta-large with random weights, or a model like it of other sizes."""
    write_word_bpe(target, WORDS)
    config = {
        "model_type": "roberta",
        "vocab_size": 50265,
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
        "max_position_embeddings": 514,
        "type_vocab_size": 1,
        "layer_norm_eps": 1e-5,
        "pad_token_id": 1,
        "bos_token_id": 0,
        "eos_token_id": 2,
    }
    settings = {"tokenizer_class": "RobertaTokenizer", "model_max_length": 512}
    _save(target, config | sizes, settings)


def write_word_bpe(folder: Path, words: tuple[str, ...]) -> None:
    """Write a byte-level BPE that makes one token of each of some words behind a space.

    Merges grow every word from its space on, letter by letter, so no two of them compete.
    """
    alphabet, space = pre_tokenizers.ByteLevel.alphabet(), "Ġ"
    merges: dict[tuple[str, str], None] = {}
    for word in words:
        piece = space
        for letter in word:
            merges[piece, letter] = None
            piece += letter
    for mark in ",.":
        merges[space, mark] = None
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *sorted(alphabet)]
    pieces += [*(a + b for a, b in merges), "<mask>"]
    write_json(folder / "vocab.json", {piece: index for index, piece in enumerate(pieces)})
    lines = "".join(f"{a} {b}\n" for a, b in merges)
    (folder / "merges.txt").write_text("#version: 0.2\n" + lines, encoding="utf-8")


def _save(target: Path, config: dict[str, Any], tokenizer_config: dict[str, Any]) -> None:
    """Save random weights, the configuration as given, and the tokenizer's settings."""
    write_json(target / "config.json", config)
    write_json(target / "tokenizer_config.json", tokenizer_config)
    torch.manual_seed(0)
    logging.disable_progress_bar()
    model: Any = AutoModel.from_config(AutoConfig.from_pretrained(target))
    model.save_pretrained(target)
    # save_pretrained writes what this version of transformers calls things; keep the plain form.
    saved = json.loads((target / "config.json").read_text(encoding="utf-8"))
    write_json(target / "config.json", {"architectures": saved.get("architectures"), **config})


BUILDERS: dict[str, tuple[Callable[[Path], None], Shape]] = {
    "embedded": (_embedded, Shape(6, 384, 1536)),
    "bert-base": (_bert_base, Shape(9, 768, 3072)),
    "roberta-large": (roberta, Shape(17, 1024, 4096)),
}
"""How each model is made, and the layers scored: 6 of 6, 9 of 12, 17 of 24."""
