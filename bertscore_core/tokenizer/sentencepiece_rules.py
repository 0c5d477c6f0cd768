"""What the slow sentencepiece tokenizers of transformers 4 did and the batched ones do not.

These parts are combined by `legacy_rules`: traits of the classes, the model's own normalisation
between special tokens, byte fallback, and the pieces that ALBERT and XLNet split.
"""

import base64
import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, models

from bertscore_core.model.resolve import read_json

# The added tokens: a text is split at them before anything else.
#
# The slow tokenizers of transformers 4 looked for them in the raw text and removed the white space
# next to some of them with Python's `str.strip`. The batched tokenizers know less white space: not
# U+001C to U+001F.

HIDDEN = "\U0010ffff"
"""Put into text that only looks like an added token, and removed after the split. It is a
noncharacter, which should not occur in texts; if it does, it is replaced by `_OTHER`."""
_OTHER = "\U0010fffe"

_EXTRA_ID = re.compile(r"<extra_id_\d+>")


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedTokens:
    """The added tokens of one tokenizer; some eat the white space before or after them.

    Attributes:
        pattern: Matches any of them, the longest first, as its only group.
    """

    pattern: re.Pattern[str]
    eat_left: frozenset[str]
    eat_right: frozenset[str]

    def split(self, text: str) -> list[str]:
        """Return the pieces of a text, added tokens at odd indices, without the space they eat."""
        pieces = self.pattern.split(text)
        # A pattern with one group splits into text, token, text, token, ..., text.
        for index in range(1, len(pieces), 2):
            if pieces[index] in self.eat_left:
                pieces[index - 1] = pieces[index - 1].rstrip()
            if pieces[index] in self.eat_right:
                pieces[index + 1] = pieces[index + 1].lstrip()
        return pieces

    def strip(self, text: str) -> str:
        """Return a text without the white space that added tokens eat."""
        return "".join(self.split(text))

    def lower(self, text: str) -> str:
        """Lowercase everything except added tokens, character by character."""
        pieces = self.pattern.split(text)
        # By character, since the slow tokenizers did: a final sigma stays an ordinary one.
        pieces[::2] = ["".join(map(str.lower, piece)) for piece in pieces[::2]]
        return "".join(pieces)

    def hide(self, piece: str) -> str:
        """Break up text that looks like an added token but is not one."""
        if HIDDEN in piece:
            piece = piece.replace(HIDDEN, _OTHER)
        # After its first character, so that the backend does not find the token any more.
        return self.pattern.sub(lambda match: match[0][0] + HIDDEN + match[0][1:], piece)


def read_added_tokens(
    tokenizer: Any, *, folder: Path, stated: Mapping[str, Any], mask_eats: bool
) -> AddedTokens:
    """Collect a tokenizer's added tokens, with the white space that each of them eats.

    With `mask_eats` the mask token eats the space before it if the files do not say.
    """
    tokens = {token.content for token in tokenizer.added_tokens_decoder.values()}
    tokens |= set(tokenizer.all_special_tokens)
    left = {str(tokenizer.mask_token)} & tokens if mask_eats else set()
    right = set()
    if type(tokenizer).__name__ == "T5Tokenizer":  # its sentinels eat the space on both sides
        right = set(filter(_EXTRA_ID.fullmatch, tokens))
        left |= right
    for token in stated_tokens(folder, stated):
        # What the files say overrides the defaults of the class, in both directions.
        for eaters, eats in ((left, token.get("lstrip")), (right, token.get("rstrip"))):
            (eaters.add if eats else eaters.discard)(token["content"])
    return AddedTokens(
        pattern=pattern_of(tokens),
        eat_left=frozenset(left & tokens),
        eat_right=frozenset(right & tokens),
    )


def pattern_of(tokens: set[str]) -> re.Pattern[str]:
    """Compile a pattern that matches any of some tokens, the longest first, as its only group."""
    return re.compile("(" + "|".join(map(re.escape, sorted(tokens, key=len, reverse=True))) + ")")


