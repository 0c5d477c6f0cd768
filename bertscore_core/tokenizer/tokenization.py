"""Text to token ids, exactly as bert-score 0.3.13 makes them under transformers 4.

transformers 5 ignores the argument `add_prefix_space`, has no slow tokenizers and fails on empty
texts. So the rules are applied here: strip with Python's `str.strip`, put a space before the text
if the model needs it, add special tokens, cut at an explicit length. `legacy_rules` restores what
single tokenizer classes lost.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from transformers import AutoTokenizer

from bertscore_core.errors import ConfigError, InputError, ModelLoadError
from bertscore_core.idf import DocumentFrequencies, IdfTable
from bertscore_core.model.resolve import ModelFiles, read_json
from bertscore_core.scorer_config import MaxLength
from bertscore_core.tokenizer.fast_rules import apply_fast_rule
from bertscore_core.tokenizer.legacy_rules import LegacyRule, apply_legacy_rule
from bertscore_core.tokenizer.words import WORD_END, WordReader, reads_word_by_word
from bertscore_core.tokens import TokenizedTexts, is_encodable, offsets_of
from bertscore_core.windows import WindowShape


def _beginning_of(text: str, size: int) -> str:
    # Up to the first end of a word after `size` characters; all of a text that is not much longer.
    if len(text) <= 2 * size:
        return text
    end = WORD_END.search(text, size)
    return text if end is None else text[: end.end()]


# A `model_max_length` above this means that the tokenizer's files state none.
_NO_LENGTH = 10**9

_CHUNK_TEXTS = 8192
# Most texts and characters given to the tokenizer at once. That is enough for its threads, and
# bounds memory: until a chunk is done it keeps what it cuts off, 150 bytes for each character.
_CHUNK_CHARACTERS = 1 << 20

# Has a token in every vocabulary, if only the unknown one.
_ANY_TEXT = "a"

# Characters of a long text that are tried first, for each token of the maximum length.
_HEAD_CHARACTERS = 32


class TextTokenizer:
    """A model's tokenizer, with the rules of bert-score.

    Attributes:
        max_length: Truncation length in tokens, special ones included; None if texts are not cut.
        windows: The windows of longer texts; None if there are none. Texts are not cut then.
        adds_prefix_space: Whether a space is put before every text that is not empty.
        zero_weight_ids: Ids that weigh 0 without idf: separator and classifier token.
        unknown_ids: Ids that stand for text which the vocabulary lacks; empty if no text can.
        textless_ids: Ids that hold no text: special tokens, and the mark of a space alone, which
            SentencePiece puts before an unknown word.
        pad_id: Id used for padding.
        fingerprint: Digest of everything that decides the ids. 16 hexadecimal digits.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        max_length: int | None,
        adds_prefix_space: bool,
        rule: LegacyRule,
        in_windows: bool,
    ) -> None:
        """Wrap a transformers tokenizer; most callers want `load_tokenizer`."""
        if tokenizer.pad_token_id is None:
            raise ConfigError(
                "the tokenizer has no padding token; expected one, as the reference does. Add "
                "pad_token to its tokenizer_config.json."
            )
        self._tokenizer = tokenizer
        self._backend = getattr(tokenizer, "backend_tokenizer", None)
        self._rule = rule
        self.max_length = None if in_windows else max_length
        self.adds_prefix_space = adds_prefix_space
        self.pad_id: int = tokenizer.pad_token_id
        separators = {tokenizer.sep_token_id, tokenizer.cls_token_id} - {None}
        self.zero_weight_ids: tuple[int, ...] = tuple(sorted(separators))
        # Before truncation is set, which is part of the backend's state but not of the tokenizer.
        self.fingerprint = self._fingerprint()
        if self._backend is not None and self.max_length is not None:
            self._backend.enable_truncation(self.max_length, direction=tokenizer.truncation_side)
        self._reads_heads = self._backend is not None and reads_word_by_word(tokenizer)
        self._words: WordReader | None = None
        self.empty_ids: tuple[int, ...] = tuple(self.encode([""]).ids.tolist())
        special = {*self.empty_ids, *separators, tokenizer.bos_token_id, tokenizer.eos_token_id}
        # Byte-level tokenizers may name a special token as the unknown one, which they never need.
        self.unknown_ids: tuple[int, ...] = tuple(sorted(self._named_unknown() - special))
        self.textless_ids: tuple[int, ...] = tuple(sorted((special | self._spaces()) - {None}))
        self.windows = self._window_shape(max_length) if in_windows and max_length else None
        if self._reads_heads:
            self._words = WordReader.of(self._backend, self.empty_ids, self.max_length)

    @property
    def longest_input(self) -> int | None:
        """Tokens of the longest input that the encoder gets; None if any number."""
        return self.max_length if self.windows is None else self.windows.length

    def encode(self, texts: Sequence[str]) -> TokenizedTexts:
        """Turn N texts into token ids.

        Raises:
            InputError: a text has lone surrogates, which are not characters; the message gives its
                position.
        """
        chunks: list[TokenizedTexts] = []
        for chunk in _chunks(texts):
            try:
                chunks.append(self._encode_chunk(chunk))
            except (TypeError, UnicodeEncodeError) as error:
                # Checked only now: checking every text beforehand would cost time for nothing.
                if all(map(is_encodable, texts)):
                    raise
                raise _surrogates(texts) from error
        return TokenizedTexts.joined(chunks)

    def _encode_chunk(self, texts: Sequence[str]) -> TokenizedTexts:
        prepared = self._rule.prepare_all([self._prepare(text) for text in texts])
        encode = self._encode_one_by_one if self._backend is None else self._encode_batch
        tokens = encode(prepared) if self._words is None else self._words.encode(prepared, encode)
        return self._rule.correct(tokens, self.max_length)

    def count_documents(self, texts: Sequence[str], corpus: str = "") -> IdfTable:
        """Count the document frequencies of texts, each a document; `corpus` names them."""
        return IdfTable(
            frequencies=DocumentFrequencies.from_tokens(self.encode(texts)),
            tokenizer=self.fingerprint,
            max_length=self.max_length,
            corpus=corpus,
        )

    @property
    def num_ids(self) -> int:
        """One more than the highest token id."""
        # Not the size of the vocabulary: ids may have gaps.
        highest: int = max(self._tokenizer.get_vocab().values())
        return highest + 1

    def decode(self, *tokens: int) -> str:
        """Return the text of one token id, or of several that follow each other."""
        return str(self._tokenizer.decode(list(tokens)))

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Return the tokenizer's spelling of token ids."""
        return list(self._tokenizer.convert_ids_to_tokens(list(ids)))

    def _prepare(self, text: str) -> str:
        # bert-score strips before the tokenizer sees the text; an empty text gets no space.
        stripped = text.strip()
        return " " + stripped if stripped and self.adds_prefix_space else stripped

    def _encode_batch(self, prepared: Sequence[str]) -> TokenizedTexts:
        encodings = self._encode_heads(prepared)
        lengths = np.fromiter(map(len, encodings), dtype=np.int64, count=len(encodings))
        ids = chain.from_iterable(encoding.ids for encoding in encodings)
        return TokenizedTexts(
            ids=np.fromiter(ids, dtype=np.int32, count=int(lengths.sum())),
            offsets=offsets_of(lengths),
            truncated=np.array(
                [
                    # A text of exactly the maximum length was not cut.
                    length == self.max_length and bool(encoding.overflowing)
                    for length, encoding in zip(lengths, encodings, strict=True)
                ],
                dtype=np.bool_,
            ),
        )

    def _encode_heads(self, prepared: Sequence[str]) -> list[Any]:
        """Encode texts; of long ones only a beginning: later words do not change the first tokens.

        A text of 10 million characters takes 0.1 s in this way instead of 14 s and 1.3 GB.
        """
        if self.max_length is None or not self._reads_heads:
            return list(self._backend.encode_batch_fast(prepared))  # type: ignore[union-attr]
        size = self.max_length * _HEAD_CHARACTERS
        heads = [_beginning_of(text, size) for text in prepared]
        for head, text in zip(heads, prepared, strict=True):
            if len(head) < len(text):
                text.encode()  # finds lone surrogates in the rest of the text, too
        encodings = list(self._backend.encode_batch_fast(heads))  # type: ignore[union-attr]
        for index, text in enumerate(prepared):
            # Too short, if no token was cut off: try with more of the text.
            while len(heads[index]) < len(text) and not encodings[index].overflowing:
                heads[index] = _beginning_of(text, 4 * len(heads[index]))
                (encodings[index],) = self._backend.encode_batch_fast(  # type: ignore[union-attr]
                    [heads[index]]
                )
        return encodings

    def _encode_one_by_one(self, prepared: Sequence[str]) -> TokenizedTexts:
        rows: list[list[int]] = []
        truncated: list[bool] = []
        for text in prepared:
            ids = self._python_ids(text)
            if self.max_length is not None and len(ids) > self.max_length:
                ids = self._python_ids(text, truncation=True, max_length=self.max_length)
                truncated.append(True)
            else:
                truncated.append(False)
            rows.append(ids)
        return TokenizedTexts.from_rows(rows, truncated)

    def _python_ids(self, text: str, **options: Any) -> list[int]:
        if not text:  # `encode` fails on empty texts
            return list(self._tokenizer.build_inputs_with_special_tokens([]))
        return list(self._tokenizer.encode(text, add_special_tokens=True, **options))

    def _window_shape(self, length: int) -> WindowShape:
        if self._backend is None:
            leading = self._tokenizer.build_inputs_with_special_tokens([-1]).index(-1)
        else:
            # 1 on special tokens that were added, 0 on those of the text.
            added = self._backend.encode(_ANY_TEXT).special_tokens_mask
            if 0 not in added:
                raise ConfigError(
                    "long_text windows cannot be used with this tokenizer: got no token for "
                    f"{_ANY_TEXT!r}; expected one, which shows where special tokens are put. "
                    "Choose long_text truncate."
                )
            leading = added.index(0)
        trailing = len(self.empty_ids) - leading
        return WindowShape(length=length, leading=leading, trailing=trailing)

    def _named_unknown(self) -> set[int]:
        # A generic tokenizer class may name none although the model of its backend has one.
        found = {self._tokenizer.unk_token_id}
        if self._backend is not None:
            name = getattr(self._backend.model, "unk_token", None)
            found.add(name and self._backend.token_to_id(name))
        return found - {None}

    def _spaces(self) -> set[int]:
        token = None if self._backend is None else self._backend.token_to_id(_SPACE)
        # To a vocabulary of words it is a character like others.
        return set() if token is None or self.decode(token).strip() else {token}

    def _fingerprint(self) -> str:
        if self._backend is not None:
            content = self._backend.to_str()
        else:
            vocabulary = sorted(self._tokenizer.get_vocab().items())
            content = json.dumps([type(self._tokenizer).__name__, vocabulary])
        # Vocabularies may hold lone surrogates, which plain UTF-8 refuses.
        digest = hashlib.sha256(content.encode("utf-8", "surrogatepass"))
        digest.update(
            json.dumps(
                [self.adds_prefix_space, self._tokenizer.truncation_side, self._rule.identity]
            ).encode()
        )
        return digest.hexdigest()[:16]


