"""The slow tokenizers of transformers 4, made from the batched ones of transformers 5.

The scores of bert-score depend on the slow tokenizers, which transformers 5 no longer has. Its own
tokenizers give other ids for some texts. The difference is removed in up to three places: texts are
prepared before the batched backend reads them, parts of the backend are changed once at load, and
ids are corrected afterwards. A rule does what the slow class did, whatever backend the files gave.

========================  ======================================================================
tokenizer                 what is restored
========================  ======================================================================
BERT and similar models   Unicode 14 for controls, accents, punctuation; NFC if accents are kept;
                          text that lowercasing makes a special token (`</S>` with MPNet) is one
byte-level BPE            `<mask>` eats the space before it; a prefix space is put before the text
                          only, not after special tokens; Blenderbot's texts end in its end mark
sentencepiece unigram     the model's own normalisation, between special tokens; ALBERT's and
                          XLNet's cleaning, and their splitting of `9,`; T5's single end mark;
                          byte fallback
XLM                       lowercasing before everything else, character by character
ProphetNet                `[X_SEP]` is text
========================  ======================================================================

`docs/library-and-training.md` names what is not supported.
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

from bertscore_core.registry import read_table
from bertscore_core.tokenizer.sentencepiece_rules import (
    HIDDEN,
    SENTENCEPIECE,
    AddedTokens,
    model_proto,
    pattern_of,
    prepare_sentencepiece,
    read_added_tokens,
    rebuild_model,
    split_parts,
)
from bertscore_core.tokens import TokenizedTexts, offsets_of

# Part of every fingerprint. Raise it if a rule changes in a way that its settings do not show.
_REVISION = 2

MASK_CLASSES = {"RobertaTokenizer", "BlenderbotTokenizer", "DebertaTokenizer"}
"""Byte-level classes whose mask token eats the space before it. BART, LED and Longformer are loaded
as RobertaTokenizer."""

# What each treatment does to its characters. Those of `mark` are removed if accents are removed,
# and kept otherwise.
_KINDS = {
    "drop": "removed",
    "control": "removed",
    "accent": "removed",
    "punctuation": "apart",
    "ideograph": "apart",
    "keep": "kept",
}

# A letter of the Bamum supplement, which has no case and no marks and is in no vocabulary.
_STAND_IN = "\U00016800"

# White space for Python, but not for the backend.
_SEPARATORS = re.compile("[\x1c-\x1f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyRule:
    """What is done for one tokenizer outside its backend.

    Attributes:
        identity: Everything here that decides the ids and is not part of the backend's state. It
            goes into the fingerprint.
        prepare: Applied to every stripped text; None if there is nothing to do.
        spares_ascii: Whether `prepare` never changes ASCII texts.
        end_id: Id of which one is dropped if a row ends in two.
        parts: Ids that are replaced by several ids.
        trailing: Special tokens at the end of a row, kept if replacements make it too long.
    """

    identity: str = ""
    prepare: Callable[[str], str] | None = None
    spares_ascii: bool = False
    end_id: int | None = None
    parts: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    trailing: int = 0

    def prepare_all(self, texts: list[str]) -> list[str]:
        """Prepare N stripped texts."""
        prepare = self.prepare
        if prepare is None:
            return texts
        if self.spares_ascii:
            return [text if text.isascii() else prepare(text) for text in texts]
        return [prepare(text) for text in texts]

    def correct(self, tokens: TokenizedTexts, max_length: int | None) -> TokenizedTexts:
        """Correct the ids of N texts that are already cut to `max_length`."""
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
                # As if cut after the replacement, with the special tokens at the end kept.
                row = row[: max_length - self.trailing] + row[len(row) - self.trailing :]
                truncated[index] = True
            rows.append(row)
        return TokenizedTexts.from_rows(rows, truncated)


def apply_legacy_rule(tokenizer: Any, *, folder: Path, stated: Mapping[str, Any]) -> LegacyRule:
    """Change the backend of a tokenizer of transformers 5, and return what remains to be done.

    It was loaded from `folder`; `stated` is the content of its tokenizer_config.json.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    name = type(tokenizer).__name__
    if backend is None:
        return _python_rule(tokenizer, folder, stated)
    if isinstance(backend.normalizer, normalizers.BertNormalizer):
        return _bert_rule(tokenizer)
    if name in MASK_CLASSES and isinstance(backend.pre_tokenizer, pre_tokenizers.ByteLevel):
        return _byte_level_rule(tokenizer, folder, stated)
    if name in SENTENCEPIECE and isinstance(backend.model, models.Unigram):
        return _sentencepiece_rule(tokenizer, folder, stated)
    return LegacyRule()


def _python_rule(tokenizer: Any, folder: Path, stated: Mapping[str, Any]) -> LegacyRule:
    name = type(tokenizer).__name__
    added = read_added_tokens(tokenizer, folder=folder, stated=stated, mask_eats=False)
    if name == "XLMTokenizer" and stated.get("do_lowercase_and_remove_accent", True):
        return LegacyRule(identity=f"{_REVISION} xlm", prepare=added.lower)
    if name == "ProphetNetTokenizer" and stated.get("do_lower_case", True):
        return LegacyRule(identity=f"{_REVISION} prophetnet", prepare=_lower_second_separator)
    return LegacyRule()


