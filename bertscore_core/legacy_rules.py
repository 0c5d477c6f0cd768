"""The slow tokenizers of transformers 4, made from the batched ones of transformers 5.

The reference's scores depend on the slow tokenizers, which transformers 5 no longer has. Where its
tokenizers give other ids, the difference is removed here in up to three places: the text is
prepared before the batched backend sees it, parts of the backend are set once at load, and ids are
corrected after it. A rule sets what the slow class did, whatever the files made of the backend, so
it is the same for folders with a `tokenizer.json`, with the files of the slow class, or with both.

========================  ======================================================================
tokenizer                 what is restored
========================  ======================================================================
BERT and similar models   Unicode 14 for controls, accents, punctuation; NFC where accents stay;
                          what is a special token once lowercased (`</S>` with MPNet) is one
byte-level BPE            `<mask>` takes in the space before it; a prefix space is put before the
                          text only, not after special tokens; Blenderbot ends in its end mark
sentencepiece unigram     the model's own normalisation, between special tokens; ALBERT's and
                          XLNet's cleaning, and their splitting of `9,`; T5's single end mark;
                          byte fallback
XLM                       lowercasing before everything else, character by character
ProphetNet                `[X_SEP]` is text
========================  ======================================================================

What remains: T5 with `legacy: false` and DeBERTa-v2 with `split_by_punct`; a BERT vocabulary that
holds U+166D, U+1734 or U+111C9, which the backend takes for other kinds of characters;
sentencepiece tokenizers of which the folder has neither the model nor a `tokenizer.json` with its
normalisation table, which the reference could not load either; tokenizer classes that are named
nowhere here.
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import AddedToken, models, normalizers, pre_tokenizers, processors

from bertscore_core.added_tokens import HIDDEN, AddedTokens, pattern_of, read_added_tokens
from bertscore_core.registry import read_table
from bertscore_core.sentencepiece_rules import (
    SENTENCEPIECE,
    model_proto,
    prepare_sentencepiece,
    rebuild_model,
    split_parts,
)
from bertscore_core.tokens import TokenizedTexts

_REVISION = 2
"""Part of every fingerprint. Raise it when a rule changes in a way its settings do not show."""

MASK_CLASSES = {"RobertaTokenizer", "BlenderbotTokenizer", "DebertaTokenizer"}
"""Byte-level classes whose mask token took in the space before it. BART, LED and Longformer are
loaded as RobertaTokenizer."""

_KINDS = {
    "drop": "removed",
    "control": "removed",
    "accent": "removed",
    "punctuation": "apart",
    "ideograph": "apart",
    "keep": "kept",
}
"""What is done to the characters of a treatment; `mark` is removed where accents are, else kept."""

_STAND_IN = "\U00016800"
"""A letter of the Bamum supplement: without case, marks or a place in vocabularies."""

_SEPARATORS = re.compile("[\x1c-\x1f]")
"""White space to Python, and none to the backend."""


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
        return _python_rule(tokenizer, folder, stated)
    backend.no_padding()
    backend.no_truncation()
    if isinstance(backend.normalizer, normalizers.BertNormalizer):
        return _bert_rule(tokenizer)
    if name in MASK_CLASSES and isinstance(backend.pre_tokenizer, pre_tokenizers.ByteLevel):
        return _byte_level_rule(tokenizer, folder, stated)
    if name in SENTENCEPIECE and isinstance(backend.model, models.Unigram):
        return _sentencepiece_rule(tokenizer, folder, stated)
    return LegacyRule()


def _python_rule(tokenizer: Any, folder: Path, stated: Mapping[str, Any]) -> LegacyRule:
    """Return the rule of a class that has no backend in either version of transformers."""
    name = type(tokenizer).__name__
    added = read_added_tokens(tokenizer, folder=folder, stated=stated, mask_eats=False)
    if name == "XLMTokenizer" and stated.get("do_lowercase_and_remove_accent", True):
        return LegacyRule(identity=f"{_REVISION} xlm", prepare=added.lower)
    if name == "ProphetNetTokenizer" and stated.get("do_lower_case", True):
        return LegacyRule(identity=f"{_REVISION} prophetnet", prepare=_lower_second_separator)
    return LegacyRule()


def _lower_second_separator(text: str) -> str:
    """Keep ProphetNet's second separator from being an added token, which it was not."""
    return text.replace("[X_SEP]", "[x_sep]")


# --- BERT and its like --------------------------------------------------------------------------


def _bert_rule(tokenizer: Any) -> LegacyRule:
    normalizer = tokenizer.backend_tokenizer.normalizer
    accents = normalizer.strip_accents
    strips = normalizer.lowercase if accents is None else accents
    treatments = ["drop", "punctuation", "keep"]
    treatments += ["ideograph"] if normalizer.handle_chinese_chars else []
    treatments += ["accent"] if strips else ["control"]
    prepare = partial(
        prepare_bert,
        treatments=tuple(treatments),
        composes=not strips,
        stand_in=_stand_in(tokenizer),
    )
    specials = _lower_specials(tokenizer) if normalizer.lowercase else frozenset()
    if specials:
        prepare = partial(_lower_then, prepare=prepare, **_case_blind(specials))
    return LegacyRule(
        identity=f"{_REVISION} bert {' '.join([*treatments, *sorted(specials)])}",
        prepare=prepare,
        spares_ascii=not specials,
    )


