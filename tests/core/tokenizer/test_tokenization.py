"""Text to ids: the reference's rules, in batches."""

import time
from unittest import mock

import pytest
from hypothesis import given, strategies as st

from bertscore_core import ConfigError, InputError, ModelLoadError, load_tokenizer
from bertscore_core.model.resolve import resolve_model
from bertscore_core.tokenizer import tokenization, words


@pytest.fixture
def tiny(tiny_folder):
    """Return a function that finds the files of a family's tiny model."""
    return lambda family: resolve_model(str(tiny_folder(family)))


@pytest.mark.parametrize(
    ("raw", "same_as"),
    [
        ("  a cat \n", "a cat"),
        ("\u00a0a cat\u3000", "a cat"),
        ("\x1ca cat\x1f", "a cat"),
        ("   ", ""),
    ],
)
def test_text_is_stripped_as_python_does(scorer, raw, same_as):
    ids = scorer.tokenizer.encode([raw, same_as])
    assert ids.row(0).tolist() == ids.row(1).tolist()


def test_long_text_is_cut_and_marked(scorer):
    tokens = scorer.tokenizer.encode(["word " * 600, "word " * 510, "short"])
    assert tokens.lengths.tolist() == [512, 512, 3]
    assert tokens.truncated.tolist() == [True, False, False]


HEADS = ["bert", "distilbert", "roberta", "xlm_roberta", "albert", "t5", "blenderbot", "bigbird"]
MARKS = "\n \u00a0\u0301\u0600\u0d4e\u200b\u3000猫がカﾞéßİΣक्\U0001f600\u200d\x00\u2581"
WORDS = ["a", "the", "cat.", "  ", "``", "[SEP]", "</s>", "<mask>", "[MASK]", "<pad>", "'s", "9,"]
PIECES = st.sampled_from([*MARKS, *WORDS])


@pytest.fixture(scope="module", params=HEADS)
def cutting(request, tiny_folder):
    """Return a tokenizer that reads the beginning of long texts only."""
    files = resolve_model(str(tiny_folder(request.param)))
    tokenizer = load_tokenizer(files, max_length=12)
    assert tokenizer._reads_heads
    return tokenizer


@given(st.lists(st.lists(PIECES, max_size=90).map("".join), min_size=1, max_size=4))
def test_beginning_of_a_long_text_gives_the_ids_of_the_whole(cutting, texts):
    with mock.patch.object(tokenization, "_HEAD_CHARACTERS", 1):
        heads = cutting.encode(texts)
    with mock.patch.object(cutting, "_reads_heads", False):
        whole = cutting.encode(texts)
    assert heads.ids.tolist() == whole.ids.tolist()
    assert heads.truncated.tolist() == whole.truncated.tolist()


def test_very_long_text_is_cut_in_no_time(scorer):
    text = "the cat sat on a mat " * 500_000
    started = time.process_time()
    tokens = scorer.tokenizer.encode([text, text[:20_000]])
    assert time.process_time() - started < 3  # 0.02 s; 14 s if all of it is read
    assert tokens.row(0).tolist() == tokens.row(1).tolist()
    assert tokens.truncated.tolist() == [True, True]


@pytest.mark.parametrize(
    ("step", "splits"),
    [
        (None, False),
        ({"type": "Punctuation"}, False),
        ({"type": "ByteLevel", "use_regex": False}, False),
        ({"type": "Metaspace", "split": False}, False),
        ({"type": "Metaspace", "split": True}, True),
        ({"type": "Sequence", "pretokenizers": [{"type": "Whitespace"}, {"type": "Digits"}]}, True),
        (
            {"type": "Sequence", "pretokenizers": [{"type": "Digits"}, {"type": "Whitespace"}]},
            False,
        ),
    ],
)
def test_texts_are_cut_only_for_what_splits_at_spaces_first(step, splits):
    assert words.splits_at_spaces(step) is splits


@pytest.mark.parametrize("family", ["bert", "byt5", "prophetnet"])
def test_given_length_is_kept_with_and_without_a_batched_backend(tiny, family):
    tokenizer = load_tokenizer(tiny(family), max_length=5)
    tokens = tokenizer.encode(["one two three four five six", "a", ""])
    assert tokens.lengths.max() == 5
    assert tokens.truncated.tolist() == [True, False, False]
    whole = load_tokenizer(tiny(family), max_length="unlimited")
    assert whole.max_length is None
    assert whole.encode(["word " * 99]).lengths[0] > 99


@pytest.mark.parametrize("family", ["deberta", "xlnet"])
def test_tokenizer_without_length_is_an_error_until_one_is_given(tiny, family):
    with pytest.raises(ConfigError, match="states no maximum length and none was given"):
        load_tokenizer(tiny(family))
    assert load_tokenizer(tiny(family), max_length=20).max_length == 20
    assert load_tokenizer(tiny(family), max_length="reference").max_length is None


def test_prefix_space_follows_the_models_files_and_can_be_overridden(tiny):
    expected = {"roberta": True, "bart": False, "longformer": False, "xlm_roberta": False}
    for family, adds in expected.items():
        assert load_tokenizer(tiny(family)).adds_prefix_space is adds
    without = load_tokenizer(tiny("roberta"), adds_prefix_space=False)
    with_space = load_tokenizer(tiny("roberta"))
    assert without.encode(["return"]).ids.tolist() != with_space.encode(["return"]).ids.tolist()
    assert without.encode([" "]).ids.tolist() == with_space.encode([""]).ids.tolist()
    assert without.fingerprint != with_space.fingerprint


def test_batches_do_not_change_ids(scorer):
    texts = [f"text number {number} " * (number % 7) for number in range(9000)]
    together = scorer.tokenizer.encode(texts)
    assert len(together) == 9000
    for index in (0, 1, 8191, 8192, 8999):
        alone = scorer.tokenizer.encode([texts[index]])
        assert together.row(index).tolist() == alone.ids.tolist()


def test_lone_surrogates_are_refused_without_the_text(scorer):
    with pytest.raises(InputError, match=r"1 texts hold lone .*position 1 of 2 texts") as caught:
        scorer.tokenizer.encode(["fine", "secret \ud800"])
    assert "secret" not in str(caught.value)


def test_folder_without_tokenizer_is_named(tiny, tmp_path):
    source = tiny("bert").folder
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((source / name).read_bytes())
    with pytest.raises(ModelLoadError, match=r"tokenizer of .* cannot be loaded"):
        load_tokenizer(resolve_model(str(tmp_path)))
