"""The models that benchmarks run: the embedded one, and random ones of well-known shapes.

Random weights cost as much as trained ones. Models are saved once below build/bench-models, in a
form that transformers 4 and 5 both read, with tokenizers that make one token of every word of
`tests.benchmarks.texts`, as those of the real models do of common words.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import pre_tokenizers
from transformers import AutoConfig, AutoModel
from transformers.utils import logging

from bertscore_core.model.resolve import resolve_model
from tests.benchmarks.harness import Shape
from tests.benchmarks.texts import WORDS
from tests.support.tiny_tokenizers import write_bpe, write_json

FOLDER = Path("build/bench-models")

SHAPES = {
    "embedded": Shape(6, 384, 1536, heads=12),
    "bert-base": Shape(9, 768, 3072, heads=12),
    "roberta-large": Shape(17, 1024, 4096, heads=16),
}
"""What is computed up to the layer scored: 6 of 6, 9 of 12, 17 of 24."""

_BERT = {
    "model_type": "bert",
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
}
_ROBERTA = {
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
NARROW = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2}


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


def prepare(name: str, *, narrow: bool = False) -> BenchModel:
    """Return a model of `SHAPES`, made now if it is not there yet, whole or not at all.

    A narrow one has the tokenizer and the scored depth of the other, and hardly any width.
    """
    folder, shape = FOLDER.resolve() / ("narrow" if narrow else ""), SHAPES[name]
    sizes = NARROW | {"num_hidden_layers": shape.layers} if narrow else {}
    draft = folder / f".{name}.draft"
    if not (folder / name).exists():
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        if name == "roberta-large":
            write_roberta(draft, **sizes)
        else:
            embedded = resolve_model("all-MiniLM-L6-v2").folder
            if name == "embedded" and not narrow:
                shutil.copytree(embedded, draft, copy_function=os.symlink, dirs_exist_ok=True)
            else:
                shutil.copy(embedded / "vocab.txt", draft)
                _write(draft, _BERT | sizes, do_lower_case=True)
        draft.rename(folder / name)
    return BenchModel(name, folder, shape)


def write_roberta(target: Path, **sizes: int) -> None:
    """Write roberta-large with random weights, or a model like it of other sizes.

    Its byte-level BPE makes one token of each word behind a space. Merges grow every word from its
    space on, letter by letter, so no two of them compete.
    """
    space = "Ġ"
    grown = [(space + word[:at], word[at]) for word in WORDS for at in range(len(word))]
    merges = list(dict.fromkeys([*grown, (space, ","), (space, ".")]))
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *alphabet, *(a + b for a, b in merges), "<mask>"]
    write_bpe(target, pieces, merges, header="#version: 0.2\n")
    _write(target, _ROBERTA | sizes)


def _write(target: Path, config: dict[str, Any], **tokenizer: bool) -> None:
    """Save random weights, the configuration as given, and the tokenizer's settings."""
    kind = {"bert": "BertTokenizer", "roberta": "RobertaTokenizer"}[config["model_type"]]
    settings = {"tokenizer_class": kind, "model_max_length": 512, **tokenizer}
    write_json(target / "tokenizer_config.json", settings)
    torch.manual_seed(0)
    logging.disable_progress_bar()
    model: Any = AutoModel.from_config(AutoConfig.for_model(**config))
    model.save_pretrained(target)
    # save_pretrained writes what this version of transformers calls things; keep the plain form.
    write_json(target / "config.json", config)