def stated_tokens(folder: Path, stated: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the added tokens described in the files that transformers 4 read."""
    if "added_tokens_decoder" in stated:
        tokens = list(stated["added_tokens_decoder"].values())
    else:
        tokens = read_json(folder / "tokenizer.json").get("added_tokens") or []
    mask = stated.get("mask_token")
    for token in (*tokens, mask):
        if isinstance(token, dict) and isinstance(token.get("content"), str):
            yield token


_MODEL_FILES = ("spiece.model", "spm.model", "sentencepiece.bpe.model")


@dataclass(frozen=True, slots=True, kw_only=True)
class SentencepieceTraits:
    """How a sentencepiece class differs from a bare model.

    Attributes:
        cleans: Collapses white space, rewrites quotes and drops combining marks before the model.
        lowers: Default of `do_lower_case`; None if the class has no such setting.
        trailing: Special tokens at the end of a text, if pieces such as `9,` are split; else 0.
        ends_once: Adds no end mark to ids that end in one.
        mask_eats: The mask token eats the white space before it.
    """

    cleans: bool = False
    lowers: bool | None = None
    trailing: int = 0
    ends_once: bool = False
    mask_eats: bool = False

    def lowercases(self, stated: Mapping[str, Any]) -> bool:
        """Tell whether texts are lowercased, by what tokenizer_config.json says or the default."""
        return self.lowers is not None and bool(stated.get("do_lower_case", self.lowers))


SENTENCEPIECE: Mapping[str, SentencepieceTraits] = {
    "AlbertTokenizer": SentencepieceTraits(cleans=True, lowers=True, trailing=1, mask_eats=True),
    "XLNetTokenizer": SentencepieceTraits(cleans=True, lowers=False, trailing=2, mask_eats=True),
    "DebertaV2Tokenizer": SentencepieceTraits(lowers=False),
    "T5Tokenizer": SentencepieceTraits(ends_once=True),
    "BigBirdTokenizer": SentencepieceTraits(mask_eats=True),
    "MBartTokenizer": SentencepieceTraits(mask_eats=True),
    "MBart50Tokenizer": SentencepieceTraits(mask_eats=True),
    "PegasusTokenizer": SentencepieceTraits(),
    "XLMRobertaTokenizer": SentencepieceTraits(mask_eats=True),
}


def prepare_sentencepiece(
    text: str,
    *,
    added: AddedTokens,
    normalize: Callable[[str], str],
    lowers: bool,
    cleaning: tuple[bool, bool, bool] | None,
) -> str:
    """Normalise the stripped text between added tokens; separate its words by single spaces.

    `cleaning` is what is done before that: collapse space, drop marks, lowercase.
    """
    pieces = added.split(added.lower(text) if lowers else text)
    for index in range(0, len(pieces), 2):
        piece = pieces[index]
        if cleaning is not None:
            piece = _clean(piece, *cleaning)
        pieces[index] = added.hide(_spaced(normalize(piece)))
    return "".join(pieces)


def _spaced(normalized: str) -> str:
    if not normalized:
        return ""
    return " ".join(word or "▁" for word in normalized.removeprefix("▁").split("▁"))


def _clean(text: str, collapses: bool, drops_marks: bool, lowers: bool) -> str:
    if collapses:
        text = " ".join(text.split())
    text = text.replace("``", '"').replace("''", '"')
    if drops_marks and not text.isascii():  # ASCII has no marks, and NFKD does not change it
        text = unicodedata.normalize("NFKD", text)
        text = "".join(char for char in text if not unicodedata.combining(char))
    return text.lower() if lowers else text


def model_proto(folder: Path) -> bytes | None:
    """Read the sentencepiece model, or make one from the normalisation table in tokenizer.json."""
    for name in _MODEL_FILES:
        if (folder / name).is_file():
            return (folder / name).read_bytes()
    normalizer = read_json(folder / "tokenizer.json").get("normalizer") or {}
    for part in (normalizer, *normalizer.get("normalizers", [])):
        if part.get("type") == "Precompiled":
            return _proto_of_table(part["precompiled_charsmap"])
    return None


def character_table(folder: Path) -> bytes:
    """Return the normalisation table of a sentencepiece model. Empty if it has none."""
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    proto.ParseFromString(model_proto(folder) or b"")
    return bytes(proto.normalizer_spec.precompiled_charsmap)


def _proto_of_table(table: str) -> bytes:
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    proto.pieces.add(piece="<unk>", type=proto.SentencePiece.UNKNOWN)
    proto.pieces.add(piece="▁", score=-1.0)  # a model needs at least one piece
    proto.normalizer_spec.precompiled_charsmap = base64.b64decode(table)
    return bytes(proto.SerializeToString())


def rebuild_model(backend: Any, added: AddedTokens) -> None:
    """Keep texts from becoming added tokens in the model, and use byte fallback if there is any.

    Pieces of the vocabulary that are also added tokens get a spelling that no text has: the slow
    classes never made such a piece from a text, and an added token in a text is found before the
    model sees it. Byte fallback (mT5) spells unknown characters in bytes.
    """
    state = json.loads(backend.to_str())
    model = state["model"]
    vocabulary = [
        (HIDDEN + piece if added.pattern.fullmatch(piece) else piece, score)
        for piece, score in model["vocab"]
    ]
    # Added again as special tokens that are looked for in the raw text only.
    for token in state["added_tokens"]:
        if token.pop("normalized"):  # if so, the backend looks for it again after normalising
            del token["id"]
            backend.add_special_tokens([AddedToken(**token, normalized=False)])
    in_bytes = backend.token_to_id("<0x00>") is not None
    backend.model = models.Unigram(vocabulary, model["unk_id"], byte_fallback=in_bytes)


def split_parts(backend: Any, unknown: int) -> dict[int, tuple[int, ...]]:
    """Return the ids of pieces that end in a digit and a comma, and the ids they are split into."""
    parts = {}
    for piece, index in backend.get_vocab(with_added_tokens=False).items():
        if len(piece) < 2 or piece[-1] != "," or not piece[-2].isdigit():
            continue
        # As the slow classes did: encode the number again, without a "▁" that the piece had not.
        pieces = backend.encode(piece[:-1].replace("▁", ""), add_special_tokens=False).tokens
        if piece[0] != "▁" and pieces[0][0] == "▁":
            pieces = [pieces[0][1:], *pieces[1:]] if len(pieces[0]) > 1 else pieces[1:]
        ids = [backend.token_to_id(part) for part in (*pieces, ",")]
        parts[index] = tuple(unknown if part is None else part for part in ids)
    return parts
