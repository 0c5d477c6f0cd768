"""What the slow tokenizers did, rule by rule. Whole tokenizers are compared in test_parity."""

import json
import shutil

import pytest
from sentencepiece import SentencePieceProcessor
from transformers import AutoTokenizer

from bertscore_core import load_tokenizer
from bertscore_core.model.resolve import resolve_model
from bertscore_core.tokenizer.legacy_rules import prepare_bert

ALL_TREATMENTS = ("drop", "punctuation", "ideograph", "accent", "keep")
STAND_IN = "\U00016800"


@pytest.fixture
def spell(tiny_folder, tmp_path):
    """Return a function from family and text to tokens; settings are put into a copied folder."""

    def tokens(family, text, **settings):
        target = tmp_path / family
        shutil.copytree(tiny_folder(family), target, dirs_exist_ok=True)
        stated = target / "tokenizer_config.json"
        stated.write_text(json.dumps(json.loads(stated.read_text()) | settings))
        tokenizer = load_tokenizer(resolve_model(str(target)), max_length="reference")
        return tokenizer.tokens(tokenizer.encode([text]).ids.tolist())

    return tokens


@pytest.mark.parametrize(
    ("raw", "prepared", "reason"),
    [
        ("a\u0378b", "ab", "unassigned in Unicode 14"),
        ("\U0001fae8 a", " a", "assigned in Unicode 15 only, whatever Python runs"),
        ("a\U00013430b", "ab", "a format control newer than the backend's tables"),
        ("a\u07fdb", "ab", "a mark newer than the backend's tables"),
        ("a\u2e5db", "a \u2e5d b", "punctuation newer than the backend's tables"),
        ("a\U0002b820b", "a \U0002b820 b", "an ideograph of extension E"),
        ("a\u166db", "a\U00016800b", "a letter to the slow tokenizer, a mark to the backend"),
        ("a\u1734b", "a\U00016800b", "the same"),
        ("a\U000111c9b", "ab", "an accent to the slow tokenizer, a mark to the backend"),
        ("a\u200bé—河b", "a\u200bé—河b", "what the backend does right is left to it"),
        ("a\ud800b", "a\ud800b", "a lone surrogate stays, to be refused with its place"),
    ],
)
def test_bert_characters(raw, prepared, reason):
    actual = prepare_bert(raw, treatments=ALL_TREATMENTS, composes=False, stand_in=STAND_IN)
    assert actual == prepared, reason


def test_a_letter_that_the_vocabulary_knows_has_no_stand_in(tiny_folder, tmp_path):
    shutil.copytree(tiny_folder("bert"), tmp_path, dirs_exist_ok=True)
    with (tmp_path / "vocab.txt").open("a", encoding="utf-8") as vocabulary:
        vocabulary.write("\u166d\n")
    tokenizer = load_tokenizer(resolve_model(str(tmp_path)))
    assert "\u166d" in tokenizer.tokens(tokenizer.encode(["\u166d"]).ids.tolist())


MASK_SPACE = "mask token takes in the space before it"


@pytest.mark.parametrize(
    ("family", "settings", "text", "expected", "reason"),
    [
        ("bart", {}, "a <mask> a", "<s> a <mask> Ġa </s>", MASK_SPACE),
        ("longformer", {}, "a <mask> a", "<s> a <mask> Ġa </s>", MASK_SPACE),
        ("deberta", {}, "a [MASK] a", "[CLS] a [MASK] Ġa [SEP]", MASK_SPACE),
        ("roberta", {}, "<mask> a", "<s> <mask> Ġa </s>", "the prefix space is taken in, too"),
        ("bart", {"add_prefix_space": True}, "a</s>a", "<s> Ġa </s> a </s>", "prefix: once"),
        ("blenderbot", {}, "a</s>a", "Ġa </s> a </s>", "prefix space and end mark, no start"),
        ("blenderbot", {"add_prefix_space": False}, "a", "a </s>", "no prefix space if none asked"),
        ("blenderbot", {}, "", "</s>", "an empty text has no prefix"),
        # The batched normaliser stops after the longest match, and drops the second mark.
        ("t5", {}, "a\u0308\u0323", "▁ ä <unk> </s>", "all marks of a cluster are normalised"),
        ("t5", {}, "a </s> </s>", "▁a </s> </s>", "end marks of the text are kept"),
    ],
)
def test_tokens_of_a_text(spell, family, settings, text, expected, reason):
    assert spell(family, text, **settings) == expected.split(" "), reason


