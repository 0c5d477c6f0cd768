"""The slow tokenizers of transformers 4, made from the batched ones of transformers 5.

The reference's scores rest on the slow tokenizers, which transformers 5 no longer has. Where its
tokenizers give other ids, the difference is made good here in up to three places: the text is
prepared before the batched backend sees it, parts of the backend are set once at load, and ids are
mended after. A rule sets what the slow class did, whatever the files made of the backend, so it is
the same for folders with a `tokenizer.json`, with the files of the slow class, or with both.

========================  ======================================================================
tokenizer                 what is restored
========================  ======================================================================
BERT and its like         Unicode 14 for controls, accents, punctuation; NFC where accents stay
byte-level BPE            `<mask>` takes in the space before it; a prefix space stands before the
                          text only, not after special tokens; Blenderbot ends in its end mark
sentencepiece unigram     the model's own normalisation, between special tokens; ALBERT's and
                          XLNet's cleaning, and their splitting of `9,`; T5's single end mark;
                          byte fallback
XLM                       lowercasing before everything else, character by character
========================  ======================================================================

What remains: in words of a BERT tokenizer the two code points U+166D and U+1734 (U+111C9 instead
of the latter where accents stay), of 1,112,064, and control characters between a letter and its
mark; special tokens that only normalisation makes (fullwidth `<s>`); a literal U+2581 with
BigBird; U+001C to U+001F before DeBERTa's mask; T5 with `legacy: false` and DeBERTa-v2 with
`split_by_punct`; sentencepiece tokenizers of which the folder has neither the model nor a
`tokenizer.json` with its normalisation table, which the reference could not load either; tokenizer
classes that are named nowhere here.
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import AddedToken, models, normalizers, pre_tokenizers, processors

from bertscore_core.registry import read_table
from bertscore_core.sentencepiece_rules import (
    SENTENCEPIECE,
    fall_back_to_bytes,
    model_proto,
    prepare_sentencepiece,
    split_parts,
)
from bertscore_core.tokens import TokenizedTexts

_REVISION = 1
"""Part of every fingerprint. Raise it when a rule changes in a way its settings do not show."""

_MASK_CLASSES = {"RobertaTokenizer", "BlenderbotTokenizer", "DebertaTokenizer"}
"""Byte-level classes whose mask token took in the space before it. BART, LED and Longformer are
loaded as RobertaTokenizer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyRule:
    """What is done for one tokenizer outside its backend.

    Attributes:
        identity: What decides the ids here and is not seen in the backend; for the fingerprint.
        prepare: Applied to every stripped text; None where nothing is to be done.
        spares_ascii: Whether `prepare` leaves ASCII texts as they are, and so can be passed by.
        end_id: Id that is dropped where two of it end a row.
        parts: Ids that are replaced by several.
        trailing: Special tokens at the end of a row, kept when replacements overflow a row.
    """

    identity: str = ""
    prepare: Callable[[str], str] | None = None
    spares_ascii: bool = False
    end_id: int | None = None
    parts: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    trailing: int = 0

    def prepare_all(self, texts: list[str]) -> list[str]:
        """Apply what is done to texts, to N stripped ones."""
        prepare = self.prepare
        if prepare is None:
            return texts
        if self.spares_ascii:
            return [text if text.isascii() else prepare(text) for text in texts]
        return [prepare(text) for text in texts]

    def mend(self, tokens: TokenizedTexts, max_length: int | None) -> TokenizedTexts:
        """Apply what is done to ids, to N rows that are already cut to `max_length`."""
        if self.end_id is not None:
            tokens = _drop_second_end(tokens, self.end_id)
        if self.parts and np.isin(tokens.ids, list(self.parts)).any():
            tokens = self._replace_parts(tokens, max_length)
        return tokens

    def _replace_parts(self, tokens: TokenizedTexts, max_length: int | None) -> TokenizedTexts:
        rows: list[list[int]] = []
        truncated = tokens.truncated.tolist()
        for index in range(len(tokens)):
            row = [
                part
                for token in tokens.row(index).tolist()
                for part in self.parts.get(token, (token,))
            ]
            if max_length is not None and len(row) > max_length:
                row = row[: max_length - self.trailing] + row[len(row) - self.trailing :]
                truncated[index] = True
            rows.append(row)
        return TokenizedTexts.from_rows(rows, truncated)


def apply_legacy_rule(tokenizer: Any, *, folder: Path, stated: Mapping[str, Any]) -> LegacyRule:
    """Set the parts of a tokenizer's backend, and return what is left to do outside of it.

    Args:
        tokenizer: A tokenizer of transformers 5; its backend is changed.
        folder: Where it was loaded from.
        stated: Content of its tokenizer_config.json.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    name = type(tokenizer).__name__
    if backend is None:
        if name == "XLMTokenizer" and stated.get("do_lowercase_and_remove_accent", True):
            prepare = partial(_lower_by_character, added=_added_tokens(tokenizer))
            return LegacyRule(identity=f"{_REVISION} xlm", prepare=prepare)
        return LegacyRule()
    backend.no_padding()
    backend.no_truncation()
    if isinstance(backend.normalizer, normalizers.BertNormalizer):
        return _bert_rule(backend.normalizer)
    if name in _MASK_CLASSES and isinstance(backend.pre_tokenizer, pre_tokenizers.ByteLevel):
        return _byte_level_rule(tokenizer, stated)
    if name in SENTENCEPIECE and isinstance(backend.model, models.Unigram):
        return _sentencepiece_rule(tokenizer, folder, stated)
    return LegacyRule()


# --- BERT and its like --------------------------------------------------------------------------


def _bert_rule(normalizer: Any) -> LegacyRule:
    accents = normalizer.strip_accents
    strips = normalizer.lowercase if accents is None else accents
    treatments = ["drop", "punctuation"]
    treatments += ["ideograph"] if normalizer.handle_chinese_chars else []
    treatments += ["accent"] if strips else []
    return LegacyRule(
        identity=f"{_REVISION} bert {' '.join(treatments)}",
        prepare=partial(prepare_bert, treatments=tuple(treatments), composes=not strips),
        spares_ascii=True,
    )


def prepare_bert(text: str, *, treatments: tuple[str, ...], composes: bool) -> str:
    """Do to a text what the backend's own character tables would not."""
    difficult, removed, apart = _code_points(treatments)
    if difficult.search(text):
        text = apart.sub(r" \g<0> ", removed.sub("", text))
    return unicodedata.normalize("NFC", text) if composes else text


