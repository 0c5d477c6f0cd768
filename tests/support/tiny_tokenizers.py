"""Small tokenizers of every kind, made from a built-in corpus without any download.

Each of `WRITERS` writes the vocabulary files that a checkpoint of that kind carries on the hub, so
that every version of transformers loads them through its own code path. Nothing here depends on
transformers; sentencepiece only lends its normalisation table to the unigram models.
"""

from __future__ import annotations

import io
import json
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

CORPUS = tuple(
    Path(__file__).with_name("tiny_corpus.txt").read_text(encoding="utf-8").split("\n")[:-1]
)
"""Own sentences in the scripts that the golden texts use; changing one changes every model."""

MERGES: dict[str, list[tuple[str, str]]] = json.loads(
    Path(__file__).with_name("tiny_merges.json").read_text(encoding="utf-8")
)
"""Pairs learned from the corpus, the most frequent first, then by their order: of bytes, of letters
in words that end in `</w>`, and of letters in words that begin with `▁`."""

# Llama's splitting of texts, which EuroBERT and Qwen have with small changes.
_LLAMA_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+|\s+"
)

WORDS = (
    "the rivers bend old stones cat on roof and was a in of to it slow ly ing ed er s "
    "sch ein über вечер дожд και μου today harbour pilot tide"
)


def write_json(path: Path, value: object) -> None:
    """Write JSON with a stable layout."""
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _characters(*, lower: bool) -> list[str]:
    text = "".join(CORPUS)
    if lower:
        text = unicodedata.normalize("NFD", text.lower())
    return sorted({char for char in text if not char.isspace()})


def write_wordpiece(
    folder: Path, *, file: str, specials: Sequence[str], lower: bool, last: str = ""
) -> None:
    """Write special tokens, characters, continued characters and a few words."""
    chars = _characters(lower=lower)
    words = WORDS.split()
    pieces = [*specials, *chars, *words, *(f"##{piece}" for piece in (*chars, *words))]
    unique = dict.fromkeys([*pieces, last] if last else pieces)
    (folder / file).write_text("".join(f"{piece}\n" for piece in unique), encoding="utf-8")


def write_byte_bpe(folder: Path, *, first: Sequence[str], last: Sequence[str]) -> None:
    """Write ``vocab.json`` and ``merges.txt`` of a byte-level BPE that covers all bytes."""
    alphabet, merges = pre_tokenizers.ByteLevel.alphabet(), MERGES["bytes"]
    pieces = [*first, *sorted(alphabet), *(a + b for a, b in merges), *last]
    write_bpe(folder, pieces, merges, header="#version: 0.2\n")


def write_byte_json(
    folder: Path, *, specials: Sequence[str], template: Sequence[str], splits: bool = False
) -> None:
    """Write a byte-level BPE as `tokenizer.json`, as encoders of today have it.

    Args:
        folder: Where the file goes.
        specials: Special tokens.
        template: What a text becomes: special tokens, and `$A` for the text itself.
        splits: Split texts by a pattern of its own, as Llama does, not by that of GPT-2.
    """
    write_byte_bpe(folder, first=specials, last=())
    files = folder / "vocab.json", folder / "merges.txt"
    backend = Tokenizer(models.BPE.from_file(*map(str, files)))
    for file in files:
        file.unlink()
    bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not splits)
    words = pre_tokenizers.Split(Regex(_LLAMA_WORDS), "isolated")
    backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = pre_tokenizers.Sequence([words, bytes_only]) if splits else bytes_only
    backend.add_special_tokens(list(specials))
    backend.post_processor = processors.TemplateProcessing(
        single=list(template),
        special_tokens=[(name, backend.token_to_id(name)) for name in template if name != "$A"],
    )
    backend.save(str(folder / "tokenizer.json"))


