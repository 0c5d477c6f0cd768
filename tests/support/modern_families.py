"""Encoders that people use now and bert-score does not know, made tiny.

As in `tiny_families`, a function for each one writes the tokenizer's files and returns the model's
configuration and the tokenizer's. Their tokenizers are `tokenizer.json` files, as on the hub.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

from tests.support.tiny_families import (
    BERT_SPECIALS,
    ENCODER,
    FAMILY_BUILDERS,
    HEADS,
    HIDDEN,
    MAX_LENGTH,
    Settings,
)
from tests.support.tiny_tokenizers import write_byte_bpe, write_wordpiece

# Llama's splitting of texts, which EuroBERT and Qwen have with small changes.
_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+|\s+"

_ROTARY: Settings = {**ENCODER, "num_key_value_heads": 2, "head_dim": HIDDEN // HEADS}
ROTARY_SETTINGS: Settings = {"rope_theta": 10000.0, "rope_type": "default"}

CANDIDATES = [
    "The old harbour slept under a thin grey fog.",
    "rain",
    "Nobody knows who rang the bell at noon, but it was heard in New York and in Rome.",
]
REFERENCES = [
    "Under a grey fog the harbour slept.",
    "A cat on the warm roof watched the rivers bend around old stones.",
    "Who rang the bell?",
]
"""Pairs that the families score."""


def _byte_level_json(
    folder: Path, specials: tuple[str, ...], template: tuple[str, ...], *, splits: bool = False
) -> dict[str, int]:
    """Write a byte-level BPE as `tokenizer.json`; return the ids of its special tokens.

    Args:
        folder: Where the file goes.
        specials: Special tokens.
        template: What a text becomes: special tokens, and `$A` for the text itself.
        splits: Split texts by a pattern of its own, as Llama does, not by that of GPT-2.
    """
    write_byte_bpe(folder, specials, ())
    backend = Tokenizer(
        models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
    )
    for name in ("vocab.json", "merges.txt"):
        (folder / name).unlink()
    bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not splits)
    words = pre_tokenizers.Split(Regex(_WORDS), "isolated")
    backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = pre_tokenizers.Sequence([words, bytes_only]) if splits else bytes_only
    backend.add_special_tokens(list(specials))
    ids = {name: backend.token_to_id(name) for name in specials}
    named = [(name, ids[name]) for name in template if name != "$A"]
    backend.post_processor = processors.TemplateProcessing(
        single=list(template), special_tokens=named
    )
    backend.save(str(folder / "tokenizer.json"))
    return {**ids, "size": backend.get_vocab_size()}


def _fast(**options: str | int) -> Settings:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": MAX_LENGTH,
        **options,
    }


def _bert_tokens() -> Settings:
    names = ("pad", "unk", "cls", "sep", "mask")
    return {f"{name}_token": f"[{name.upper()}]" for name in names}


def _modernbert(folder: Path) -> tuple[Settings, Settings]:
    ids = _byte_level_json(folder, BERT_SPECIALS, ("[CLS]", "$A", "[SEP]"))
    config = {
        **ENCODER,
        "model_type": "modernbert",
        "vocab_size": ids["size"],
        "max_position_embeddings": 8192,
        # Local, but in every second layer. A token sees 4 others on each side: less than a text.
        "local_attention": 8,
        "global_attn_every_n_layers": 2,
        "pad_token_id": ids["[PAD]"],
        "cls_token_id": ids["[CLS]"],
        "sep_token_id": ids["[SEP]"],
        "bos_token_id": ids["[CLS]"],
        "eos_token_id": ids["[SEP]"],
    }
    return config, _fast(**_bert_tokens())


def _eurobert(folder: Path) -> tuple[Settings, Settings]:
    begin, end, pad, mask = "<|begin_of_text|>", "<|end_of_text|>", "<|pad|>", "<|mask|>"
    ids = _byte_level_json(folder, (begin, end, pad, mask), (begin, "$A", end), splits=True)
    config = {
        **_ROTARY,
        "model_type": "eurobert",
        "vocab_size": ids["size"],
        "max_position_embeddings": 8192,
        "rope_parameters": ROTARY_SETTINGS,
        "pad_token_id": ids[pad],
        "bos_token_id": ids[begin],
        "eos_token_id": ids[end],
        "mask_token_id": ids[mask],
    }
    return config, _fast(bos_token=begin, eos_token=end, pad_token=pad, mask_token=mask)


def _gte(folder: Path) -> tuple[Settings, Settings]:
    config, tokenizer = FAMILY_BUILDERS["xlm_roberta"](folder)
    config |= {"model_type": "gte", "max_position_embeddings": 8192}
    return config | {"rope_parameters": ROTARY_SETTINGS}, tokenizer


def _jina_v3(folder: Path) -> tuple[Settings, Settings]:
    config, tokenizer = FAMILY_BUILDERS["xlm_roberta"](folder)
    config |= {"model_type": "jina_embeddings_v3", "max_position_embeddings": 8194}
    return config | {"rope_parameters": ROTARY_SETTINGS}, tokenizer


def _nomic(folder: Path) -> tuple[Settings, Settings]:
    config, tokenizer = FAMILY_BUILDERS["bert"](folder)
    config |= {"model_type": "nomic_bert", "type_vocab_size": 2, "max_position_embeddings": 2048}
    return config | {"rope_parameters": ROTARY_SETTINGS}, tokenizer


def _e5_small(folder: Path) -> tuple[Settings, Settings]:
    """Build multilingual-e5-small: BERT with the vocabulary of XLM-R, and BERT's padding id."""
    config, tokenizer = FAMILY_BUILDERS["xlm_roberta"](folder)
    config |= {"model_type": "bert", "pad_token_id": 0, "max_position_embeddings": MAX_LENGTH}
    del config["bos_token_id"], config["eos_token_id"]
    return config | {"type_vocab_size": 2}, tokenizer