@cache
def _code_points(treatments: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    """Compile patterns of: every difficult character, those to remove, those to set apart."""
    removed: list[tuple[int, int]] = []
    apart: list[tuple[int, int]] = []
    for row in read_table("codepoints.csv"):
        if row["treatment"] in treatments:
            ends = (int(row["first"], 16), int(row["last"], 16))
            (removed if row["treatment"] in ("drop", "accent") else apart).append(ends)
    # Said by what it is not, so that a common character is found in the first part of the class.
    easy, start = [], 0
    for first, last in sorted(removed + apart):
        if first > start:
            easy.append((start, first - 1))
        start = last + 1
    if start < 0x110000:
        easy.append((start, 0x10FFFF))
    return tuple(
        re.compile(f"[{sign}{_ranges(ends)}]")
        for sign, ends in (("^", easy), ("", removed), ("", apart))
    )


def _ranges(ends: list[tuple[int, int]]) -> str:
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ends)


# --- Byte-level BPE -----------------------------------------------------------------------------


def _byte_level_rule(tokenizer: Any, stated: Mapping[str, Any]) -> LegacyRule:
    backend = tokenizer.backend_tokenizer
    if not isinstance(stated.get("mask_token"), dict):  # else the files say what they want
        mask = AddedToken(str(tokenizer.mask_token), lstrip=True, normalized=False, special=True)
        backend.add_special_tokens([mask])
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(
        add_prefix_space=False, use_regex=backend.pre_tokenizer.use_regex
    )
    if type(tokenizer).__name__ == "BlenderbotTokenizer":
        end = str(tokenizer.eos_token)
        backend.post_processor = processors.TemplateProcessing(
            single=["$A", end], special_tokens=[(end, tokenizer.eos_token_id)]
        )
    return LegacyRule(prepare=_prefix_space if stated.get("add_prefix_space") else None)


def _prefix_space(text: str) -> str:
    return " " + text if text and not text[0].isspace() else text


# --- Sentencepiece ------------------------------------------------------------------------------


def _sentencepiece_rule(tokenizer: Any, folder: Path, stated: Mapping[str, Any]) -> LegacyRule:
    traits = SENTENCEPIECE[type(tokenizer).__name__]
    model = model_proto(folder)
    if model is None:
        return LegacyRule()
    backend = tokenizer.backend_tokenizer
    from sentencepiece import SentencePieceProcessor  # only these tokenizers need the package

    processor = SentencePieceProcessor(model_proto=model)
    lowers = traits.lowers is not None and bool(stated.get("do_lower_case", traits.lowers))
    cleaning = None
    if traits.cleans:
        cleaning = (
            bool(stated.get("remove_space", True)),
            not stated.get("keep_accents", False),
            lowers,
        )
    backend.normalizer = normalizers.Sequence([])
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(" ", "removed"),
            pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always"),
        ]
    )
    if backend.token_to_id("<0x00>") is not None:
        fall_back_to_bytes(backend)
    settings = [lowers, cleaning, hashlib.sha256(model).hexdigest()]
    return LegacyRule(
        identity=f"{_REVISION} sentencepiece {json.dumps(settings)}",
        prepare=partial(
            prepare_sentencepiece,
            added=_added_tokens(tokenizer),
            normalize=processor.normalize,
            lowers=lowers,
            cleaning=cleaning,
        ),
        end_id=tokenizer.eos_token_id if traits.ends_once else None,
        parts=split_parts(backend, tokenizer.unk_token_id) if traits.trailing else {},
        trailing=traits.trailing,
    )


def _drop_second_end(tokens: TokenizedTexts, end_id: int) -> TokenizedTexts:
    ends = tokens.offsets[1:][tokens.lengths > 1] - 1
    doubled = ends[(tokens.ids[ends] == end_id) & (tokens.ids[ends - 1] == end_id)]
    if not doubled.size:
        return tokens
    kept = np.ones(len(tokens.ids), dtype=np.bool_)
    kept[doubled] = False
    before = np.concatenate([[0], np.cumsum(kept)])
    return TokenizedTexts(
        ids=tokens.ids[kept], offsets=before[tokens.offsets], truncated=tokens.truncated
    )


# --- Shared -------------------------------------------------------------------------------------


def _added_tokens(tokenizer: Any) -> re.Pattern[str]:
    """Match the tokens that texts are split at, the longest first; in one group."""
    tokens = {token.content for token in tokenizer.added_tokens_decoder.values()}
    tokens |= set(tokenizer.all_special_tokens)
    return re.compile("(" + "|".join(map(re.escape, sorted(tokens, key=len, reverse=True))) + ")")


def _lower_by_character(text: str, *, added: re.Pattern[str]) -> str:
    pieces = added.split(text)
    pieces[::2] = ["".join(map(str.lower, piece)) for piece in pieces[::2]]
    return "".join(pieces)