@pytest.mark.parametrize(
    ("family", "settings", "text", "same_as", "reason"),
    [
        ("distilbert", {}, "e\u0301", "é", "cased tokenizers compose"),
        ("bert", {"strip_accents": False}, "e\u0301", "é", "accents are kept, so composed"),
        ("bert", {}, "a\u07fda", "aa", "new marks are accents, too"),
        ("deberta_v2", {}, "ｗｉｄｅ", "wide", "the model's table folds width"),
        ("mbart", {}, "①②", "12", "the model's table folds circled digits"),
        ("pegasus", {}, "rivers </s> bend", "rivers</s>bend", "no space beside a special token"),
        ("bigbird", {}, "rivers [SEP] bend", "rivers[SEP]bend", "without a table as well"),
        ("mbart_50", {}, "\u200brivers\u200b", "rivers", "what becomes space at an end is nothing"),
        ("albert", {}, "``a''  b", '"a" b', "quotes and space are cleaned"),
        ("albert", {}, "Ä", "a", "lowercased, marks dropped"),
        ("xlnet", {}, "é", "e", "marks dropped"),
        ("t5", {}, "</s>", "", "no second end mark"),
        ("t5", {}, "a </s>", "a", "no second end mark after a text"),
    ],
)
def test_texts_that_are_the_same(spell, family, settings, text, same_as, reason):
    assert spell(family, text, **settings) == spell(family, same_as, **settings), reason


def test_normalisation_table_is_taken_from_tokenizer_json_without_a_model(tiny_folder, tmp_path):
    """Folders without a sentencepiece model keep the table, if their tokenizer.json has it."""
    source = tiny_folder("xlm_roberta")
    AutoTokenizer.from_pretrained(source).save_pretrained(tmp_path)
    for name in ("config.json", "model.safetensors"):
        shutil.copy(source / name, tmp_path)
    texts = ["a\u0308\u0323 ｗｉｄｅ", "\u200brivers </s> bend", "①", ""]
    rows = []
    for path in (source, tmp_path):
        tokenizer = load_tokenizer(resolve_model(str(path)))
        tokens = tokenizer.encode(texts)
        rows.append([tokens.row(index).tolist() for index in range(len(texts))])
    assert rows[0] == rows[1]


def _with_pieces(source, target, pieces, **trainer):
    from sentencepiece import sentencepiece_model_pb2

    shutil.copytree(source, target, dirs_exist_ok=True)
    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString((target / "spiece.model").read_bytes())
    for piece, score, kind in pieces:
        model.pieces.add(piece=piece, score=score, type=kind)
    for name, value in trainer.items():
        setattr(model.trainer_spec, name, value)
    (target / "spiece.model").write_bytes(model.SerializeToString())
    return resolve_model(str(target))


@pytest.mark.parametrize(("family", "trailing"), [("albert", 1), ("xlnet", 2)])
def test_pieces_of_digits_and_comma_are_split(tiny_folder, tmp_path, family, trailing):
    files = _with_pieces(tiny_folder(family), tmp_path, [("▁9,", -0.5, 1), ("9,", -0.5, 1)])
    tokenizer = load_tokenizer(files, max_length="unlimited")
    actual = tokenizer.tokens(tokenizer.encode(["9, 99,"]).ids.tolist())
    assert not any(piece.endswith("9,") for piece in actual)
    assert actual[:-trailing].count(",") == 2
    # Longer by the split, so cut again, with the special tokens kept.
    cut = load_tokenizer(files, max_length=6).encode(["9, 9,", "9,"])
    assert cut.lengths.max() == 6
    assert cut.truncated.tolist() == [True, False]
    assert cut.row(0)[-trailing:].tolist() == cut.row(1)[-trailing:].tolist()


def test_unknown_characters_are_spelled_in_bytes(tiny_folder, tmp_path):
    pieces = [(f"<0x{byte:02X}>", 0.0, 6) for byte in range(256)]
    files = _with_pieces(tiny_folder("mt5"), tmp_path, pieces, byte_fallback=True)
    tokenizer = load_tokenizer(files, max_length="unlimited")
    actual = tokenizer.tokens(tokenizer.encode(["♞"]).ids.tolist())
    assert actual == ["▁", "<0xE2>", "<0x99>", "<0x9E>", "</s>"]
    processor = SentencePieceProcessor(model_file=str(tmp_path / "spiece.model"))
    assert actual[:-1] == processor.encode("♞", out_type=str)


def test_xlm_lowercases_by_character_outside_special_tokens(spell):
    assert spell("xlm", "ΟΔΟΣ") == spell("xlm", "οδοσ")
    assert "<special0>" in spell("xlm", "A<special0>A")
