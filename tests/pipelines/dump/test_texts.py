"""Texts of columns, and texts plainly in another script than a language is written in."""

import pyarrow as pa
import pytest

from bertscore_beam.dump.languages import count_other_scripts, scripts_of
from bertscore_beam.dump.paths import column_of
from bertscore_beam.dump.texts import reference_texts, texts_from_column
from bertscore_core import known_languages
from tests.support.hostile import LIST_KINDS, TEXT_KINDS, not_utf8
from tests.support.tables import BAD, ROWS, every_type


@pytest.mark.parametrize("kind", TEXT_KINDS)
def test_invalid_utf8_is_marked_in_its_row_alone(kind):
    chunks = [not_utf8(kind), pa.nulls(1, not_utf8(kind).type)]
    column = column_of(pa.table({"text": pa.chunked_array(chunks)}), "text")
    assert texts_from_column(column) == ["a cat", BAD, BAD, "ü", None]
    assert texts_from_column(column.slice(1, 2)) == [BAD, BAD]


@pytest.mark.parametrize("kind", LIST_KINDS)
def test_invalid_utf8_is_marked_in_lists(kind):
    lists = column_of(pa.table({"list": not_utf8(kind)}), "list")
    assert reference_texts(lists) == [["a cat"], [BAD], [BAD], ["ü"]]


@pytest.mark.parametrize(
    "name", ["candidate", "large", "view", "dictionary", "nulls"], ids=lambda name: str(name)
)
def test_texts_of_every_text_type(name):
    table = every_type()
    expected = [None] * ROWS if name == "nulls" else table["candidate"].to_pylist()
    column = pa.chunked_array([*table[name].slice(0, 20).chunks, *table[name].slice(20).chunks])
    assert texts_from_column(column) == expected
    singles = [None if text is None else [text] for text in expected]
    assert reference_texts(column) == singles


@pytest.mark.parametrize("name", ["reference", "large_list", "pair"])
def test_texts_of_every_list_type(name):
    column = every_type()[name]
    assert reference_texts(column) == column.to_pylist()
    assert reference_texts(column.slice(3, 11)) == column.to_pylist()[3:14]


def test_lists_of_dictionaries_and_null_pairs_are_read():
    words = pa.array(["x", "y", "x"]).dictionary_encode()
    lists = pa.chunked_array([pa.ListArray.from_arrays([0, 2, 3], words)])
    assert reference_texts(lists) == [["x", "y"], ["x"]]
    pairs = pa.chunked_array([pa.array([["a", "b"], None, ["c", None]], pa.list_(pa.string(), 2))])
    assert reference_texts(pairs) == [["a", "b"], None, ["c", None]]
    assert reference_texts(pairs.slice(1)) == [None, ["c", None]]
    nothing = pa.chunked_array([pa.array([[], None, [None]], pa.list_(pa.null()))])
    assert reference_texts(nothing) == [[], None, [None]]


TEXTS = {
    "en": "The cat sat on the mat and nobody saw why.",
    "de": "Die Straße führt über die Brücke, sagte er.",
    "vi": "Tiếng Việt có nhiều dấu thanh và chữ cái.",
    "ru": "Привет, как у тебя дела сегодня?",
    "el": "Η γάτα κάθισε στο χαλί και κανείς δεν είδε γιατί.",
    "zh": "你好，世界，今天天气很好，我们去公园。",
    "ja": "今日はとても天気がいいですね。散歩に行きましょう。",
    "ko": "안녕하세요 오늘 날씨가 아주 좋네요.",
    "ar": "مرحبا كيف حالك اليوم يا صديقي",
    "hi": "नमस्ते दुनिया आप कैसे हैं आज",
    "th": "สวัสดีครับทุกคน วันนี้อากาศดีมาก",
}


@pytest.mark.parametrize("language", TEXTS)
def test_texts_of_a_language_are_in_its_script_and_others_are_not(language):
    for other, text in TEXTS.items():
        alike = set(scripts_of(language)) & set(scripts_of(other)) or "ja" in (language, other)
        if other == language:
            assert count_other_scripts([text], language) == 0
        elif not alike:
            assert count_other_scripts([text], language) == 1


@pytest.mark.parametrize(
    "text",
    [
        "He said «привет» to Анна, and she laughed at him.",
        "Ναι",
        "東京",
        "123 – 456 … 😀😀😀😀😀😀😀😀😀😀",
        "",
    ],
)
def test_names_quotations_and_signs_are_no_other_script(text):
    assert count_other_scripts([text], "en") == 0


def test_every_language_of_the_registry_has_scripts():
    assert all(scripts_of(language) for language in known_languages())