def _chunks(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))  # in characters
    start = 0
    while start < len(texts):
        before = ends[start - 1] if start else 0
        fitting = int(np.searchsorted(ends, before + _CHUNK_CHARACTERS, side="right"))
        stop = max(min(fitting, start + _CHUNK_TEXTS), start + 1)
        yield texts[start:stop]
        start = stop
    if not len(texts):
        yield texts


def load_tokenizer(
    files: ModelFiles,
    *,
    max_length: MaxLength = None,
    adds_prefix_space: bool | None = None,
    trust_remote_code: bool = False,
    fast: bool = False,
    in_windows: bool = False,
) -> TextTokenizer:
    """Load a model's tokenizer and decide its truncation length and prefix space.

    What is not given is taken from the registry, else from the tokenizer itself. `fast` makes the
    ids of transformers 4's fast tokenizer, not of its slow one. `in_windows` cuts no text: the
    length is that of the windows of longer texts.

    Raises:
        ConfigError: no length was given and the tokenizer states none (bert-score would score texts
            of any length or crash in the encoder, depending on the model), or there is no fast
            tokenizer.
        ModelLoadError: the tokenizer's files cannot be read.
    """
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            files.folder, local_files_only=True, trust_remote_code=trust_remote_code
        )
    except Exception as error:
        raise ModelLoadError(
            f"the tokenizer of {files.name} cannot be loaded from {files.folder}: {error}"
        ) from error
    # Without files, transformers 5 makes a tokenizer that has only special tokens.
    if len(tokenizer) <= len(tokenizer.all_special_ids):
        raise ModelLoadError(
            f"the tokenizer of {files.name} cannot be loaded from {files.folder}: got no "
            "vocabulary beside the special tokens; expected tokenizer.json, vocab.txt or the like "
            "there."
        )
    if (backend := getattr(tokenizer, "backend_tokenizer", None)) is not None:
        # Saved settings of either kind would cut or pad texts in addition to what is done here.
        backend.no_padding()
        backend.no_truncation()
    # Of the same backend, since transformers 5 has only one tokenizer for both.
    apply_rule = apply_fast_rule if fast else apply_legacy_rule
    # Done first, since it may change how many special tokens there are.
    rule = apply_rule(tokenizer, folder=files.folder, stated=files.tokenizer_config())
    if adds_prefix_space is None:
        adds_prefix_space = files.adds_prefix_space()
    return TextTokenizer(
        tokenizer,
        max_length=_settle_length(files, tokenizer, max_length),
        adds_prefix_space=adds_prefix_space,
        rule=rule,
        in_windows=in_windows,
    )


