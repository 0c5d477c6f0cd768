"""Texts plainly in another script than a language is written in."""

import pytest

from bertscore_beam.dump import count_other_scripts, scripts_of
from bertscore_core import known_languages

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