def _labse(folder: Path) -> tuple[Settings, Settings]:
    size = write_wordpiece(folder / "vocab.txt", BERT_SPECIALS, lower=False)
    config = {**ENCODER, "model_type": "bert", "vocab_size": size, "pad_token_id": 0}
    return config, {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": False,
        "model_max_length": MAX_LENGTH,
    }


def _qwen3(folder: Path) -> tuple[Settings, Settings]:
    """Build Qwen3-Embedding: a decoder whose texts end in a mark."""
    end = "<|endoftext|>"
    ids = _byte_level_json(folder, (end, "<|im_start|>", "<|im_end|>"), ("$A", end), splits=True)
    config = {
        **_ROTARY,
        "model_type": "qwen3",
        "vocab_size": ids["size"],
        "max_position_embeddings": 32768,
        "rope_parameters": ROTARY_SETTINGS,
        "eos_token_id": ids[end],
    }
    return config, _fast(eos_token="<|im_end|>", pad_token=end)


def _gemma(folder: Path) -> tuple[Settings, Settings]:
    """Build EmbeddingGemma: a decoder that was trained to look both ways."""
    specials = ("<pad>", "<eos>", "<bos>", "<unk>")
    ids = _byte_level_json(folder, specials, ("<bos>", "$A", "<eos>"))
    config = {
        **_ROTARY,
        "model_type": "gemma3_text",
        "vocab_size": ids["size"],
        "max_position_embeddings": 2048,
        "rope_theta": 1000000.0,
        "rope_local_base_freq": 10000.0,
        "sliding_window": 8,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        "use_bidirectional_attention": True,
        "query_pre_attn_scalar": 8,
        "pad_token_id": ids["<pad>"],
        "bos_token_id": ids["<bos>"],
        "eos_token_id": ids["<eos>"],
    }
    names = {f"{name}_token": f"<{name}>" for name in ("pad", "bos", "eos", "unk")}
    return config, _fast(**names)


MODERN_BUILDERS: dict[str, Callable[[Path], tuple[Settings, Settings]]] = {
    "modernbert": _modernbert,
    "eurobert": _eurobert,
    "e5_small": _e5_small,
    "labse": _labse,
    "gte": _gte,
    "nomic": _nomic,
    "jina_v3": _jina_v3,
    "gemma": _gemma,
    "qwen3": _qwen3,
}
