"""What the slow sentencepiece tokenizers of transformers 4 did that the batched ones do not.

The pieces that `legacy_rules` puts together: traits of the classes, the model's own normalisation
applied between special tokens, byte fallback, and the pieces that ALBERT and XLNet split.
"""

import base64
import json
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import models

_MODEL_FILES = ("spiece.model", "spm.model", "sentencepiece.bpe.model")


@dataclass(frozen=True, slots=True, kw_only=True)
class SentencepieceTraits:
    """How a sentencepiece class differs from a bare model.

    Attributes:
        cleans: Collapses space, rewrites quotes and drops combining marks before the model.
        lowers: Default of `do_lower_case`; None where the class has no such setting.
        trailing: Special tokens at the end of a text, where pieces such as `9,` are split; else 0.
        ends_once: Adds no end mark to ids that end in one.
    """

    cleans: bool = False
    lowers: bool | None = None
    trailing: int = 0
    ends_once: bool = False


SENTENCEPIECE: Mapping[str, SentencepieceTraits] = {
    "AlbertTokenizer": SentencepieceTraits(cleans=True, lowers=True, trailing=1),
    "XLNetTokenizer": SentencepieceTraits(cleans=True, lowers=False, trailing=2),
    "DebertaV2Tokenizer": SentencepieceTraits(lowers=False),
    "T5Tokenizer": SentencepieceTraits(ends_once=True),
    "BigBirdTokenizer": SentencepieceTraits(),
    "MBartTokenizer": SentencepieceTraits(),
    "MBart50Tokenizer": SentencepieceTraits(),
    "PegasusTokenizer": SentencepieceTraits(),
    "XLMRobertaTokenizer": SentencepieceTraits(),
}


def prepare_sentencepiece(
    text: str,
    *,
    added: re.Pattern[str],
    normalize: Callable[[str], str],
    lowers: bool,
    cleaning: tuple[bool, bool, bool] | None,
) -> str:
    """Normalise what lies between added tokens; single spaces then part the words.

    Args:
        text: A stripped text.
        added: Matches the tokens that texts are split at, in one group.
        normalize: The model's normalisation.
        lowers: Whether characters are lowercased first.
        cleaning: What to do before that: collapse space, drop marks, lowercase. None: nothing.
    """
    pieces = added.split(text)
    for index in range(0, len(pieces), 2):
        piece = pieces[index]
        if lowers:
            piece = "".join(map(str.lower, piece))
        if cleaning is not None:
            piece = _clean(piece, *cleaning)
        pieces[index] = normalize(piece).replace("▁", " ").strip(" ")
    return "".join(pieces)


def _clean(text: str, collapses: bool, drops_marks: bool, lowers: bool) -> str:
    if collapses:
        text = " ".join(text.split())
    text = text.replace("``", '"').replace("''", '"')
    if drops_marks and not text.isascii():
        text = unicodedata.normalize("NFKD", text)
        text = "".join(char for char in text if not unicodedata.combining(char))
    return text.lower() if lowers else text


def model_proto(folder: Path) -> bytes | None:
    """Read the sentencepiece model, or make one of the normalisation table in tokenizer.json."""
    for name in _MODEL_FILES:
        if (folder / name).is_file():
            return (folder / name).read_bytes()
    try:
        normalizer = json.loads((folder / "tokenizer.json").read_bytes())["normalizer"] or {}
    except (OSError, ValueError, KeyError):
        return None
    for part in (normalizer, *normalizer.get("normalizers", [])):
        if part.get("type") == "Precompiled":
            return _proto_of_table(part["precompiled_charsmap"])
    return None


def _proto_of_table(table: str) -> bytes:
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    proto.pieces.add(piece="<unk>", type=proto.SentencePiece.UNKNOWN)
    proto.pieces.add(piece="▁", score=-1.0)  # a model must have one
    proto.normalizer_spec.precompiled_charsmap = base64.b64decode(table)
    return bytes(proto.SerializeToString())


def fall_back_to_bytes(backend: Any) -> None:
    """Spell unknown characters by the byte pieces of the vocabulary (mT5)."""
    model = json.loads(backend.to_str())["model"]
    vocabulary = [(piece, score) for piece, score in model["vocab"]]
    backend.model = models.Unigram(vocabulary, model["unk_id"], byte_fallback=True)


def split_parts(backend: Any, unknown: int) -> dict[int, tuple[int, ...]]:
    """List the pieces that end in a digit and a comma, with what they are split into."""
    parts = {}
    for piece, index in backend.get_vocab(with_added_tokens=False).items():
        if len(piece) < 2 or piece[-1] != "," or not piece[-2].isdigit():
            continue
        pieces = backend.encode(piece[:-1].replace("▁", ""), add_special_tokens=False).tokens
        if piece[0] != "▁" and pieces[0][0] == "▁":
            pieces = [pieces[0][1:], *pieces[1:]] if len(pieces[0]) > 1 else pieces[1:]
        ids = [backend.token_to_id(part) for part in (*pieces, ",")]
        parts[index] = tuple(unknown if part is None else part for part in ids)
    return parts