def _settle_length(files: ModelFiles, tokenizer: Any, asked: MaxLength) -> int | None:
    if asked == "unlimited":
        return None
    own = files.spec.max_length if files.spec is not None else None
    length = asked if isinstance(asked, int) else own or int(tokenizer.model_max_length)
    if length > _NO_LENGTH:
        if asked == "reference":
            return None
        raise ConfigError(
            f"the tokenizer of {files.name} states no maximum length and none was given. Give "
            f"max_length (--max-length {_usual_length(files)}) to cut texts there"
            + ("." if files.positions else ", or max_length unlimited (--max-length unlimited).")
        )
    if length <= tokenizer.num_special_tokens_to_add():
        raise ConfigError(
            f"max_length {length} leaves no room for a token beside the "
            f"{tokenizer.num_special_tokens_to_add()} special ones of {files.name}."
        )
    return length


def _usual_length(files: ModelFiles) -> int:
    stated = read_json(files.folder / "sentence_bert_config.json").get("max_seq_length")
    return stated if isinstance(stated, int) else files.positions or 512


def _surrogates(texts: Sequence[str]) -> InputError:
    bad = [index for index, text in enumerate(texts) if not is_encodable(text)]
    return InputError(
        f"{len(bad)} texts hold lone surrogates, which are not characters: got the first at "
        f"position {bad[0]} of {len(texts)} texts; expected valid Unicode. Decode the source with "
        "errors='replace'."
    )