def write_word_bpe(folder: Path, *, first: Sequence[str], continued: bool) -> None:
    """Write a BPE over characters with ``</w>`` word ends (XLM), or ``@@`` pieces (Blenderbot).

    With `continued`, entries are ``piece@@`` inside a word and ``piece`` at its end.
    """
    chars = _characters(lower=True)
    merges = MERGES["ends"]
    pieces = [*chars, *(char + "</w>" for char in chars), *(a + b for a, b in merges)]
    if continued:
        pieces = [p[: -len("</w>")] if p.endswith("</w>") else p + "@@" for p in pieces]
    header = "#version: 0.2\n" if continued else ""
    write_bpe(folder, [*first, *pieces], merges, header=header)


def write_bpe(
    folder: Path, pieces: Sequence[str], merges: Sequence[tuple[str, str]], *, header: str
) -> None:
    unique = dict.fromkeys(pieces)
    write_json(folder / "vocab.json", {piece: index for index, piece in enumerate(unique)})
    lines = "".join(f"{a} {b}\n" for a, b in merges)
    (folder / "merges.txt").write_text(header + lines, encoding="utf-8")


def write_unigram(
    folder: Path,
    *,
    file: str,
    rule: str = "nmt_nfkc",
    control: Sequence[str] = (),
    user_defined: Sequence[str] = (),
    **roles: tuple[int, str],
) -> None:
    """Write a sentencepiece unigram model made from the corpus.

    The model is put together by hand, not trained: trainers of different sentencepiece versions
    order pieces differently. Only the normalisation table comes from the library.

    Args:
        folder: Where the file goes.
        file: Its name.
        rule: Name of the normalisation table.
        control: Pieces that no text can contain.
        user_defined: Pieces that are cut out of texts whole.
        **roles: Id and piece of `unk`, `bos`, `eos` and `pad`; `unk` is `<unk>`, 0 by default.
    """
    from sentencepiece import sentencepiece_model_pb2

    roles = {"unk": (0, "<unk>"), **roles}
    model = sentencepiece_model_pb2.ModelProto()
    kinds = model.SentencePiece
    named = {
        piece: kinds.UNKNOWN if piece == roles["unk"][1] else kinds.CONTROL
        for _, piece in sorted(map(tuple, roles.values()))
    }
    named |= dict.fromkeys(control, kinds.CONTROL) | dict.fromkeys(user_defined, kinds.USER_DEFINED)
    for piece, kind in named.items():
        model.pieces.add(piece=piece, score=0.0, type=kind)
    merges = [a + b for a, b in MERGES["starts"]]
    # Distinct scores, exact in float32, better for frequent and for longer pieces.
    for start, pieces in ((-2, merges), (-8, ["▁", *_characters(lower=False)])):
        for rank, piece in enumerate(pieces):
            if piece not in named:
                model.pieces.add(piece=piece, score=start - rank / 64, type=kinds.NORMAL)
    model.trainer_spec.model_type = model.trainer_spec.UNIGRAM
    model.trainer_spec.vocab_size = len(model.pieces)
    for role in ("unk", "bos", "eos", "pad"):
        number, piece = roles.get(role, (-1, None))
        setattr(model.trainer_spec, f"{role}_id", number)
        if piece is not None:
            setattr(model.trainer_spec, f"{role}_piece", piece)
    model.normalizer_spec.ParseFromString(_normalizer_spec(rule))
    (folder / file).write_bytes(model.SerializeToString())


@lru_cache
def _normalizer_spec(rule: str) -> bytes:
    """Return the settings of a normaliser, as sentencepiece compiles them into a model."""
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2

    trained = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a b c"] * 9),
        model_writer=trained,
        vocab_size=8,
        hard_vocab_limit=False,
        normalization_rule_name=rule,
        minloglevel=2,
    )
    model = sentencepiece_model_pb2.ModelProto.FromString(trained.getvalue())
    spec: bytes = model.normalizer_spec.SerializeToString()
    return spec


WRITERS: dict[str, Callable[..., None]] = {
    "wordpiece": write_wordpiece,
    "byte_bpe": write_byte_bpe,
    "byte_json": write_byte_json,
    "word_bpe": write_word_bpe,
    "unigram": write_unigram,
}
"""By the `kind` of a vocabulary in tiny_families.yaml."""