def _lower_second_separator(text: str) -> str:
    # Keep ProphetNet's second separator text: in transformers 4 it was not an added token.
    return text.replace("[X_SEP]", "[x_sep]")


# --- BERT and its like --------------------------------------------------------------------------


def _bert_rule(tokenizer: Any) -> LegacyRule:
    normalizer = tokenizer.backend_tokenizer.normalizer
    accents = normalizer.strip_accents
    strips = normalizer.lowercase if accents is None else accents  # BERT's own default
    treatments = ["drop", "punctuation", "keep"]
    treatments += ["ideograph"] if normalizer.handle_chinese_chars else []
    treatments += ["accent"] if strips else ["control"]
    prepare = partial(
        prepare_bert,
        treatments=tuple(treatments),
        composes=not strips,
        stand_in=_stand_in(tokenizer),
    )
    # The backend finds special tokens before it lowercases, the slow class found them after.
    specials = _lower_specials(tokenizer) if normalizer.lowercase else frozenset()
    if specials:
        pattern = re.compile(pattern_of(set(specials)).pattern, re.IGNORECASE)
        prepare = partial(_lower_then, prepare=prepare, pattern=pattern, specials=specials)
    return LegacyRule(
        identity=f"{_REVISION} bert {' '.join([*treatments, *sorted(specials)])}",
        prepare=prepare,
        spares_ascii=not specials,
    )


def prepare_bert(
    text: str, *, treatments: tuple[str, ...], composes: bool, stand_in: str | None = None
) -> str:
    """Do to a stripped text what the backend's older character tables would not do.

    Args:
        text: The text.
        treatments: What is done to characters, by the names of `codepoints.csv`.
        composes: Whether letters and their marks are composed (NFC).
        stand_in: Replaces letters that the backend takes for marks or punctuation. It is another
            letter that is not in the vocabulary, so that both become the unknown token.
    """
    difficult, removed, apart, kept = _code_points(treatments)
    if difficult.search(text):
        text = apart.sub(r" \g<0> ", removed.sub("", text))
        text = text if stand_in is None else kept.sub(stand_in, text)
    return unicodedata.normalize("NFC", text) if composes else text


def _stand_in(tokenizer: Any) -> str | None:
    known = set().union(*tokenizer.backend_tokenizer.get_vocab())
    letters = (
        chr(code)
        for row in read_table("codepoints.csv")
        if row["treatment"] in ("keep", "mark")
        for code in range(int(row["first"], 16), int(row["last"], 16) + 1)
    )
    return None if _STAND_IN in known or known.intersection(letters) else _STAND_IN


def _lower_specials(tokenizer: Any) -> frozenset[str]:
    tokens = (token.content for token in tokenizer.added_tokens_decoder.values())
    return frozenset(token for token in tokens if token == token.lower() != token.upper())


def _lower_then(
    text: str, *, pattern: re.Pattern[str], specials: frozenset[str], prepare: Callable[[str], str]
) -> str:
    def lowered(match: re.Match[str]) -> str:
        token = "".join(map(str.lower, match[0]))
        return token if token in specials else match[0]

    text = pattern.sub(lowered, text)
    return text if text.isascii() else prepare(text)


@cache
def _code_points(treatments: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    kinds: dict[str, list[tuple[int, int]]] = {"removed": [], "apart": [], "kept": []}
    for row in read_table("codepoints.csv"):
        treatment = row["treatment"]
        if treatment == "mark":
            treatment = "accent" if "accent" in treatments else "keep"
        if treatment in treatments:
            ends = (int(row["first"], 16), int(row["last"], 16))
            kinds[_KINDS[treatment]].append(ends)
    # As the complement of the easy characters: common ones are then decided by the first range of
    # the class, which is fast.
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
    # The prefix space is put by `prepare`: the backend would put one after every special token.
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
    """Set whether the mask token eats the space before it."""
    mask = AddedToken(str(tokenizer.mask_token), lstrip=eats, normalized=False, special=True)
    tokenizer.backend_tokenizer.add_special_tokens([mask])


def set_end_mark(tokenizer: Any) -> None:
    """Let Blenderbot's texts end in the end mark. Other classes are not changed."""
    if type(tokenizer).__name__ == "BlenderbotTokenizer":
        end = str(tokenizer.eos_token)
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single=["$A", end], special_tokens=[(end, tokenizer.eos_token_id)]
        )


def _prepare_byte_level(text: str, *, added: AddedTokens, prefixes: bool) -> str:
    if prefixes and text and not text[0].isspace():
        text = " " + text
    # Other white space the backend strips itself.
    return added.strip(text) if _SEPARATORS.search(text) else text


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
    # Texts reach the backend normalised, so all that is left is to remove the marks in them.
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
    ends = tokens.offsets[1:][tokens.lengths > 1] - 1  # last tokens, of rows with at least two
    doubled = ends[(tokens.ids[ends] == end_id) & (tokens.ids[ends - 1] == end_id)]
    if not doubled.size:
        return tokens
    kept = np.ones(len(tokens.ids), dtype=np.bool_)
    kept[doubled] = False
    before = offsets_of(kept)  # tokens kept before each position
    return TokenizedTexts(
        ids=tokens.ids[kept], offsets=before[tokens.offsets], truncated=tokens.truncated
    )