def prepare_bert(
    text: str, *, treatments: tuple[str, ...], composes: bool, stand_in: str | None = None
) -> str:
    """Change in a text what the backend's own character tables would not change.

    Args:
        text: A stripped text.
        treatments: What is done to characters, by the names of `codepoints.csv`.
        composes: Whether letters and their marks are composed.
        stand_in: The replacement for letters that the backend takes for marks or punctuation: a
            letter that is not in the vocabulary either. None: they are left as they are.
    """
    difficult, removed, apart, kept = _code_points(treatments)
    if difficult.search(text):
        text = apart.sub(r" \g<0> ", removed.sub("", text))
        text = text if stand_in is None else kept.sub(stand_in, text)
    return unicodedata.normalize("NFC", text) if composes else text


def _stand_in(tokenizer: Any) -> str | None:
    """Choose a letter for `prepare_bert`, or none if the vocabulary knows the replaced one."""
    known = set().union(*tokenizer.backend_tokenizer.get_vocab())
    kept = (
        chr(code)
        for row in read_table("codepoints.csv")
        if row["treatment"] in ("keep", "mark")
        for code in range(int(row["first"], 16), int(row["last"], 16) + 1)
    )
    return None if _STAND_IN in known or known.intersection(kept) else _STAND_IN


def _lower_specials(tokenizer: Any) -> frozenset[str]:
    """Return the added tokens that lowercasing can make of other texts, such as `</s>`."""
    tokens = (token.content for token in tokenizer.added_tokens_decoder.values())
    return frozenset(token for token in tokens if token == token.lower() != token.upper())


def _case_blind(specials: frozenset[str]) -> dict[str, Any]:
    pattern = re.compile(pattern_of(set(specials)).pattern, re.IGNORECASE)
    return {"pattern": pattern, "specials": specials}


def _lower_then(
    text: str,
    *,
    pattern: re.Pattern[str],
    specials: frozenset[str],
    prepare: Callable[[str], str],
) -> str:
    """Lowercase what then is an added token, before the rest is prepared."""

    def lowered(match: re.Match[str]) -> str:
        token = "".join(map(str.lower, match[0]))
        return token if token in specials else match[0]

    text = pattern.sub(lowered, text)
    return text if text.isascii() else prepare(text)


@cache
def _code_points(treatments: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    """Compile patterns of: all difficult characters, those to remove, to set apart, to keep."""
    kinds: dict[str, list[tuple[int, int]]] = {"removed": [], "apart": [], "kept": []}
    for row in read_table("codepoints.csv"):
        treatment = row["treatment"]
        if treatment == "mark":
            treatment = "accent" if "accent" in treatments else "keep"
        if treatment in treatments:
            ends = (int(row["first"], 16), int(row["last"], 16))
            kinds[_KINDS[treatment]].append(ends)
    # Said by what it is not, so that a common character is found in the first part of the class.
    easy, start = [], 0
    for first, last in sorted(chain.from_iterable(kinds.values())):
        if first > start:
            easy.append((start, first - 1))
        start = last + 1
    if start < 0x110000:
        easy.append((start, 0x10FFFF))
    return tuple(
        re.compile(f"[{sign}{_ranges(ends)}]" if ends else "(?!)")
        for sign, ends in (("^", easy), *(("", ends) for ends in kinds.values()))
    )


def _ranges(ends: list[tuple[int, int]]) -> str:
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ends)


# --- Byte-level BPE -----------------------------------------------------------------------------


def _byte_level_rule(tokenizer: Any, folder: Path, stated: Mapping[str, Any]) -> LegacyRule:
    backend = tokenizer.backend_tokenizer
    added = read_added_tokens(tokenizer, folder=folder, stated=stated, mask_eats=True)
    set_mask(tokenizer, eats=str(tokenizer.mask_token) in added.eat_left)
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(
        add_prefix_space=False, use_regex=backend.pre_tokenizer.use_regex
    )
    set_end_mark(tokenizer)
    prefixes = bool(stated.get("add_prefix_space"))
    return LegacyRule(
        identity=f"{_REVISION} byte-level",
        prepare=partial(_prepare_byte_level, added=added, prefixes=prefixes),
    )


def set_mask(tokenizer: Any, *, eats: bool) -> None:
    """Say whether the mask token takes in the space before it."""
    mask = AddedToken(str(tokenizer.mask_token), lstrip=eats, normalized=False, special=True)
    tokenizer.backend_tokenizer.add_special_tokens([mask])


def set_end_mark(tokenizer: Any) -> None:
    """Have Blenderbot's texts end in the end mark; other classes stay as they are."""
    if type(tokenizer).__name__ == "BlenderbotTokenizer":
        end = str(tokenizer.eos_token)
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single=["$A", end], special_tokens=[(end, tokenizer.eos_token_id)]
        )


def _prepare_byte_level(text: str, *, added: AddedTokens, prefixes: bool) -> str:
    text = _prefix_space(text) if prefixes else text
    return added.strip(text) if _SEPARATORS.search(text) else text


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
    lowers = traits.lowercases(stated)
    cleaning = None
    if traits.cleans:
        cleaning = (
            bool(stated.get("remove_space", True)),
            not stated.get("keep_accents", False),
            lowers,
        )
    backend.normalizer = normalizers.Replace(HIDDEN, "")
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(" ", "removed"),
            pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always"),
        ]
    )
    added = read_added_tokens(tokenizer, folder=folder, stated=stated, mask_eats=traits.mask_eats)
    rebuild_model(backend, added)
    settings = [lowers, cleaning, hashlib.sha256(model).hexdigest()]
    return LegacyRule(
        identity=f"{_REVISION} sentencepiece {json.dumps(settings)}",
        prepare=partial(
            prepare_sentencepiece,
            added=added,
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
