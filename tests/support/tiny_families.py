"""How each tiny encoder is made: its configuration and its tokenizer files.

One function per architecture. Each writes the tokenizer files into the folder and returns the
model configuration and the tokenizer configuration. Values follow the checkpoints on the hub,
shrunk; ``model_max_length`` is left out where the hub's files leave it out too.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.tiny_tokenizers import (
    write_byte_bpe,
    write_unigram,
    write_word_bpe,
    write_wordpiece,
)

Settings = dict[str, Any]
MAX_LENGTH = 48
LAYERS = 3
HIDDEN = 32
HEADS = 4
INNER = 48

BERT_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ROBERTA_SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")
FAIRSEQ_PIECES: Settings = {"unk": (0, "<unk>"), "bos": (1, "<s>"), "eos": (2, "</s>")}
T5_PIECES: Settings = {"pad": (0, "<pad>"), "eos": (1, "</s>"), "unk": (2, "<unk>")}
ENCODER: Settings = {
    "hidden_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": INNER,
    "max_position_embeddings": MAX_LENGTH,
}
SEQ2SEQ: Settings = {
    "d_model": HIDDEN,
    "encoder_layers": LAYERS,
    "decoder_layers": 1,
    "encoder_attention_heads": HEADS,
    "decoder_attention_heads": HEADS,
    "encoder_ffn_dim": INNER,
    "decoder_ffn_dim": INNER,
    "max_position_embeddings": MAX_LENGTH,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
}
T5: Settings = {
    "model_type": "t5",
    "d_model": HIDDEN,
    "d_kv": HIDDEN // HEADS,
    "d_ff": INNER,
    "num_layers": LAYERS,
    "num_decoder_layers": 1,
    "num_heads": HEADS,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 16,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "decoder_start_token_id": 0,
}


def _tokenizer(name: str, *, limited: bool = True, **options: Any) -> Settings:
    limit = {"model_max_length": MAX_LENGTH} if limited else {}
    return {"tokenizer_class": name, **limit, **options}


def _roberta_like(folder: Path) -> Settings:
    size = write_byte_bpe(folder, ROBERTA_SPECIALS, ("<mask>",))
    ids = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    positions = {"max_position_embeddings": MAX_LENGTH + 2, "type_vocab_size": 1}
    return {**ENCODER, **ids, **positions, "vocab_size": size}


def _bert(folder: Path) -> tuple[Settings, Settings]:
    size = write_wordpiece(folder / "vocab.txt", BERT_SPECIALS, lower=True)
    config = {**ENCODER, "model_type": "bert", "vocab_size": size, "pad_token_id": 0}
    return config, _tokenizer("BertTokenizer", do_lower_case=True)


def _electra(folder: Path) -> tuple[Settings, Settings]:
    size = write_wordpiece(folder / "vocab.txt", BERT_SPECIALS, lower=True)
    config = {**ENCODER, "model_type": "electra", "vocab_size": size, "embedding_size": 16}
    return config, _tokenizer("ElectraTokenizer", do_lower_case=True)


def _distilbert(folder: Path) -> tuple[Settings, Settings]:
    size = write_wordpiece(folder / "vocab.txt", BERT_SPECIALS, lower=False)
    config = {
        "model_type": "distilbert",
        "vocab_size": size,
        "dim": HIDDEN,
        "n_layers": LAYERS,
        "n_heads": HEADS,
        "hidden_dim": INNER,
        "max_position_embeddings": MAX_LENGTH,
        "pad_token_id": 0,
    }
    return config, _tokenizer("DistilBertTokenizer", do_lower_case=False)


def _mpnet(folder: Path) -> tuple[Settings, Settings]:
    specials = ("<s>", "<pad>", "</s>", "<unk>", "[UNK]")
    size = write_wordpiece(folder / "vocab.txt", specials, lower=True, last="<mask>")
    ids = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    # 32 is what the model's code computes buckets with, whatever its configuration says.
    positions = {"max_position_embeddings": MAX_LENGTH + 2, "relative_attention_num_buckets": 32}
    config = {**ENCODER, **ids, **positions, "model_type": "mpnet", "vocab_size": size}
    return config, _tokenizer("MPNetTokenizer", do_lower_case=True)


def _prophetnet(folder: Path) -> tuple[Settings, Settings]:
    size = write_wordpiece(folder / "prophetnet.tokenizer", (*BERT_SPECIALS, "[X_SEP]"), lower=True)
    config = {
        "model_type": "prophetnet",
        "vocab_size": size,
        "hidden_size": HIDDEN,
        "encoder_ffn_dim": INNER,
        "num_encoder_layers": LAYERS,
        "num_encoder_attention_heads": HEADS,
        "decoder_ffn_dim": INNER,
        "num_decoder_layers": 1,
        "num_decoder_attention_heads": HEADS,
        "max_position_embeddings": MAX_LENGTH,
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": 3,
        "decoder_start_token_id": 2,
    }
    return config, _tokenizer("ProphetNetTokenizer", do_lower_case=True)


def _roberta(folder: Path) -> tuple[Settings, Settings]:
    return {**_roberta_like(folder), "model_type": "roberta"}, _tokenizer("RobertaTokenizer")


def _longformer(folder: Path) -> tuple[Settings, Settings]:
    config = {**_roberta_like(folder), "model_type": "longformer", "attention_window": [8] * LAYERS}
    config["max_position_embeddings"] = MAX_LENGTH + 16
    return config, _tokenizer("LongformerTokenizer")


def _bart(folder: Path) -> tuple[Settings, Settings]:
    size = write_byte_bpe(folder, ROBERTA_SPECIALS, ("<mask>",))
    return {**SEQ2SEQ, "model_type": "bart", "vocab_size": size}, _tokenizer("BartTokenizer")


def _led(folder: Path) -> tuple[Settings, Settings]:
    size = write_byte_bpe(folder, ROBERTA_SPECIALS, ("<mask>",))
    config = {**SEQ2SEQ, "model_type": "led", "vocab_size": size}
    del config["max_position_embeddings"]
    positions = {
        "attention_window": [8] * LAYERS,
        "max_encoder_position_embeddings": MAX_LENGTH + 16,
        "max_decoder_position_embeddings": MAX_LENGTH,
    }
    return {**config, **positions}, _tokenizer("LEDTokenizer")


def _blenderbot(folder: Path) -> tuple[Settings, Settings]:
    # The 400M checkpoint: pad 0, bos 1, eos 2, unk 3, and a prefix space in its tokenizer_config.
    size = write_byte_bpe(folder, ("<pad>", "<s>", "</s>", "<unk>"), ("<mask>",))
    ids = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    config = {**SEQ2SEQ, **ids, "model_type": "blenderbot", "vocab_size": size}
    return config, _tokenizer("BlenderbotTokenizer", add_prefix_space=True)


def _blenderbot_small(folder: Path) -> tuple[Settings, Settings]:
    specials = ("__null__", "__start__", "__end__", "__unk__", "__newln__")
    size = write_word_bpe(folder, specials, continued=True)
    ids = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    config = {**SEQ2SEQ, **ids, "model_type": "blenderbot-small", "vocab_size": size}
    return config, _tokenizer("BlenderbotSmallTokenizer")


def _deberta(folder: Path) -> tuple[Settings, Settings]:
    size = write_byte_bpe(folder, ("[PAD]", "[CLS]", "[SEP]", "[UNK]"), ("[MASK]",))
    attention = {
        "relative_attention": True,
        "pos_att_type": ["c2p", "p2c"],
        "max_relative_positions": 16,
        "position_biased_input": False,
    }
    config = {**ENCODER, **attention, "model_type": "deberta", "vocab_size": size}
    config["type_vocab_size"] = 0
    return config, _tokenizer("DebertaTokenizer", limited=False, do_lower_case=False)


def _deberta_v2(folder: Path) -> tuple[Settings, Settings]:
    pieces: Settings = {"pad": (0, "[PAD]"), "bos": (1, "[CLS]"), "eos": (2, "[SEP]")}
    size = write_unigram(folder / "spm.model", **pieces, unk=(3, "[UNK]"))
    attention = {
        "relative_attention": True,
        "pos_att_type": "p2c|c2p",
        "position_buckets": 8,
        "max_relative_positions": -1,
        "norm_rel_ebd": "layer_norm",
        "share_att_key": True,
        "position_biased_input": False,
        "type_vocab_size": 0,
    }
    # One more id: [MASK] is added behind the vocabulary.
    config = {**ENCODER, **attention, "model_type": "deberta-v2", "vocab_size": size + 1}
    return config, _tokenizer("DebertaV2Tokenizer", do_lower_case=False, vocab_type="spm")


def _albert(folder: Path) -> tuple[Settings, Settings]:
    pieces: Settings = {"pad": (0, "<pad>"), "unk": (1, "<unk>")}
    others: Settings = {"control": ["[CLS]", "[SEP]"], "user_defined": ["[MASK]"]}
    size = write_unigram(folder / "spiece.model", **pieces, **others)
    config = {**ENCODER, "model_type": "albert", "vocab_size": size, "embedding_size": 16}
    config |= {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
    return config, _tokenizer("AlbertTokenizer", do_lower_case=True, keep_accents=False)


def _xlm_roberta(folder: Path) -> tuple[Settings, Settings]:
    size = write_unigram(folder / "sentencepiece.bpe.model", **FAIRSEQ_PIECES)
    ids = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "type_vocab_size": 1}
    config = {**ENCODER, **ids, "model_type": "xlm-roberta", "vocab_size": size + 2}
    config["max_position_embeddings"] = MAX_LENGTH + 2
    return config, _tokenizer("XLMRobertaTokenizer")


def _mbart(folder: Path) -> tuple[Settings, Settings]:
    size = write_unigram(folder / "sentencepiece.bpe.model", **FAIRSEQ_PIECES)
    config = {**SEQ2SEQ, "model_type": "mbart", "vocab_size": size + 27}
    return config, _tokenizer("MBartTokenizer")


def _mbart_50(folder: Path) -> tuple[Settings, Settings]:
    size = write_unigram(folder / "sentencepiece.bpe.model", **FAIRSEQ_PIECES)
    config = {**SEQ2SEQ, "model_type": "mbart", "vocab_size": size + 54}
    return config, _tokenizer("MBart50Tokenizer", src_lang="en_XX")


def _xlnet(folder: Path) -> tuple[Settings, Settings]:
    control = ["<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>"]
    size = write_unigram(folder / "spiece.model", **FAIRSEQ_PIECES, control=control)
    config = {
        "model_type": "xlnet",
        "vocab_size": size,
        "d_model": HIDDEN,
        "n_layer": LAYERS,
        "n_head": HEADS,
        "d_inner": INNER,
        "pad_token_id": 5,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "attn_type": "bi",
        "ff_activation": "gelu",
    }
    return config, _tokenizer("XLNetTokenizer", limited=False, do_lower_case=False)


def _xlm(folder: Path) -> tuple[Settings, Settings]:
    specials = ("<s>", "</s>", "<pad>", "<unk>", *(f"<special{n}>" for n in range(10)))
    size = write_word_bpe(folder, specials, continued=False)
    config = {
        "model_type": "xlm",
        "vocab_size": size,
        "emb_dim": HIDDEN,
        "n_layers": LAYERS,
        "n_heads": HEADS,
        "n_langs": 1,
        "max_position_embeddings": MAX_LENGTH,
        "bos_index": 0,
        "eos_index": 1,
        "pad_index": 2,
        "unk_index": 3,
        "mask_index": 5,
        "pad_token_id": 2,
        "bos_token_id": 0,
    }
    return config, _tokenizer("XLMTokenizer", do_lowercase_and_remove_accent=True)


def _t5(folder: Path) -> tuple[Settings, Settings]:
    size = write_unigram(folder / "spiece.model", **T5_PIECES)
    config = {**T5, "vocab_size": size + 100, "feed_forward_proj": "relu"}
    return config, _tokenizer("T5Tokenizer", extra_ids=100)


def _mt5(folder: Path) -> tuple[Settings, Settings]:
    size = write_unigram(folder / "spiece.model", **T5_PIECES)
    config = {**T5, "model_type": "mt5", "vocab_size": size, "feed_forward_proj": "gated-gelu"}
    config |= {"tie_word_embeddings": False, "tokenizer_class": "T5Tokenizer"}
    return config, _tokenizer("T5Tokenizer", limited=False, extra_ids=0)


def _byt5(folder: Path) -> tuple[Settings, Settings]:
    config = {**T5, "vocab_size": 384, "feed_forward_proj": "gated-gelu"}
    config |= {"tie_word_embeddings": False, "tokenizer_class": "ByT5Tokenizer"}
    return config, _tokenizer("ByT5Tokenizer", limited=False, extra_ids=125)


def _pegasus(folder: Path) -> tuple[Settings, Settings]:
    size = write_unigram(folder / "spiece.model", **T5_PIECES)
    ids = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
    config = {**SEQ2SEQ, **ids, "model_type": "pegasus", "vocab_size": size + 103}
    del config["bos_token_id"]
    return config, _tokenizer("PegasusTokenizer")


def _bigbird(folder: Path) -> tuple[Settings, Settings]:
    # The published model does no Unicode normalisation, and its special tokens lie inside the
    # vocabulary. Attention is full: block-sparse attention falls back to it for short texts.
    pieces: Settings = {"pad": (0, "<pad>"), "eos": (1, "</s>"), "bos": (2, "<s>")}
    symbols: Settings = {"unk": (3, "<unk>"), "user_defined": ["[CLS]", "[SEP]", "[MASK]"]}
    size = write_unigram(folder / "spiece.model", **pieces, **symbols, rule="identity")
    config = {**ENCODER, "model_type": "big_bird", "vocab_size": size}
    config |= {"attention_type": "original_full", "pad_token_id": 0, "sep_token_id": 5}
    config |= {"bos_token_id": 2, "eos_token_id": 1, "hidden_act": "gelu_new"}
    return config, _tokenizer("BigBirdTokenizer")


# The reference loads every model with "t5" in its name as a T5, hence not "mbart50".
FAMILY_BUILDERS: dict[str, Callable[[Path], tuple[Settings, Settings]]] = {
    "bert": _bert,
    "roberta": _roberta,
    "xlm_roberta": _xlm_roberta,
    "albert": _albert,
    "distilbert": _distilbert,
    "electra": _electra,
    "deberta": _deberta,
    "deberta_v2": _deberta_v2,
    "mpnet": _mpnet,
    "xlnet": _xlnet,
    "xlm": _xlm,
    "t5": _t5,
    "mt5": _mt5,
    "byt5": _byt5,
    "pegasus": _pegasus,
    "mbart": _mbart,
    "mbart_50": _mbart_50,
    "bart": _bart,
    "led": _led,
    "longformer": _longformer,
    "bigbird": _bigbird,
    "prophetnet": _prophetnet,
    "blenderbot": _blenderbot,
    "blenderbot_small": _blenderbot_small,
}