# Token ids as words that people can read: bytes and pieces as the characters they stand for.

_SPACE = "▁"
"""Shown for a token that is nothing but white space."""

# Stands for bytes that are not a whole character.
_BROKEN = "\ufffd"

# A character of UTF-8 has at most 4 bytes; with marks and joiners, one token may end in another.
_MOST_PIECES = 8


def readable_tokens(tokenizer: TextTokenizer, ids: Sequence[int]) -> tuple[str, ...]:
    """Return what each token of a text stands for.

    Tokens of a byte-level vocabulary may be parts of one character. They are shown as the character
    and the number of the part, such as `é (1/2)`. A token of white space is `▁`, and a byte that
    belongs to no character is shown as the tokenizer spells it.
    """
    spelled = tokenizer.tokens(ids)
    alone = [tokenizer.decode(token) for token in ids]
    is_part = [_is_part(text, name) for text, name in zip(alone, spelled, strict=True)]
    shown: list[str] = []
    while len(shown) < len(ids):
        start = len(shown)
        if not is_part[start]:
            shown.append(alone[start].strip() or _SPACE)
            continue
        end = _end_of_character(tokenizer, ids, is_part, start)
        if end is None:
            shown.append(spelled[start])
            continue
        whole, count = tokenizer.decode(*ids[start:end]).strip(), end - start
        shown += [f"{whole} ({number}/{count})" for number in range(1, count + 1)]
    return tuple(shown)


def _is_part(text: str, spelled: str) -> bool:
    if _BROKEN in text:
        return True
    # ByT5 gives no text for such a byte; a token of white space is spelled with these.
    return not text.strip() and spelled.strip("▁Ġ \t\r\n") != ""


def _end_of_character(
    tokenizer: TextTokenizer, ids: Sequence[int], is_part: Sequence[bool], start: int
) -> int | None:
    for end in range(start + 1, min(start + _MOST_PIECES, len(ids)) + 1):
        if not is_part[end - 1]:
            return None
        text = tokenizer.decode(*ids[start:end])
        if text.strip() and _BROKEN not in text:
            return end
    return None
